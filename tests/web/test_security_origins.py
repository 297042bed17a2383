"""Whom a request comes from, as far as a browser tells: names of this house, other sites, tokens."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from app.web.middleware import guarded
from app.web.origins import comes_from_elsewhere, is_at_home, is_ours, is_own_origin
from tests.support.desk import HERE, Desk, Visitor, desk


async def done(request: Request) -> Response:
    return PlainTextResponse("done")


@pytest.fixture
async def there(tmp_path: Path) -> AsyncIterator[Desk]:
    async with desk(tmp_path, allowed_hosts=("desk.example.org",)) as made:
        methods = ["GET", "POST", "PUT", "PATCH", "DELETE"]
        yield made.with_routes(
            [
                Route("/change", guarded(done, "member", "all"), methods=methods),
                Route("/api/v1/change", guarded(done, "member", "all"), methods=methods),
                Route("/enter", guarded(done, "nobody", "all"), methods=methods),
            ]
        )


# --- names ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host",
    [
        *(
            "localhost",
            "localhost:8787",
            "LOCALHOST",
            "app.localhost:1",
            "127.0.0.1:8787",
            "127.8.9.1",
            "[::1]:8787",
        ),
        *("10.0.0.5", "172.16.0.1:80", "172.31.255.255", "192.168.1.20:8787", "169.254.3.4", "100.64.0.1"),
        *(
            "[fd12:3456::1]",
            "[fe80::1]:8787",
            "nas",
            "nas:8787",
            "nas.local",
            "nas.test:8787",
            "box.home.arpa",
        ),
        *("nas.lan", "desk.internal", "desk.example.org", "Desk.Example.Org:443"),
    ],
)
def test_these_names_are_ours(host: str):
    assert is_ours(host, ("desk.example.org",))


@pytest.mark.parametrize(
    "host",
    [
        *(
            "",
            "evil.example",
            "desk.example.org.evil.example",
            "evildesk.example.org",
            "127.0.0.1.evil.example",
        ),
        *(
            "8.8.8.8",
            "172.32.0.1",
            "192.169.0.1",
            "[2001:4860::1]",
            "[::ffff:8.8.8.8]",
            "2130706433",
            "0x7f.1",
        ),
        *(
            "localhost/x",
            "x/healthz?",
            "localhost:80/health",
            "localhost@evil.example",
            "evil.example#localhost",
        ),
        *(
            "localhost:",
            "localhost:999999",
            "local host",
            "[::1",
            "::1",
            "[nas]",
            "localhost\\x",
            "local%00host",
        ),
        *("desk.example.org.", ".local", "-", "nas\t", "a" * 300),
    ],
)
def test_these_names_are_not(host: str):
    """The attacker of a rebound name controls its DNS, so only names that no stranger can own are answered."""
    assert not is_ours(host, ("desk.example.org",))


def test_a_single_word_is_at_home_but_a_number_is_an_address():
    assert is_at_home("nas")
    assert not is_at_home("2130706433")


async def test_a_request_under_a_strangers_name_gets_nothing(there: Desk):
    ada = await there.member()
    for path in ("/change", "/enter", "/nothing", "/api/v1/change"):
        answer = await ada.get(path, host="rebound.evil.example")
        assert answer.status_code == 400
        assert "allowed_hosts" in answer.text


async def test_a_request_under_two_names_gets_nothing(there: Desk):
    named = [("host", "localhost"), ("host", "evil.example")]
    for headers in (named, named[::-1]):
        assert (await there.client().get("/enter", headers=headers)).status_code == 400


async def test_forwarded_headers_of_a_stranger_count_for_nothing(there: Desk):
    answer = await there.visitor().get("/change", x_forwarded_host="evil.example", x_forwarded_proto="https")
    assert answer.headers["location"] == "/sign-in?next=%2Fchange"
    assert "strict-transport-security" not in answer.headers


# --- origins ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("origin", "host", "own"),
    [
        ("http://127.0.0.1:8787", "127.0.0.1:8787", True),
        ("https://desk.example.org", "desk.example.org", True),
        ("https://desk.example.org", "desk.example.org:443", True),
        ("http://nas", "nas:80", True),
        ("https://desk.example.org", "DESK.example.org", True),
        ("http://127.0.0.1:8788", "127.0.0.1:8787", False),
        ("http://localhost:8787", "127.0.0.1:8787", False),
        ("https://desk.example.org:80", "desk.example.org", False),
        ("https://desk.example.org.evil.example", "desk.example.org", False),
        ("https://evil.example/desk.example.org", "desk.example.org", False),
        ("null", "desk.example.org", False),
        ("file://", "", False),
        ("", "", False),
        ("chrome-extension://desk.example.org", "desk.example.org", False),
    ],
)
def test_an_origin_is_our_own_if_it_names_the_host_that_was_asked(origin: str, host: str, own: bool):
    assert is_own_origin(origin, host) is own


LINK = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
FRAME = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"}


@pytest.mark.parametrize(
    ("method", "headers", "elsewhere"),
    [
        ("GET", {}, False),  # plain HTTP on the home network: the browser says nothing
        ("GET", {"sec-fetch-site": "same-origin"}, False),
        ("GET", {"sec-fetch-site": "none"}, False),
        ("GET", {"origin": HERE}, False),
        ("GET", {"sec-fetch-site": "cross-site"}, True),
        ("GET", {"sec-fetch-site": "same-site"}, True),
        ("GET", {"origin": "https://evil.example"}, True),
        ("GET", {"origin": "null"}, True),
        ("GET", LINK, False),  # a link to a chat in somebody's mail
        ("GET", FRAME, True),
        ("HEAD", {"sec-fetch-site": "cross-site"}, True),
        ("POST", {}, True),
        ("POST", {"sec-fetch-site": "same-origin"}, False),
        ("POST", {"sec-fetch-site": "none"}, False),
        ("POST", {"origin": HERE}, False),
        ("POST", {"origin": HERE, "sec-fetch-site": "same-origin"}, False),
        ("POST", {"origin": HERE, "sec-fetch-site": "cross-site"}, True),
        ("POST", {"sec-fetch-site": "same-site"}, True),
        ("POST", {"sec-fetch-site": "nonsense"}, True),
        ("POST", {"origin": "null"}, True),
        ("POST", {"origin": "http://localhost:3000"}, True),
        ("POST", {"origin": "https://evil.example"}, True),
        ("POST", LINK, True),
        ("DELETE", {}, True),
        ("PATCH", {"sec-fetch-site": "cross-site"}, True),
        ("PROPFIND", {}, True),
    ],
)
def test_what_another_site_sent_is_told_apart(method: str, headers: dict[str, str], elsewhere: bool):
    assert comes_from_elsewhere(method, headers, "127.0.0.1:8787") is elsewhere


FOREIGN = [
    {"sec-fetch-site": "cross-site", "origin": "https://evil.example"},
    {"sec-fetch-site": "same-site", "origin": "http://127.0.0.1:3000"},
    {"origin": "https://evil.example"},
    {"origin": "null"},
    {},
]


@pytest.mark.parametrize("headers", FOREIGN, ids=str)
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_no_change_from_another_site_gets_in_even_with_cookie_and_token(
    there: Desk, method: str, headers: dict[str, str]
):
    ada = await there.member()
    for path in ("/change", "/api/v1/change", "/enter"):
        answer = await ada.web.request(method, path, headers={"x-csrf-token": ada.csrf} | headers)
        assert answer.status_code == 403
        assert not [name for name in answer.headers if name.startswith("access-control-")]


async def test_a_preflight_allows_nothing(there: Desk):
    asked = {
        "origin": "https://evil.example",
        "access-control-request-method": "POST",
        "sec-fetch-mode": "cors",
    }
    answer = await (await there.member()).web.options("/change", headers=asked)
    assert answer.status_code == 403
    assert not [name for name in answer.headers if name.startswith("access-control-")]


async def test_a_stream_is_read_by_our_own_pages_alone(there: Desk):
    ada = await there.member()
    said = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "cors", "accept": "text/event-stream"}
    assert (await ada.web.get("/change", headers=said)).status_code == 403
    assert (await ada.web.get("/change", headers={"origin": "https://evil.example"})).status_code == 403
    assert (await ada.web.get("/change", headers={"sec-fetch-site": "same-origin"})).status_code == 200


async def test_a_key_that_a_foreign_page_sends_is_refused_and_a_script_is_not(there: Desk):
    script = await there.program(await there.member())
    assert (await script.post("/api/v1/change")).status_code == 200
    for headers in FOREIGN[:4]:
        assert (await script.post("/api/v1/change", headers=headers)).status_code == 403


# --- tokens -----------------------------------------------------------------------------------------------


async def change(ada: Visitor, path: str = "/change", **options: Any) -> int:
    headers = {"sec-fetch-site": "same-origin"} | options.pop("headers", {})
    return (await ada.web.post(path, headers=headers, **options)).status_code


async def test_a_change_needs_the_token_of_its_session_in_header_or_form(there: Desk):
    ada, bob = await there.member("ada"), await there.member("bob")
    assert await change(ada, headers={"x-csrf-token": ada.csrf}) == 200
    assert await change(ada, data={"csrf": ada.csrf}) == 200
    assert await change(ada, files={"file": b"x"}, data={"csrf": ada.csrf}) == 200
    for wrong in ("", "x", bob.csrf, ada.csrf + "x"):
        assert await change(ada, headers={"x-csrf-token": wrong}) == 403
        assert await change(ada, data={"csrf": wrong}) == 403
    assert await change(ada, data={"csrf": "ü"}) == 403
    assert await change(ada) == 403
    assert await change(ada, json={"csrf": ada.csrf}) == 403
    assert await change(ada, "/change?csrf=" + ada.csrf) == 403
    assert await change(ada, files={"csrf": ada.csrf.encode()}) == 403


async def test_a_change_through_the_api_with_a_session_needs_the_token_too(there: Desk):
    ada = await there.member()
    assert await change(ada, "/api/v1/change", headers={"x-csrf-token": ada.csrf}) == 200
    assert await change(ada, "/api/v1/change") == 403


async def test_the_token_of_an_ended_session_lets_nobody_in(there: Desk):
    ada = await there.member()
    assert ada.person is not None
    await there.house.sessions.sign_out(ada.person, "")
    assert await change(ada, headers={"x-csrf-token": ada.csrf}) == 401


async def test_what_needs_nobody_needs_no_token_so_that_a_stale_sign_in_page_works(there: Desk):
    ada = await there.member()
    assert await change(ada, "/enter") == 200
    assert await change(there.visitor(), "/enter") == 200
