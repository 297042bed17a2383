"""The world that a measure runs in: one upstream, one server with an account, an API key and a signed-in cookie."""

import asyncio
import re
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from app.core.ids import new_id
from tests.bench.wire import Connection, Followed, follow
from tests.support.server import PASSWORD, ROOT, ServerProcess

NAME = "bench"


@contextmanager
def upstream() -> Iterator[str]:
    """The bench's upstream as a process; its URL."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.bench.upstream"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()


@dataclass
class World:
    """A server to measure, the key of its one account, and the ids of the upstream's models by name."""

    server: ServerProcess
    key: str
    upstream: str

    @property
    def auth(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}"}

    def models(self) -> dict[str, str]:
        found = httpx.get(self.server.url + "/api/v1/models", headers=self.auth).json()["items"]
        return {model["name"]: model["id"] for model in found}

    def cookie(self) -> str:
        """The cookie of a browser that signed in with the form."""
        with httpx.Client(base_url=self.server.url) as browser:
            page = browser.get("/sign-in").text
            fields = dict(re.findall(r'<input[^>]*name="([^"]+)"[^>]*value="([^"]*)"', page))
            fields |= {"name": NAME, "password": PASSWORD}
            answer = browser.post("/sign-in", data=fields, headers={"Origin": self.server.url})
            assert answer.status_code in (302, 303), f"sign-in: {answer.status_code} {answer.text[:200]}"
            return "; ".join(f"{name}={value}" for name, value in browser.cookies.items())

    async def new_chat(self, connection: Connection, model: str) -> str:
        chat = await connection.json("POST", "/api/v1/chats", self.auth, {"kind": "chat", "model": model})
        return str(chat["id"])

    async def ask(self, connection: Connection, chat: str) -> str:
        """Post a message to `chat`; the id of its reply."""
        headers = self.auth | {"Idempotency-Key": str(uuid.uuid4())}
        answer = await connection.json("POST", f"/api/v1/chats/{chat}/messages", headers, {"text": "Go on."})
        return str(answer["reply"]["id"])

    async def follow_api(self, reply: str, *, compressed: bool = False) -> Followed:
        connection = await Connection.open(self.server.url)
        return await follow(
            connection,
            f"/api/v1/replies/{reply}/events",
            self.auth,
            text=b"event: text",
            end=b"event: finished",
            compressed=compressed,
        )

    async def follow_page(self, chat: str, reply: str, cookie: str, *, compressed: bool = False) -> Followed:
        connection = await Connection.open(self.server.url)
        return await follow(
            connection,
            f"/events?chat={chat}&reply={reply}&visible=1&page={new_id()}",
            {"Cookie": cookie, "Accept": "text/event-stream"},
            text=b"event: tail",
            end=b"event: ended",
            compressed=compressed,
        )

    def wait_idle(self) -> None:
        """Return once no reply runs."""
        with httpx.Client(base_url=self.server.url, headers=self.auth) as client:
            for _ in range(600):
                chats: list[dict[str, Any]] = client.get("/api/v1/chats").json()["items"]
                if not any(chat.get("running_reply") for chat in chats):
                    return


@contextmanager
def world(folder: Path, *options: str) -> Iterator[World]:
    """A fresh server on `folder` whose only endpoint is the bench's upstream."""
    with upstream() as url:
        env = {"NIGHTDESK_MESSAGES_PER_MINUTE": "0", "NIGHTDESK_LOG_LEVEL": "warning"}
        server = ServerProcess(folder, "--no-local-model", *options, env=env)
        try:
            server.start()
            key = server.add_user(NAME)
            server.command("endpoint", "add", "bench", "--api", "openai-chat", "--url", url)
            yield World(server, key, url)
        finally:
            server.close()


@asynccontextmanager
async def connections(url: str, count: int) -> AsyncIterator[list[Connection]]:
    """`count` open keep-alive connections."""
    opened = await asyncio.gather(*(Connection.open(url) for _ in range(count)))
    try:
        yield list(opened)
    finally:
        for connection in opened:
            connection.close()
