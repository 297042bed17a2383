"""A snapshot of what every answer carries, taken over the route table: a change here is a decision."""

from pathlib import Path

import pytest

from app.web.headers import FRAME_POLICY, headers_for, policy_for
from app.web.routes import SITES
from tests.support.ask import Answer, ask
from tests.support.desk import Desk, desk
from tests.web.matrix import ROWS
from tests.web.place import Place

PAGE_POLICY = {
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self' blob:",
    "font-src 'self'",
    "connect-src 'self'",
    "media-src 'self'",
    "frame-src 'self'",
    "manifest-src 'self'",
    "worker-src 'self'",
    "form-action 'self'",
    "base-uri 'none'",
    "object-src 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types app",
}
FILE_POLICY = {"default-src 'none'", "form-action 'none'", "frame-ancestors 'none'", "sandbox"}
ALWAYS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": (
        "accelerometer=(), browsing-topics=(), camera=(), display-capture=(), geolocation=(), gyroscope=(), "
        "magnetometer=(), microphone=(), midi=(), payment=(), serial=(), usb=()"
    ),
}


def policy(answer: Answer) -> set[str]:
    (found,) = [value for name, value in answer.headers if name == "content-security-policy"]
    return set(found.split("; "))


def check(answer: Answer, path: str) -> None:
    files = path.startswith(("/files/", "/api/v1/files/"))
    assert policy(answer) == (FILE_POLICY if files else PAGE_POLICY), path
    for name, value in ALWAYS.items():
        assert [found for given, found in answer.headers if given == name] == [value], (path, name)
    if path.startswith("/static/"):
        return
    cached = answer.header("cache-control") or ""
    assert "no-store" in cached or (files and "private" in cached), path
    assert len([name for name, _ in answer.headers if name == "x-request-id"]) == 1


async def test_every_answer_carries_its_headers_whoever_asks(place: Place):
    for route in ROWS:
        for headers in (await place.session("boss"), await place.session("owner"), {}):
            answer = await place.request(*route, headers)
            check(answer, route[1])
            assert not {"server", "access-control-allow-origin"} & {name for name, _ in answer.headers}


async def test_errors_of_every_kind_carry_them_too(place: Place):
    app = place.desk.app
    boss = await place.session("boss")
    for path, headers in (
        ("/nothing", {}),
        ("/nothing", {"accept": "text/html"}),
        ("/nothing", {"hx-request": "true"}),
        ("/", {"host": "evil.example"}),
        ("/", {"sec-fetch-site": "cross-site"}),
        ("/static/0/nothing.js", {}),
        ("/api/v1/nothing", boss),
        ("/files/nothing", boss),
        ("/%00", boss),
    ):
        check(await ask(app, "GET", path, headers), path)


def test_over_https_the_browser_is_told_to_stay_there():
    assert ("strict-transport-security", "max-age=31536000") in [
        (name.decode(), value.decode()) for name, value in headers_for("/", secure=True)
    ]
    assert not [name for name, _ in headers_for("/", secure=False) if name.startswith(b"strict")]


def test_what_is_drawn_in_a_frame_of_its_own_has_no_origin():
    assert policy_for("/frames/diagram") == FRAME_POLICY
    assert "sandbox allow-scripts" in FRAME_POLICY
    assert "allow-same-origin" not in FRAME_POLICY
    assert "frame-ancestors 'self'" in FRAME_POLICY
    assert [site.path for site in SITES if site.path.startswith("/frames")] == []


@pytest.mark.parametrize("root", ["", "/desk"])
async def test_the_policy_of_a_file_holds_below_a_root_path_too(tmp_path: Path, root: str):
    async with desk(tmp_path, root_path=root) as opened:
        answer = await _asked(opened, f"{root}/files/x")
        assert policy(answer) == FILE_POLICY


async def _asked(opened: Desk, path: str) -> Answer:
    return await ask(opened.app, "GET", path, {})
