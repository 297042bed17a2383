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


async def ask(
    app: ASGIApp, method: str, path: str, headers: Mapping[str, str], body: bytes = b"", seconds: float = 30
) -> Answer:
    """Ask, wait for the head of the answer and what comes with it at once, and leave."""
    path, _, query = path.partition("?")
    named = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(b"host", b"127.0.0.1:8787"), (b"content-length", str(len(body)).encode()), *named],
        "client": ("127.0.0.1", 50_000),
        "server": ("127.0.0.1", 8787),
    }
    answer, begun, sent = Answer(), asyncio.Event(), [body]

    async def receive() -> Message:
        if sent:
            return {"type": "http.request", "body": sent.pop(), "more_body": False}
        await begun.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            answer.status = message["status"]
            answer.headers = [(name.decode(), value.decode("latin-1")) for name, value in message["headers"]]
        else:
            answer.body += message.get("body", b"")
            begun.set()

    async with asyncio.timeout(seconds):
        await app(scope, receive, send)
    return answer


def form(fields: Mapping[str, Any]) -> tuple[dict[str, str], bytes]:
    """Headers and body of a form."""
    from urllib.parse import urlencode

    return {"content-type": "application/x-www-form-urlencoded"}, urlencode(fields).encode()
