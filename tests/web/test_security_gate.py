"""What every request passes: who is asking, how much they send, how errors are told, what the log holds."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from app.core import errors
from app.web import forms
from app.web.house import admin, person, visitor
from app.web.middleware import guarded, printable, session_token
from app.web.problems import problem_of, status_of
from tests.support.desk import PAGE, Desk, desk

CANARY = "canary-6d1f"


async def who(request: Request) -> Response:
    found = visitor(request)
    return JSONResponse(
        {
            "name": found and found.name,
            "via": found and found.via,
            "path": request.scope["path"],
            "root": request.scope.get("root_path", ""),
            "url": str(request.url_for("who", path="x")),
        }
    )


async def length(request: Request) -> Response:
    return PlainTextResponse(str(len(await request.body())))


async def fails(request: Request) -> Response:
    raise {
        "busy": errors.Busy("reply-1"),
        "field": errors.Invalid("That is no colour.", field="colour"),
        "tries": errors.TooManyTries("Slowly.", 12.4),
        "storage": errors.DiskFull("The disk is full.", f"/data {CANARY}"),
        "held": errors.StorageBusy("The store is busy.", CANARY),
        "closing": errors.Closing(),
        "nobody": errors.SignInNeeded(),
        "bug": ZeroDivisionError(f"{CANARY} in /home/me/secret.py"),
    }[request.path_params["kind"]]


async def breaks_off(request: Request) -> Response:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"one"
        raise ValueError(CANARY)

    return StreamingResponse(pieces())


async def whose(request: Request) -> Response:
    return PlainTextResponse(person(request).name)


async def ruler(request: Request) -> Response:
    return PlainTextResponse(admin(request).name)


ROUTES = [
    Route("/who/{path:path}", who, name="who"),
    Route("/api/v1/who/{path:path}", who, name="api_who"),
    Route("/length", length, methods=["POST"]),
    Route("/api/v1/files", length, methods=["POST"]),
    Route("/fails/{kind}", fails, methods=["GET", "POST"]),
    Route("/api/v1/fails/{kind}", fails, methods=["GET", "POST"]),
    Route("/breaks-off", breaks_off),
    Route("/mine", guarded(whose, "member", "all")),
    Route("/admin", guarded(ruler, "admin", "all")),
    Route("/api/v1/admin", guarded(ruler, "admin", "all")),
]


@pytest.fixture
async def there(tmp_path: Path) -> AsyncIterator[Desk]:
    async with desk(tmp_path, max_upload=3 * 1024 * 1024) as made:
        yield made.with_routes(ROUTES)


# --- who is asking ----------------------------------------------------------------------------------------


async def test_a_cookie_stands_for_its_person_and_a_made_up_one_for_nobody(there: Desk):
    ada = await there.member()
    assert (await ada.get("/who/x")).json()["name"] == "ada"
    for made_up in ("", "x" * 43, "nd_" + "x" * 43, "%00", "a" * 5000):
        client = there.client(cookies={"sid": made_up})
        assert (await client.get("/who/x")).json()["name"] is None


async def test_identity_never_comes_from_query_or_body(there: Desk):
    ada, eve = await there.member("ada"), await there.member("eve")
    assert ada.person is not None
    answer = await eve.get(f"/who/x?user={ada.person.id}&owner={ada.person.id}&person={ada.person.id}")
    assert answer.json()["name"] == "eve"


async def test_a_key_is_taken_for_the_api_alone_and_a_wrong_one_falls_back_to_nothing(there: Desk):
    ada = await there.member()
    script = await there.program(ada)
    assert (await script.get("/api/v1/who/x")).json() | {"via": "key"} == (
        await script.get("/api/v1/who/x")
    ).json()
    assert (await script.get("/who/x")).json()["name"] is None
    for wrong in ("Bearer nd_nope", "Bearer", "Basic YTpi", "", "nd_nope", "bearer "):
        answer = await ada.web.get("/api/v1/who/x", headers={"authorization": wrong})
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"


async def test_over_https_only_the_cookie_that_https_alone_can_set_counts(there: Desk):
    ada = await there.member()
    token = ada.web.cookies["sid"]
    secure = there.client("https://127.0.0.1:8787")
    assert (await secure.get("/who/x", headers={"cookie": f"sid={token}"})).json()["name"] is None
    assert (await secure.get("/who/x", headers={"cookie": f"__Host-sid={token}"})).json()["name"] == "ada"
    plain = there.client()
    assert (await plain.get("/who/x", headers={"cookie": f"__Host-sid={token}"})).json()["name"] is None


@pytest.mark.parametrize(
    ("cookie", "found"),
    [
        ("sid=a", "a"),
        ("x=1; sid=a; y=2", "a"),
        ("xsid=b", None),
        ("sid=a; sid=b", "a"),
        ("", None),
        (";;=;sid", None),
        ("sid=", ""),
    ],
)
def test_the_token_is_found_among_the_cookies(cookie: str, found: str | None):
    assert session_token(cookie, secure=False) == found


async def test_a_house_of_one_needs_no_sign_in_but_the_token(tmp_path: Path):
    async with desk(tmp_path, single_user=True) as made:
        there = made.with_routes(ROUTES)
        answer = await there.visitor().get("/admin")
        assert answer.text == "me"
        assert (
            await there.client().get("/who/x", headers={"host": "rebound.evil.example"})
        ).status_code == 400


async def test_a_route_keeps_out_whom_it_does_not_need(there: Desk):
    boss, ada = await there.member("boss", "admin"), await there.member("ada")
    assert (await boss.get("/admin")).text == "boss"
    assert (await ada.get("/admin")).status_code == 403
    assert (await there.client().get("/api/v1/admin")).status_code == 401
    assert (await (await there.program(boss)).get("/api/v1/admin")).text == "boss"
    for scope in ("read", "chat"):
        assert (await (await there.program(boss, scope)).get("/api/v1/admin")).status_code == 403


async def test_a_disabled_account_is_out_with_the_next_request(there: Desk):
    boss, ada = await there.member("boss", "admin"), await there.member("ada")
    script = await there.program(ada)
    assert ada.person is not None
    assert boss.person is not None
    await there.house.people.disable(ada.person.id, boss.person, "")
    assert (await ada.get("/mine")).status_code == 303
    assert (await script.get("/api/v1/who/x")).status_code == 401


# --- below a path -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("asked", ["/desk/who/a%20b", "/who/a%20b"])
async def test_a_proxy_may_hand_on_the_whole_path_or_what_is_below_the_root(tmp_path: Path, asked: str):
    async with desk(tmp_path, root_path="/desk") as made:
        answer = await made.with_routes(ROUTES).visitor().get(asked)
        told = answer.json()
        assert (told["path"], told["root"]) == ("/desk/who/a b", "/desk")
        assert told["url"].endswith("/desk/who/x")


async def test_below_a_root_path_the_way_to_sign_in_is_below_it_too(tmp_path: Path):
    async with desk(tmp_path, root_path="/desk") as made:
        answer = await made.with_routes(ROUTES).visitor().get("/desk/mine?a=1")
        assert answer.headers["location"] == "/desk/sign-in?next=%2Fmine%3Fa%3D1"


# --- bodies -----------------------------------------------------------------------------------------------


async def pieces(total: int) -> AsyncIterator[bytes]:
    for _ in range(total // 65536):
        yield b"a" * 65536


async def post(there: Desk, path: str, total: int, **headers: str) -> int:
    ours = {"sec-fetch-site": "same-origin"} | headers
    return (await there.client().post(path, content=pieces(total), headers=ours)).status_code


MB = 1024 * 1024


async def test_a_body_is_counted_on_the_wire_whatever_its_length_says(there: Desk):
    assert await post(there, "/length", MB) == 200
    assert await post(there, "/length", 2 * MB) == 413
    assert await post(there, "/length", 2 * MB, content_length="10") in (200, 413)
    assert await post(there, "/length", MB // 2, **{"content-length": str(5 * MB)}) == 413
    assert await post(there, "/length", MB // 2, **{"content-length": "1e3"}) == 413


async def test_a_file_may_be_larger_and_has_its_own_bound(there: Desk):
    assert await post(there, "/api/v1/files", 3 * MB) == 200
    assert await post(there, "/api/v1/files", 4 * MB) == 413


async def test_a_body_that_is_too_large_is_said_in_words(there: Desk):
    answer = await there.client().post(
        "/length", content=b"a" * (2 * MB), headers={"sec-fetch-site": "same-origin"}
    )
    assert answer.json()["type"] == "/problems/too-long"
    assert answer.json()["detail"] == "That is more than the 1 MB that can be sent at once."


# --- errors -----------------------------------------------------------------------------------------------


async def test_an_error_is_a_problem_document_for_programs(there: Desk):
    answer = await there.client().get("/api/v1/fails/busy")
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json() == {
        "type": "/problems/busy",
        "title": "A reply is being written",
        "status": 409,
        "detail": "A reply is still being written in this chat. Stop it first, or wait for its end.",
        "reply": "reply-1",
    }


async def test_a_problem_names_the_field_at_fault(there: Desk):
    answer = await there.client().get("/api/v1/fails/field")
    assert (answer.status_code, answer.json()["field"]) == (400, "colour")


async def test_an_error_is_a_page_for_a_browser_and_a_piece_of_one_for_htmx(there: Desk):
    page = await there.visitor().get("/fails/field")
    assert page.status_code == 400
    assert "<title>" in page.text
    assert "That is no colour." in page.text
    piece = await there.visitor().get("/fails/field", hx_request="true")
    assert piece.status_code == 400
    assert "<title>" not in piece.text
    assert "That is no colour." in piece.text


async def test_a_script_on_a_page_is_told_as_a_program_is(there: Desk):
    """A stream that met the sign-in page in answer would have been followed as if all were well."""
    answer = await there.client().get("/mine", headers={"accept": "text/event-stream"})
    assert answer.status_code == 401
    assert answer.json()["type"] == "/problems/sign-in"


async def test_a_page_that_nobody_may_see_leads_to_sign_in_and_back(there: Desk):
    answer = await there.visitor().get("/mine?a=1&b=%2F")
    assert answer.status_code == 303
    assert answer.headers["location"] == "/sign-in?next=%2Fmine%3Fa%3D1%26b%3D%252F"


async def test_an_ended_session_on_a_piece_of_a_page_offers_the_way_back_to_it(there: Desk):
    headers = {"hx_request": "true", "hx_current_url": "http://127.0.0.1:8787/chats/1"}
    answer = await there.visitor().get("/mine", **headers)
    assert answer.status_code == 401
    assert "/sign-in?next=%2Fchats%2F1" in answer.text


@pytest.mark.parametrize(
    ("kind", "status", "wait"),
    [("tries", 429, "12"), ("held", 503, "2"), ("closing", 503, "2"), ("storage", 507, None)],
)
async def test_what_may_be_tried_again_says_when(there: Desk, kind: str, status: int, wait: str | None):
    for path in (f"/api/v1/fails/{kind}", f"/fails/{kind}"):
        answer = await there.client().get(path, headers=PAGE)
        assert (answer.status_code, answer.headers.get("retry-after")) == (status, wait)
        assert CANARY not in answer.text


async def test_a_bug_shows_a_short_id_and_the_log_has_the_rest(there: Desk, caplog: pytest.LogCaptureFixture):
    for path, headers in (
        ("/api/v1/fails/bug", {}),
        ("/fails/bug", PAGE),
        ("/fails/bug", {"hx-request": "true"}),
    ):
        caplog.clear()
        answer = await there.client().get(path, headers=headers)
        short = answer.headers["x-request-id"]
        assert answer.status_code == 500
        assert short in answer.text
        assert "ZeroDivision" not in answer.text
        assert CANARY not in answer.text
        assert "/home/" not in answer.text
        assert f"{short} failed: GET {path}" in caplog.text
        assert "ZeroDivisionError" in caplog.text


async def test_an_answer_that_has_begun_is_left_unfinished(there: Desk, caplog: pytest.LogCaptureFixture):
    """The server closes such a connection, so that nobody takes the half for the whole."""
    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> dict[str, Any]:
        await asyncio.Event().wait()  # nobody leaves
        raise AssertionError

    scope = {"type": "http", "method": "GET", "path": "/breaks-off", "headers": [(b"host", b"localhost")]}
    await there.app(scope | {"query_string": b"", "scheme": "http"}, receive, send)
    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]
    assert sent[1] == {"type": "http.response.body", "body": b"one", "more_body": True}
    assert "ValueError" in caplog.text


async def test_what_is_not_there_is_told_in_the_shape_that_was_asked(there: Desk):
    assert (await there.client().get("/api/v1/nothing")).json()["type"] == "/problems/not-found"
    answer = await there.client().post("/api/v1/who/x", headers={"sec-fetch-site": "same-origin"})
    assert (answer.status_code, answer.json()["type"]) == (405, "/problems/method")
    assert "There is nothing here" in (await there.visitor().get("/nothing")).text


@pytest.mark.parametrize("method", ["FOO", "_HELPER", "DISPATCH", "__CLASS__", "TRACE", "CONNECT"])
async def test_an_odd_method_calls_nothing(there: Desk, method: str):
    answer = await there.client().request(method, "/who/x", headers={"sec-fetch-site": "same-origin"})
    assert answer.status_code == 405


def leaves(kind: type[errors.NightdeskError]) -> list[type[errors.NightdeskError]]:
    return [kind] + [leaf for below in kind.__subclasses__() for leaf in leaves(below)]


@pytest.mark.parametrize("kind", leaves(errors.NightdeskError), ids=lambda kind: kind.__name__)
def test_every_error_of_the_tree_has_a_status_and_a_title(kind: type[errors.NightdeskError]):
    assert 400 <= status_of(kind) < 600
    if kind is not errors.NightdeskError and issubclass(kind, errors.Refused):
        assert status_of(kind) < 504


def test_a_problem_is_told_in_one_line_of_json():
    document = json.loads(problem_of(errors.Invalid("„Ä“ \u2028 </script>", field="x")).document())
    assert document["detail"] == "„Ä“ \u2028 </script>"


# --- the log ----------------------------------------------------------------------------------------------


async def test_the_log_has_a_line_for_each_request_without_what_is_secret(
    there: Desk, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG, logger="app")
    ada = await there.member()
    script = await there.program(ada)
    await ada.get(f"/who/x?token={CANARY}", referer=f"http://127.0.0.1:8787/?token={CANARY}")
    await ada.send("/length", {"password": CANARY})
    await script.get("/api/v1/who/x")
    lines = [record.getMessage() for record in caplog.records if record.name == "app.web.access"]
    assert [line.split()[2:5] for line in lines] == [
        ["GET", "/who/x", "200"],
        ["POST", "/length", "200"],
        ["GET", "/api/v1/who/x", "200"],
    ]
    for secret in (CANARY, ada.web.cookies["sid"], ada.csrf, script.headers["authorization"][7:]):
        assert secret not in caplog.text


async def test_no_request_forges_a_line_of_the_log(there: Desk, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO, logger="app")
    await there.visitor().get("/who/%0d%0aFORGED%1b[2J%E2%80%AE")
    (line,) = [record.getMessage() for record in caplog.records if record.name == "app.web.access"]
    assert "/who/\\r\\nFORGED\\x1b[2J\\u202e" in line


def test_printable_leaves_words_of_any_script_alone():
    assert printable("Größe 大 Ж") == "Größe 大 Ж"


async def test_each_answer_carries_the_id_of_its_line(there: Desk):
    first, second = await there.visitor().get("/who/x"), await there.visitor().get("/nothing")
    assert len(first.headers["x-request-id"]) == 8
    assert first.headers["x-request-id"] != second.headers["x-request-id"]


# --- forms ------------------------------------------------------------------------------------------------


async def test_a_form_of_too_many_fields_is_refused(there: Desk):
    async def count(request: Request) -> Response:
        return PlainTextResponse(str(len(await forms.form(request))))

    at = there.with_routes([Route("/form", guarded(count, "nobody", "all"), methods=["POST"])])
    for fields, status in ((forms.MOST_FIELDS, 200), (forms.MOST_FIELDS + 1, 400)):
        answer = await at.visitor().send("/form", {f"f{i}": "x" for i in range(fields - 1)})
        assert answer.status_code == status
