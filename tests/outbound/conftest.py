"""A raw server: it says exactly the bytes that a test gives it, and remembers what it was asked."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from ipaddress import ip_address
from typing import Any

import pytest
import uvloop

from app.outbound import Outbound
from app.outbound.addresses import Address

Answer = Callable[["Exchange"], Awaitable[None]]


def pytest_asyncio_loop_factories(config, item):
    """The server runs on uvloop where there is one, and on asyncio's own loop elsewhere."""
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


class Exchange:
    """One request as the server read it, and the way to answer it."""

    def __init__(self, head: bytes, body: bytes, writer: asyncio.StreamWriter) -> None:
        self.head = head.decode("latin-1")
        self.body = body
        self.writer = writer
        self.gone = asyncio.Event()

    def header(self, name: str) -> str | None:
        for line in self.head.split("\r\n")[1:]:
            key, _, value = line.partition(":")
            if key.lower() == name:
                return value.strip()
        return None

    async def say(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()

    async def hang_up(self) -> None:
        self.writer.close()


class RawServer:
    """Answers each request with what `answer` does; `answers` may be swapped between requests."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.exchanges: list[Exchange] = []
        self.connections = 0
        self._serving: list[asyncio.Task[Any]] = []
        self._writers: list[asyncio.StreamWriter] = []

    async def start(self, **options) -> "RawServer":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, **options)
        self.port: int = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        return self

    async def stop(self) -> None:
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.gather(*self._serving, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.append(writer)
        task = asyncio.current_task()
        assert task is not None
        self._serving.append(task)
        last: Exchange | None = None
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = Exchange(head, b"", writer).header("content-length")
                last = Exchange(head, await reader.readexactly(int(length or 0)), writer)
                self.exchanges.append(last)
                await self.answer(last)
        if last is not None:
            last.gone.set()
        writer.close()


@pytest.fixture
async def serve() -> AsyncIterator[Callable[..., Awaitable[RawServer]]]:
    """`await serve(b"...", b"...")` starts a server that says these pieces; or give it a function."""
    servers: list[RawServer] = []

    async def start(*said, **options) -> RawServer:
        async def say(exchange: Exchange) -> None:
            await exchange.say(*said)

        server = RawServer(said[0] if callable(said[0]) else say)
        servers.append(await server.start(**options))
        return server

    yield start
    for server in servers:
        await server.stop()


@pytest.fixture
async def going_out() -> AsyncIterator[Callable[..., Outbound]]:
    """`going_out(allowed=..., resolve=...)` makes an Outbound that is closed after the test."""
    made: list[Outbound] = []

    def make(**options) -> Outbound:
        made.append(Outbound(**options))
        return made[-1]

    yield make
    for out in made:
        await out.close()


@pytest.fixture
def outbound(going_out) -> Outbound:
    return going_out()


class Names:
    """A resolver: every name has the addresses of the next answer in the list, the last one for good."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, int]] = []

    async def __call__(self, host: str, port: int) -> list[Address]:
        self.asked.append((host, port))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return [ip_address(text) for text in answer]


OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


async def body_of(http, url: str, **given) -> bytes:
    """The whole body of a request."""
    async with http.stream(
        given.pop("method", "GET"), url, headers=given.pop("headers", {}), idle_timeout=5, **given
    ) as response:
        return await response.read(10_000_000)
