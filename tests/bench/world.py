"""The world that a measure runs in: one upstream, one server with an account, an API key and a signed-in cookie."""

import asyncio
import re
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from app.core.ids import new_id
from tests.bench.wire import Connection, Followed, follow
from tests.support.server import PASSWORD, ServerProcess
from tests.support.upstream import UpstreamProcess

NAME = "bench"

# What the upstream is asked for: plain words as tokens, or tokens that say when they were sent. The first one is the
# default, and so names the chats, as briefly as a title is.
MODELS = {
    "one token": "normal?tokens=1",
    "one second": "prose?tokens=30&tps=30",
    "fast 2,000": "prose?tokens=2000&burst=20",
    "fast 20,000": "prose?tokens=20000&burst=20",
    "50 a second": "prose?tokens=500&tps=50",
    "30 a second": "prose?tokens=300&tps=30",
    "stamped, 50 a second": "normal?tokens=250&tps=50&stamp=1",
    "stamped, 30 a second": "normal?tokens=300&tps=30&stamp=1",
}


# Text that a follower was given: in a delta, or in the state of a reply that was quicker than its follower.
_SAID = re.compile(rb'"text":"[^"]')
_DRAWN = re.compile(rb"event: (tail|block)")


@dataclass
class World:
    """A server to measure, the key of its one account, whose models `MODELS` describes."""

    server: ServerProcess
    key: str
    filled: Any = None

    @property
    def auth(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}"}

    def model(self, name: str) -> str:
        """The id of the model that `MODELS` describes under `name`."""
        found = httpx.get(self.server.url + "/api/v1/models", headers=self.auth).json()["items"]
        return next(str(model["id"]) for model in found if model["name"] == MODELS[name])

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
            text=_SAID,
            end=b"event: finished",
            compressed=compressed,
        )

    async def follow_page(self, chat: str, reply: str, cookie: str, *, compressed: bool = False) -> Followed:
        connection = await Connection.open(self.server.url)
        return await follow(
            connection,
            f"/events?chat={chat}&reply={reply}&visible=1&page={new_id()}",
            {"Cookie": cookie, "Accept": "text/event-stream"},
            text=_DRAWN,
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
def world(
    folder: Path, *options: str, fill: Callable[[Path], Coroutine[Any, Any, Any]] | None = None
) -> Iterator[World]:
    """A fresh server on `folder` whose only endpoint is the bench's upstream.

    `fill` may put data into the folder before the server starts; what it gives stands in `World.filled`.
    """
    with UpstreamProcess() as upstream:
        upstream.control(models=list(MODELS.values()))
        env = {"NIGHTDESK_MESSAGES_PER_MINUTE": "0", "NIGHTDESK_LOG_LEVEL": "warning"}
        server = ServerProcess(folder, "--no-local-model", *options, env=env)
        try:
            key = server.add_user(NAME)
            server.command("endpoint", "add", "bench", "--api", "openai-chat", "--url", upstream.url)
            filled = asyncio.run(fill(folder)) if fill is not None else None
            yield World(server.start(), key, filled)
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
