"""What pages cost on a store of 1,000 chats and 20,000 messages, as a browser on the same machine sees it."""

import asyncio
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

from app.core.ids import ChatId, UserId
from app.store import people
from app.store.engine import Database
from app.store.folder import DataFolder
from app.tasks import Tasks
from tests.bench.measures import Figure, fresh_world, in_one_chat, percentile
from tests.bench.store_data import generate
from tests.bench.wire import Connection
from tests.bench.world import NAME, World


@dataclass(frozen=True)
class Filled:
    """A chat of 500 messages, one of 5,000, and words to look for."""

    chat: ChatId
    long_chat: ChatId
    common: str
    rare: str


async def fill(folder: Path) -> Filled:
    """Give the bench's account its chats."""
    place, tasks = DataFolder(folder), Tasks("bench")
    with place.claimed():
        database = await Database.open(place, tasks)
        async with database.read() as s:
            user = await people.user_by_name(s, NAME)
        assert user is not None
        owner = UserId(user.id)
        made = await generate(database, owner=owner)
        longer = await generate(database, chats=2, messages=5002, big_chat=5000, owner=owner, seed=2)
        await database.close()
    return Filled(made.big_chat, longer.big_chat, made.common, made.rare)


def figures() -> list[Figure]:
    with fresh_world(fill=fill) as w:
        return asyncio.run(_figures(w))


async def _figures(w: World) -> list[Figure]:
    filled: Filled = w.filled
    cookie = await asyncio.to_thread(w.cookie)
    connection = await Connection.open(w.server.url)

    async def times(path: str) -> list[float]:
        found = []
        for _ in range(45):
            began = time.perf_counter()
            status, headers = await connection.send("GET", path, {"Cookie": cookie})
            await connection.body(headers)
            assert status == 200, f"{path}: {status}"
            found.append((time.perf_counter() - began) * 1000)
        return found[5:]

    sidebar = await times("/sidebar")
    common, rare = await times(f"/search?q={filled.common}"), await times(f"/search?q={filled.rare}")
    short, long = await times(f"/chats/{filled.chat}"), await times(f"/chats/{filled.long_chat}")
    connection.close()
    model = w.model("one token")
    first = await in_one_chat(w, await _with_model(w, filled.chat, model))
    return [
        Figure("sidebar of 1,000 chats, 95th", percentile(sidebar, 0.95), "ms", 10),
        Figure("search, a common word, 95th", percentile(common, 0.95), "ms", 20),
        Figure("search, a rare word, 95th", percentile(rare, 0.95), "ms", 20),
        Figure("open a chat of 500 messages, 95th", percentile(short, 0.95), "ms", 25),
        Figure(
            "open 5,000 messages against 500",
            statistics.median(long) / statistics.median(short),
            "times",
            1.2,
        ),
        Figure("first token in a chat of 500 messages, median", statistics.median(first), "ms", 25),
    ]


async def _with_model(w: World, chat: str, model: str) -> str:
    connection = await Connection.open(w.server.url)
    await connection.json("PATCH", f"/api/v1/chats/{chat}", w.auth, {"model": model})
    connection.close()
    return chat
