"""Canaries: secrets that are put everywhere a secret can be, and may come out nowhere."""

import base64
import json
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from sqlalchemy import text

from app.core.ids import new_id
from tests.support.ask import Answer, ask
from tests.support.desk import PASSWORD
from tests.support.upstream import Upstream
from tests.support.upstream_modes import Head
from tests.web.matrix import ROWS
from tests.web.place import Place

CANARY = "sk-canary/7c1e+9b"


@dataclass
class Trap:
    """A place whose endpoint has a key, and everything that came out of it so far."""

    place: Place
    upstream: Upstream
    endpoint: dict[str, Any] = field(default_factory=dict)
    seen: list[str] = field(default_factory=list)

    async def api(self, name: str, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Ask the API as `name`; what is said goes into `seen`."""
        asked = await self.place.key(name, "all") | {"content-type": "application/json"} | headers
        answer = await ask(
            self.place.desk.app, method, path, asked, json.dumps(body).encode() if body else b""
        )
        self.note(answer)
        return json.loads(answer.body) if answer.body else None

    def note(self, answer: Answer) -> None:
        self.seen += [answer.body.decode("utf-8", "replace"), repr(answer.headers)]

    async def talk(self, model: str) -> dict[str, Any]:
        """A chat of the owner's with `model`, to the end of its reply."""
        pick = next(one["id"] for one in self.endpoint["models"] if one["name"] == model)
        chat = await self.api("owner", "POST", "/api/v1/chats", {"model": pick})
        where = f"/api/v1/chats/{chat['id']}/messages?wait=1"
        said = await self.api("owner", "POST", where, {"text": "hello"}, **{"idempotency-key": new_id()})
        return {"chat": chat["id"], "reply": said["reply"]["id"], "said": said}


@pytest.fixture
async def trap(place: Place) -> AsyncIterator[Trap]:
    upstream = Upstream(key=CANARY, models=("normal", "echo"))
    await upstream.start()
    # Some endpoints repeat the key that they refuse.
    refusal = json.dumps({"error": {"message": f"Incorrect API key: {CANARY}", "key": CANARY}}).encode()
    upstream.play("echo", Head(401, "application/json", {"x-key": CANARY}, len(refusal)), refusal)
    made = Trap(place, upstream)
    new = {"name": "Trap", "api": "openai-chat", "base_url": upstream.url, "api_key": CANARY}
    made.endpoint = await made.api("boss", "POST", "/api/v1/endpoints", new)
    yield made
    await upstream.stop()


def shapes(secret: str) -> set[str]:
    """A secret as it might be written, but for its ends, which may be joined to something else."""
    raw = secret.encode()
    return {
        secret,
        quote(secret, safe=""),
        json.dumps(secret)[1:-1],
        base64.b64encode(raw).decode().rstrip("=")[:-1],
        base64.urlsafe_b64encode(raw).decode().rstrip("=")[:-1],
        raw.hex(),
    }


def leaks(secrets: dict[str, str], texts: list[str]) -> list[str]:
    """Which of the secrets stand in one of the texts."""
    whole = "\n".join(texts)
    return [name for name, secret in secrets.items() if any(shape in whole for shape in shapes(secret))]


async def test_a_trap_that_is_sprung_is_noticed():
    assert leaks({"key": CANARY}, ["nothing", f"?key={quote(CANARY, safe='')}"]) == ["key"]
    assert leaks({"key": CANARY}, [CANARY.encode().hex()]) == ["key"]
    assert leaks({"key": CANARY}, ["sk-canary"]) == []


async def test_no_secret_comes_out_of_any_route_for_anybody(trap: Trap, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG, logger="app")
    place, house = trap.place, trap.place.desk.house
    owner, boss = await place.session("owner"), await place.session("boss")
    program = await place.key("owner", "all")
    users = [user.password for user in await house.people.everybody()]
    secrets = {
        "endpoint key": CANARY,
        "password": PASSWORD,
        "session": owner["cookie"].removeprefix("sid="),
        "session of the boss": boss["cookie"].removeprefix("sid="),
        "API key": program["authorization"].removeprefix("Bearer "),
        "master key": base64.b64encode(house.vault._master).decode(),
        "data key": base64.b64encode(house.vault._keys[1]).decode(),
        "hash": users[0] or "",
    }
    normal, refused = await trap.talk("normal"), await trap.talk("echo")
    assert normal["said"]["reply"]["state"] == "complete"
    assert refused["said"]["reply"]["state"] == "failed"
    model = trap.endpoint["models"][0]["id"]
    for talk in (normal, refused):
        # What is only looked at is looked at where the secrets are; what is changed is something new.
        things = {"endpoint": trap.endpoint["id"], "model": model, "user": place.people["owner"].id} | talk
        for (method, path), row in ROWS.items():
            for headers in (owner, boss, program, {"sec-fetch-site": "same-origin"}):
                known = things if method == "GET" and row.id in things else None
                trap.note(await place.request(method, path, headers, known))
                if path in ("/sign-out", "/settings/account/sessions/end-others"):
                    owner, boss = await place.session("owner"), await place.session("boss")
    assert leaks(secrets, trap.seen) == []
    assert leaks(secrets, [caplog.text]) == []
    assert leaks(secrets, await stored(place)) == ["hash"]


async def stored(place: Place) -> list[str]:
    """Everything in the database but what is sealed, and every file beside it but the key."""
    house = place.desk.house
    async with house.db.read() as s:
        named = await s.execute(
            text("SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE '%VIRTUAL%'")
        )
        tables = [name for (name,) in named.all() if name not in ("secret", "data_key")]
        rows = [repr((await s.execute(text(f'SELECT * FROM "{table}"'))).all()) for table in tables]
    files = [path for path in house.folder.path.rglob("*") if path.is_file() and path != house.folder.key]
    return rows + [
        path.read_bytes().decode("latin-1") for path in files if not path.name.startswith("nightdesk.db")
    ]


async def test_a_key_is_said_to_be_set_and_never_shown(trap: Trap):
    shown = await trap.api("boss", "GET", f"/api/v1/endpoints/{trap.endpoint['id']}")
    assert shown["api_key"] == {"set": True}
    assert leaks({"key": CANARY}, trap.seen) == []


async def test_a_key_does_not_follow_its_endpoint_to_another_address(trap: Trap):
    """Whoever may change an address would otherwise be sent the key."""
    listener = Upstream(models=("normal",))
    await listener.start()
    try:
        where = f"/api/v1/endpoints/{trap.endpoint['id']}"
        changed = await trap.api("boss", "PATCH", where, {"base_url": listener.url})
        assert changed["api_key"] == {"set": False}
        trap.endpoint = await trap.api("boss", "GET", where)
        await trap.talk("normal")
        assert listener.requests != []
        for request in listener.requests:
            assert "authorization" not in {name.lower() for name in request.headers}
            assert leaks({"key": CANARY}, [repr(request.headers), repr(request.body)]) == []
    finally:
        await listener.stop()


async def test_a_field_that_nobody_knows_goes_nowhere(trap: Trap):
    chat = await trap.api("owner", "POST", "/api/v1/chats", {})
    for extra in ("api_key", "base_url", "endpoint", "user", "owner", "role"):
        where, key = f"/api/v1/chats/{chat['id']}/messages", {"idempotency-key": new_id()}
        told = await trap.api("owner", "POST", where, {"text": "hello", extra: "x"}, **key)
        assert (told["status"], told["field"]) == (400, extra)
    assert trap.upstream.requests == []


async def test_what_looks_like_a_placeholder_is_only_text(trap: Trap):
    pick = trap.endpoint["models"][0]["id"]
    chat = await trap.api("owner", "POST", "/api/v1/chats", {"model": pick})
    typed = "${NIGHTDESK_SECRET_KEY} {{ 7*7 }} {% include 'x' %} $(id) %(x)s {0} \\u0041"
    where = f"/api/v1/chats/{chat['id']}/messages?wait=1"
    await trap.api("owner", "POST", where, {"text": typed}, **{"idempotency-key": new_id()})
    assert typed in json.dumps(trap.upstream.requests[0].body, ensure_ascii=False).replace("\\\\", "\\")
    page = await ask(trap.place.desk.app, "GET", f"/chats/{chat['id']}", await trap.place.session("owner"))
    assert "{{ 7*7 }}" in page.body.decode()


async def test_a_fresh_place_has_secrets_of_its_own(tmp_path: Path, trap: Trap):
    from tests.web.place import opened

    async with opened(tmp_path / "other") as other:
        assert other.desk.house.vault._master != trap.place.desk.house.vault._master
