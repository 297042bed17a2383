"""The measures of SPEC 17, each a function that returns its figures. Times are wall time on this machine."""

import asyncio
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench.wire import Connection, Followed
from tests.bench.world import World, connections, world
from tests.support.server import ServerProcess


@dataclass(frozen=True)
class Figure:
    """One number beside its bar. `at_most` is None where the section gives no figure."""

    measure: str
    value: float
    unit: str
    at_most: float | None = None

    @property
    def holds(self) -> bool:
        return self.at_most is None or self.value <= self.at_most


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


async def _run_one(w: World, connection: Connection, chat: str) -> float:
    """Milliseconds from the POST to the first text at a follower."""
    began = time.perf_counter()
    seen = await w.follow_api(await w.ask(connection, chat))
    assert seen.first is not None, "no text came"
    return (seen.first - began) * 1000


async def _first_tokens(w: World, count: int) -> list[float]:
    found = []
    model = w.model("one token")
    async with connections(w.server.url, 1) as (connection,):
        for _ in range(count):
            found.append(await _run_one(w, connection, await w.new_chat(connection, model)))
    return found[5:]


async def _burst(w: World, count: int) -> list[float]:
    # Replies that go on for a second: the end of the first ones is not what the last ones wait for.
    model = w.model("one second")
    async with connections(w.server.url, count) as opened:
        chats = [await w.new_chat(opened[0], model) for _ in range(count)]
        return list(
            await asyncio.gather(*(_run_one(w, c, chat) for c, chat in zip(opened, chats, strict=True)))
        )


def first_token(w: World) -> list[Figure]:
    times = asyncio.run(_first_tokens(w, 105))
    asyncio.run(_burst(w, 50))
    burst = asyncio.run(_burst(w, 50))
    return [
        Figure("first token, median", statistics.median(times), "ms", 10),
        Figure("first token, 95th", percentile(times, 0.95), "ms", 20),
        Figure("first token, 50 at once, median", statistics.median(burst), "ms", 100),
    ]


async def in_one_chat(w: World, chat: str) -> list[float]:
    """First-token times of 25 messages in a row in `chat`."""
    async with connections(w.server.url, 1) as (connection,):
        return [await _run_one(w, connection, chat) for _ in range(25)]


async def _many(
    w: World, model: str, count: int, *, cookie: str | None = None, compressed: bool = False
) -> tuple[list[Followed], float]:
    """Start `count` replies in the same instant, each followed; what was seen, and the server's CPU seconds."""
    async with connections(w.server.url, count) as opened:
        model_id = w.model(model)
        chats = [await w.new_chat(opened[0], model_id) for _ in range(count)]
        before = w.server.cpu_seconds()

        async def one(connection: Connection, chat: str) -> Followed:
            reply = await w.ask(connection, chat)
            if cookie:
                return await w.follow_page(chat, reply, cookie, compressed=compressed)
            return await w.follow_api(reply, compressed=compressed)

        seen = await asyncio.gather(*(one(c, chat) for c, chat in zip(opened, chats, strict=True)))
        return list(seen), w.server.cpu_seconds() - before


def many(w: World, model: str, count: int, **options: Any) -> tuple[list[Followed], float]:
    return asyncio.run(_many(w, model, count, **options))


def latency(w: World) -> list[Figure]:
    found = []
    api, _ = many(w, "stamped, 50 a second", 1)
    page, _ = many(w, "stamped, 50 a second", 1, cookie=w.cookie())
    found.append(Figure("later token, lone, API follower, 95th", percentile(api[0].ages_ms, 0.95), "ms", 1.2))
    found.append(
        Figure("later token, lone, page follower, 95th", percentile(page[0].ages_ms, 0.95), "ms", 20)
    )
    for count in (10, 50, 200):
        seen, _ = many(w, "stamped, 30 a second", count)
        ages = [age for one in seen for age in one.ages_ms]
        bar = 500 if count == 200 else None
        found.append(Figure(f"token latency, {count} replies, median", statistics.median(ages), "ms"))
        found.append(Figure(f"token latency, {count} replies, 99th", percentile(ages, 0.99), "ms", bar))
        found.append(Figure(f"failed of {count}", sum(not one.finished for one in seen), "", 0))
    return found


def cpu(w: World) -> list[Figure]:
    _, short = many(w, "fast 2,000", 1)
    runs = [many(w, "fast 2,000", 1)[1] for _ in range(5)]
    short = statistics.median([short, *runs]) / 2
    long = statistics.median(many(w, "fast 20,000", 1)[1] for _ in range(3)) / 20
    _, ten = many(w, "30 a second", 10)
    _, ten_pages = many(w, "30 a second", 10, cookie=w.cookie())
    _, two_hundred = many(w, "30 a second", 200)
    return [
        Figure("CPU per 1,000 tokens, one as fast as possible", short, "s", 0.03),
        Figure("CPU per 1,000 tokens, 10 replies, API followers", ten / 3, "s", 0.25),
        Figure("CPU per 1,000 tokens, 10 replies, page followers", ten_pages / 3, "s", 0.7),
        Figure("CPU per 1,000 tokens, 200 replies, API followers", two_hundred / 60, "s", 0.15),
        Figure("CPU per token at 20,000 against 2,000 tokens", long / max(short, 0.001), "times", 1.3),
    ]


def size_on_wire(w: World) -> list[Figure]:
    size = len(_reply_text(w, "50 a second"))
    api, _ = many(w, "50 a second", 1, compressed=True)
    page, _ = many(w, "50 a second", 1, cookie=w.cookie(), compressed=True)
    return [
        Figure("bytes per byte, API follower", api[0].wire_bytes / size, "times", 4),
        Figure("bytes per byte, page follower", page[0].wire_bytes / size, "times", 5),
    ]


def _reply_text(w: World, model: str) -> str:
    async def ask() -> str:
        async with connections(w.server.url, 1) as (connection,):
            reply = await w.ask(connection, await w.new_chat(connection, w.model(model)))
        await w.follow_api(reply)
        async with connections(w.server.url, 1) as (connection,):
            return str((await connection.json("GET", f"/api/v1/replies/{reply}", w.auth))["text"])

    return asyncio.run(ask())


def memory(w: World) -> list[Figure]:
    idle = w.server.resident_mb()

    async def peak() -> float:
        running = asyncio.ensure_future(_many(w, "30 a second", 200))
        highest = 0.0
        while not running.done():
            highest = max(highest, w.server.resident_mb())
            await asyncio.sleep(0.2)
        await running
        return highest

    return [
        Figure("resident memory, idle", idle, "MB", 90),
        Figure("resident memory, 200 replies running", asyncio.run(peak()), "MB", 250),
    ]


def start_time(folder: Path) -> list[Figure]:
    times = []
    for _ in range(5):
        server = ServerProcess(folder, "--no-local-model", env={"NIGHTDESK_LOG_LEVEL": "warning"})
        began = time.perf_counter()
        server.start()
        times.append(time.perf_counter() - began)
        server.terminate()
    return [Figure("start to first page", statistics.median(times), "s", 1)]


@contextmanager
def fresh_world(**options: Any) -> Iterator[World]:
    """A server on a folder of its own; `options` as in `world`."""
    with (
        tempfile.TemporaryDirectory(prefix="nightdesk-bench-") as folder,
        world(Path(folder) / "data", **options) as w,
    ):
        yield w


def in_world(measure: Callable[[World], list[Figure]]) -> list[Figure]:
    with fresh_world() as w:
        return measure(w)
