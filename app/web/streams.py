"""Server-sent events over plain ASGI: one task that waits and sends, with nothing around each chunk.

A follower keeps no queue. It is woken, takes what is new from where it stands in a shared list, sends that, and
waits again. A slow one therefore costs a buffer of its connection and no more, and goes on from where it stands.
"""

import asyncio
import json
import zlib
from abc import abstractmethod
from collections.abc import Awaitable
from typing import Any, ClassVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from app.core.errors import SignInNeeded
from app.web.house import House, house, person

# The most that is handed to the connection at once, in bytes.
_CHUNK = 64 * 1024


class EventStream(Response):
    """An answer that goes on. A subclass says what it sends, and sets `over` with the last of it.

    It ends by itself when the client leaves, and when the session or key that it was opened with is revoked.
    """

    beat: ClassVar[float] = 15.0
    """After so long a silence, in seconds, something is said, so that proxies do not close the connection."""
    something: ClassVar[bytes] = b":\n\n"

    def __init__(self, request: Request) -> None:
        super().__init__(None)
        self.house: House = house(request)
        self.person = person(request)
        self.over = False
        self._gzip = _packer(request.headers.get("accept-encoding", ""))
        self._woken = True
        self._waiting: asyncio.Future[None] | None = None
        self._sent = False
        self._overdue = False
        self._timer: asyncio.TimerHandle | None = None

    @abstractmethod
    async def open(self) -> bytes:
        """Attach to what is followed; the first bytes to send."""

    @abstractmethod
    def take(self) -> bytes | Awaitable[bytes]:
        """What is new; asked for whenever the stream was woken."""

    @abstractmethod
    def close(self) -> None:
        """Detach. Called even where `open` failed."""

    def wake(self) -> None:
        """Something may be new. Called by what is followed."""
        self._woken = True
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def end(self) -> None:
        """Stop as soon as possible."""
        self.over = True
        self.wake()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        detach = self.house.sessions.on_revoked(self.person, self.end)
        listening = self.house.tasks.start("follower", self._listen(receive))
        self._beat()
        try:
            if self.over:  # revoked between the question who asks and here
                raise SignInNeeded
            first = await self.open()
            await send({"type": "http.response.start", "status": 200, "headers": self._head()})
            await self._send(send, first)
            await self._run(send)
            last = self._gzip.flush() if self._gzip is not None else b""
            await send({"type": "http.response.body", "body": last, "more_body": False})
        finally:
            if self._timer is not None:
                self._timer.cancel()
            listening.cancel()
            detach()
            self.close()

    async def _run(self, send: Send) -> None:
        while not self.over:
            if not self._woken:
                self._waiting = asyncio.get_running_loop().create_future()
                await self._waiting
            self._woken = False
            news = self.take()
            if not isinstance(news, bytes):
                news = await news
            if not news and self._overdue:
                news = self.something
            if news:
                await self._send(send, news)

    async def _send(self, send: Send, data: bytes) -> None:
        self._sent, self._overdue = True, False
        if self._gzip is not None:
            data = self._gzip.compress(data) + self._gzip.flush(zlib.Z_PARTIAL_FLUSH)
        if len(data) <= _CHUNK:
            await send({"type": "http.response.body", "body": data, "more_body": True})
            return
        # Each piece waits until the connection has room again.
        for start in range(0, len(data), _CHUNK):
            piece = data[start : start + _CHUNK]
            await send({"type": "http.response.body", "body": piece, "more_body": True})

    async def _listen(self, receive: Receive) -> None:
        """The client has nothing more to say but that it has left."""
        while (await receive())["type"] != "http.disconnect":
            pass
        self.end()

    def _beat(self) -> None:
        if self._timer is not None and not self._sent:
            self._overdue = True
            self.wake()
        self._sent = False
        self._timer = asyncio.get_running_loop().call_later(self.beat, self._beat)

    def _head(self) -> list[tuple[bytes, bytes]]:
        packed = [(b"content-encoding", b"gzip")] if self._gzip is not None else []
        return [
            (b"content-type", b"text/event-stream; charset=utf-8"),
            (b"cache-control", b"no-store"),
            (b"x-accel-buffering", b"no"),
            (b"vary", b"accept-encoding"),
            *packed,
        ]


def frame(event: str, data: Any, id: str | None = None) -> str:
    """One event, its `data` as JSON."""
    about = f"id: {id}\n" if id is not None else ""
    return f"{about}event: {event}\ndata: {json.dumps(data, ensure_ascii=False, separators=(',', ':'))}\n\n"


def _packer(accepted: str) -> "zlib._Compress | None":
    """gzip where the client takes it; a window of 4 KB is enough for neighbours, and costs 22 KB a stream."""
    if "gzip" not in accepted:
        return None
    return zlib.compressobj(9, zlib.DEFLATED, 16 + 12, 5)
