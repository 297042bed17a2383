"""The API over a whole Nightdesk with a scripted upstream, asked by programs whose every answer is checked.

Whatever a test asks, the answer is held to what the served document says of it: its status, its type, and no member
that is not documented.
"""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import httpx
from jsonschema import Draft202012Validator

from app.accounts.access import Role, Scope
from app.core.ids import new_id
from app.web.api.openapi import document
from app.web.routes import SITES
from tests.support.desk import OURS, Desk, desk
from tests.support.upstream import Upstream

DOCUMENT = document(SITES)
_NAMED = {
    name: schema | ({"additionalProperties": False} if "properties" in schema else {})
    for name, schema in DOCUMENT["components"]["schemas"].items()
}


def described(method: str, path: str) -> dict[str, Any]:
    """What the document says of the operation at `path`. Raises KeyError."""
    for template, methods in DOCUMENT["paths"].items():
        if re.fullmatch(template.replace("{id}", "[^/]+"), path) and method.lower() in methods:
            return cast(dict[str, Any], methods[method.lower()])
    raise KeyError(f"{method} {path}")


def problem(answer: httpx.Response) -> tuple[int, str, str | None]:
    """Status, name and field of a problem document."""
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    said = answer.json()
    assert said["status"] == answer.status_code
    return said["status"], said["type"].removeprefix("/problems/"), said.get("field")


async def check(response: httpx.Response) -> None:
    """Hold an answer to the document. Raises AssertionError."""
    method, path = response.request.method, response.request.url.path
    try:
        operation = described(method, path)
    except KeyError:
        assert response.status_code in (404, 405), f"{method} {path} is not in the document"
        return
    status = str(response.status_code)
    promised = operation["responses"].get(status) or (
        operation["responses"]["default"] if status >= "4" else None
    )
    assert promised is not None, f"{method} {path}: {status} is not in the document"
    await response.aread()
    kind = response.headers.get("content-type", "").partition(";")[0]
    if "content" not in promised:
        assert response.content == b"", f"{method} {path}: {status} has a body"
    elif kind.endswith("json"):
        assert kind in promised["content"], f"{method} {path}: {status} is {kind}"
        schema = promised["content"][kind].get("schema", {}) | {"components": {"schemas": _NAMED}}
        Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER).validate(
            response.json()
        )


@dataclass
class World:
    """A desk with one endpoint. `ada`, who runs the place, asks with a key for everything."""

    desk: Desk
    upstream: Upstream
    ada: httpx.AsyncClient
    models: dict[str, str]
    clients: list[httpx.AsyncClient] = field(default_factory=list)

    async def program(self, name: str, role: Role = "member", scope: Scope = "all") -> httpx.AsyncClient:
        """A program of somebody new."""
        return await _program(self.desk, self.clients, name, role, scope)

    async def browser(self, name: str) -> httpx.AsyncClient:
        """A page of somebody new: signed in, and with the token of its session."""
        await self.desk.member(name)
        return await self.browser_of(name)

    async def browser_of(self, name: str) -> httpx.AsyncClient:
        """A page of somebody who has an account."""
        visitor = await self.desk.sign_in(name)
        visitor.web.headers.update(OURS | {"x-csrf-token": visitor.csrf})
        self.clients.append(visitor.web)
        return visitor.web

    async def chat(self, by: httpx.AsyncClient | None = None, model: str = "normal", **fields: Any) -> str:
        """A new chat; its id."""
        new = {"model": self.models[model]} | fields
        made = await (by or self.ada).post("/api/v1/chats", json=new)
        assert made.status_code == 201, made.text
        return str(made.json()["id"])

    async def post(
        self,
        chat: str,
        text: str = "Hello",
        *,
        by: httpx.AsyncClient | None = None,
        key: str | None = None,
        wait: bool = False,
        **fields: Any,
    ) -> httpx.Response:
        """Post a message to `chat`."""
        return await (by or self.ada).post(
            f"/api/v1/chats/{chat}/messages",
            json={"text": text} | fields,
            params={"wait": 1} if wait else {},
            headers={"idempotency-key": key or new_id()},
        )

    async def said(self, chat: str, text: str = "Hello", **fields: Any) -> dict[str, Any]:
        """Post a message and wait for its whole reply; the answer."""
        answer = await self.post(chat, text, wait=True, **fields)
        assert answer.status_code == 200, answer.text
        return cast(dict[str, Any], answer.json())

    async def running(self, chat: str, **fields: Any) -> str:
        """Post a message whose reply does not end by itself, and wait for its first words; the reply's id."""
        reply = str((await self.post(chat, **fields)).json()["reply"]["id"])
        generation = self.desk.house.registry.find(cast(Any, reply))
        assert generation is not None
        while not generation.state.text:
            await generation.feed.wait(len(generation.feed.entries), generation.feed.passing_count)
        return reply


async def _program(
    desk: Desk, clients: list[httpx.AsyncClient], name: str, role: Role, scope: Scope
) -> httpx.AsyncClient:
    client = await desk.program(await desk.member(name, role), scope)
    client.event_hooks = {"response": [check]}
    clients.append(client)
    return client


@asynccontextmanager
async def world(data: Path, **settings: Any) -> AsyncIterator[World]:
    """A desk on `data`, and an upstream whose models are `normal`, `reasoning` and `endless`."""
    upstream = Upstream(models=("normal", "reasoning", "endless"))
    await upstream.start()
    clients: list[httpx.AsyncClient] = []
    async with desk(data, **{"messages_per_minute": 0} | settings) as opened:
        ada = await _program(opened, clients, "ada", "admin", "all")
        endpoint = {"name": "Upstream", "api": "openai-chat", "base_url": upstream.url}
        added = await ada.post("/api/v1/endpoints", json=endpoint)
        assert added.status_code == 201, added.text
        models = {model["name"]: model["id"] for model in added.json()["models"]}
        try:
            yield World(opened, upstream, ada, models, clients)
        finally:
            for client in clients:
                await client.aclose()
            await opened.house.registry.close(0.0)
    await upstream.stop()
