"""HTTP on the wire with deadlines, which uvicorn has none of: whoever trickles a request holds a connection.

A request's head must be complete `head` seconds after it began, however its bytes come. A body must go on: in
each `body` seconds at least `pace` bytes a second, unless we are the ones who do not read. What is answered
before its body has come (refused for its size, say) may send a little of the rest, so that the answer is
heard; then it is cut. And whoever does not read what they are sent for `unread` seconds is let go: nothing
else would free what waits for them.

Handed to uvicorn as `http=`, in place of its own classes of the same names.
"""

import asyncio
from typing import TYPE_CHECKING, ClassVar, Literal

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol as _H11
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol as _HttpTools, RequestResponseCycle

Stage = Literal["head", "body", "other"]

# The longest head that is waited for, in bytes; h11 has the same bound, httptools none.
_LONGEST_HEAD = 64 * 1024
# How much of a body is taken in and thrown away after its request was answered, in bytes.
_MOST_DISCARDED = 32 * 1024 * 1024

if TYPE_CHECKING:
    _Base = _HttpTools
else:
    _Base = object


class _Deadlines(_Base):
    """Beside one of uvicorn's protocol classes: watches over what a request's sender does."""

    head: ClassVar[float] = 10.0
    body: ClassVar[float] = 30.0
    pace: ClassVar[float] = 500.0
    unread: ClassVar[float] = 30.0

    _stage: Stage = "other"
    _came = 0
    _body_open = False
    _timer: asyncio.TimerHandle | None = None
    _stalled: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._enter("head")

    def connection_lost(self, exc: Exception | None) -> None:
        self._enter("other")
        self._watch_reader(None)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_reader(self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        self._watch_reader(None)
        super().resume_writing()

    def _watch_reader(self, waiting: int | None) -> None:
        """`waiting` bytes could not be sent yet; None: nothing stands in the way."""
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None
        if waiting is not None:
            self._stalled = self.loop.call_later(self.unread, self._check_reader, waiting)

    def _check_reader(self, before: int) -> None:
        waiting = self.transport.get_write_buffer_size()
        if waiting >= before:
            self.transport.abort()
        else:
            self._watch_reader(waiting)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.transport.is_closing():
            return
        stage = self._stage_now()
        if stage != self._stage:
            self._enter(stage)
        self._came += len(data)
        if stage == "head" and self._came > _LONGEST_HEAD:
            self._refuse(b"431 Request Header Fields Too Large")
        elif stage == "body" and self.cycle.response_complete and self._came > _MOST_DISCARDED:
            self.transport.abort()

    def _in_body(self) -> bool:
        return self._body_open

    def _stage_now(self) -> Stage:
        if self._in_body():
            return "body"
        # Not answering, and not waiting for the next request on a kept connection: a head has begun.
        cycle: RequestResponseCycle | None = self.cycle
        answering = cycle is not None and not cycle.response_complete
        return "other" if answering or self.timeout_keep_alive_task is not None else "head"

    def _enter(self, stage: Stage) -> None:
        self._stage, self._came = stage, 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if stage == "head":
            self._timer = self.loop.call_later(self.head, self._refuse, b"408 Request Timeout")
        elif stage == "body":
            self._timer = self.loop.call_later(self.body, self._check_body)

    def _check_body(self) -> None:
        if self._in_body() and self._came < self.pace * self.body and not self.flow.read_paused:
            self.transport.abort()
        else:
            self._enter("body" if self._in_body() else "other")

    def _refuse(self, status: bytes) -> None:
        self._enter("other")
        if not self.transport.is_closing():
            self.transport.write(
                b"HTTP/1.1 " + status + b"\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
            )
            self.transport.close()


class HttpToolsProtocol(_Deadlines, _HttpTools):
    """uvicorn's protocol on httptools, with deadlines."""

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        self._body_open = True

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._body_open = False


class H11Protocol(_Deadlines, _H11):  # type: ignore[misc]
    """uvicorn's protocol on h11, with deadlines."""

    def _in_body(self) -> bool:
        return self.conn.their_state is h11.SEND_BODY


DeadlineProtocol = HttpToolsProtocol
"""What `main` serves with."""
