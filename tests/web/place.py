"""A desk with somebody who owns things, a stranger and an administrator, each asked for by the table of routes."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from app.accounts.access import Role, Scope
from app.core.ids import ChatId, EndpointId, MessageId, ReplyId, UserId, new_id, new_run
from app.core.messages import TextPart
from app.providers.base import FoundModel
from app.store import chats, endpoints, files, messages, replies
from app.store.engine import Session
from app.store.tables import User
from tests.support.ask import Answer, ask, form
from tests.support.desk import PASSWORD, Desk, desk
from tests.web.matrix import ROWS, Row

SCRIPT = 'script:{"turns": [[{"text": "hi"}]]}'


@dataclass
class Place:
    """A desk with an owner of things, a stranger and an administrator."""

    desk: Desk
    people: dict[str, User] = field(default_factory=dict)

    async def session(self, name: str) -> dict[str, str]:
        """The headers of a browser in which `name` has just signed in."""
        sessions, user = self.desk.house.sessions, self.people[name]
        signed_in = await self.desk.house.db.write(lambda s: sessions.begin(s, user, "127.0.0.1", "test"))
        ours = {"sec-fetch-site": "same-origin", "x-csrf-token": signed_in.person.csrf}
        return {"cookie": f"sid={signed_in.token}"} | ours

    async def key(self, name: str, scope: Scope) -> dict[str, str]:
        """The headers of a program with a key of `name`."""
        token = await self.desk.house.sessions.add_key(UserId(self.people[name].id), "script", scope)
        return {"authorization": f"Bearer {token}"}

    async def things(self, kind: str) -> dict[str, str]:
        """A new thing of the owner's, or an endpoint or a person, with whatever belongs to it."""
        here, owner = self.desk.house, UserId(self.people["owner"].id)
        if kind in ("chat", "message", "reply", "queued"):
            return await here.db.write(lambda s: _talk(s, owner))
        if kind == "file":
            sha256, size = await here.files.put(_bytes(), 1000)
            return await here.db.write(lambda s: _file(s, owner, sha256, size))
        if kind == "session":
            await self.session("owner")
            return {"session": (await here.sessions.sessions_of(owner))[0].id}
        if kind == "key":
            await here.sessions.add_key(owner, "script")
            return {"key": (await here.sessions.keys_of(owner))[-1].id}
        if kind in ("endpoint", "model"):
            made = await here.db.write(_endpoint)
            await here.models.refresh()
            return made
        if kind == "user":
            return {"user": (await here.people.add_user(f"user {new_id()[-12:]}")).id}
        return {}

    async def request(
        self, method: str, path: str, headers: Mapping[str, str], things: Mapping[str, str] | None = None
    ) -> Answer:
        """Ask what the row of this route asks, of things that are new if none are given."""
        row = ROWS[method, path]
        things = things or await self.things(row.id)
        path = (
            path.replace("{id}", things.get(row.id, ""))
            .replace("{version}", "0")
            .replace("{path:path}", "app.css")
        )
        more, body = _body(row, things)
        return await ask(self.desk.app, method, path + row.query, {**more, **row.headers, **headers}, body)


async def _bytes() -> AsyncIterator[bytes]:
    yield b"hello"


async def _file(s: Session, owner: UserId, sha256: str, size: int) -> dict[str, str]:
    row = await files.add_file(s, owner=owner, sha256=sha256, name="a.txt", type="text/plain", size=size)
    return {"file": row.id}


async def _endpoint(s: Session) -> dict[str, str]:
    made = await endpoints.add(s, name="E", api="scripted", base_url=SCRIPT)
    (model,) = await endpoints.put_models(s, EndpointId(made.id), [FoundModel("script")])
    return {"endpoint": made.id, "model": model.id}


async def _talk(s: Session, owner: UserId) -> dict[str, str]:
    chat = await chats.create(s, owner)
    first, reply, said = MessageId(new_id()), ReplyId(new_id()), MessageId(new_id())
    run = new_run()
    await messages.insert(s, chat, id=first, parent=None, role="user", parts=[TextPart("hello")])
    await replies.create(
        s, chat=ChatId(chat.id), input=first, after=first, run=run, model=None, sampling={}, id=reply
    )
    await messages.insert(
        s, chat, id=said, parent=first, role="assistant", parts=[TextPart("hi")], reply=reply
    )
    await replies.move(s, reply, run, "running")
    await replies.outcome(s, reply, run, "stopped")
    await chats.set_leaf(s, chat, said)
    queued = MessageId(new_id())
    await messages.insert(
        s, chat, id=queued, parent=said, role="user", parts=[TextPart("later")], queued=True
    )
    return {"chat": chat.id, "message": first, "reply": reply, "queued": queued}


def _body(row: Row, things: Mapping[str, str]) -> tuple[dict[str, str], bytes]:
    def filled(values: Mapping[str, Any]) -> dict[str, Any]:
        return {
            name: things[value[1:]] if isinstance(value, str) and value.startswith("@") else value
            for name, value in values.items()
        }

    if row.json is not None:
        return {"content-type": "application/json"}, json.dumps(filled(row.json)).encode()
    if row.form is not None:
        return ({}, row.form[""].encode()) if "" in row.form else form(filled(row.form))
    return {}, b""


@asynccontextmanager
async def opened(data: Path, **settings: Any) -> AsyncIterator[Place]:
    """A place on `data`: boss, an administrator, and owner and stranger, two members."""
    async with desk(data, messages_per_minute=0, **settings) as found:
        made = Place(found)
        for name in ("boss", "owner", "stranger"):
            role: Role = "admin" if name == "boss" else "member"
            made.people[name] = await found.house.people.add_user(name, PASSWORD, role)
        yield made
        await found.house.registry.close(0.0)
