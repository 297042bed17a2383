"""One request to an application, answered as soon as its head has come: for routes whose body may never end."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.types import ASGIApp, Message


@dataclass
class Answer:
    """What came back before the client left."""

    status: int = 0
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytes = b""

    def header(self, name: str) -> str | None:
        return next((value for given, value in self.headers if given == name), None)

    @property
    def problem(self) -> str | None:
        """The name of the problem document that this is, or None."""
        if self.header("content-type") != "application/problem+json":
            return None
        return str(json.loads(self.body)["type"]).removeprefix("/problems/")


class Asked:
    """A request under way. `begun` is set once something of the body has come."""

    def __init__(
        self, app: ASGIApp, method: str, path: str, headers: Mapping[str, str], body: bytes = b""
    ) -> None:
        self.answer = Answer()
        self.begun = asyncio.Event()
        self._left = asyncio.Event()
        self._sent = [body]
        self._app = app
        self._scope = _scope(method, path, headers, len(body))

    async def run(self) -> Answer:
        """Ask, and return when the application has nothing more to say."""
        await self._app(self._scope, self._receive, self._send)
        return self.answer

    def leave(self) -> None:
        """Close the connection from the client's side."""
        self._left.set()

    async def _receive(self) -> Message:
        if self._sent:
            return {"type": "http.request", "body": self._sent.pop(), "more_body": False}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            named = message["headers"]
            self.answer.status = message["status"]
            self.answer.headers = [(name.decode(), value.decode("latin-1")) for name, value in named]
        else:
            self.answer.body += message.get("body", b"")
            self.begun.set()


async def ask(
    app: ASGIApp, method: str, path: str, headers: Mapping[str, str], body: bytes = b"", seconds: float = 30
) -> Answer:
    """Ask, wait for the head of the answer and what comes with it at once, and leave."""
    asked = Asked(app, method, path, headers, body)
    async with asyncio.timeout(seconds), asyncio.TaskGroup() as group:
        running = group.create_task(asked.run())
        await asked.begun.wait()
        asked.leave()
    return running.result()


def _scope(method: str, path: str, headers: Mapping[str, str], length: int) -> dict[str, Any]:
    path, _, query = path.partition("?")
    named = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(b"host", b"127.0.0.1:8787"), (b"content-length", str(length).encode()), *named],
        "client": ("127.0.0.1", 50_000),
        "server": ("127.0.0.1", 8787),
    }


def form(fields: Mapping[str, Any]) -> tuple[dict[str, str], bytes]:
    """Headers and body of a form."""
    from urllib.parse import urlencode

    return {"content-type": "application/x-www-form-urlencoded"}, urlencode(fields).encode()
