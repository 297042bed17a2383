"""Slow and oversized requests on a real socket."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from app.web.protocol import H11Protocol, HttpToolsProtocol

HEAD, BODY = 0.4, 0.4


class _QuickHttpTools(HttpToolsProtocol):
    head, body = HEAD, BODY


class _QuickH11(H11Protocol):
    head, body = HEAD, BODY


KINDS = pytest.mark.parametrize("kind", [_QuickHttpTools, _QuickH11], ids=["httptools", "h11"])


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers with the length of the body; `/early` answers before it has come, `/slow` starts a stream."""
    if scope["type"] != "http":
        return
    length, more = 0, scope["path"] != "/early"
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        length, more = length + len(message.get("body", b"")), message.get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    if scope["path"] == "/slow":
        await send({"type": "http.response.body", "body": b"first ", "more_body": True})
        await asyncio.sleep(3 * max(HEAD, BODY))
    await send({"type": "http.response.body", "body": str(length).encode()})


@asynccontextmanager
async def serving(kind: type[asyncio.Protocol]) -> AsyncIterator[int]:
    config = uvicorn.Config(
        echo, http=kind, ws="none", lifespan="off", log_level="critical", timeout_keep_alive=60
    )
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        running = asyncio.ensure_future(server.serve([listening]))
        try:
            yield listening.getsockname()[1]
        finally:
            server.should_exit = True
            await running


async def answer(port: int, *pieces: bytes, every: float = 0, until: bytes | None = None) -> bytes:
    """Send `pieces`, one each `every` seconds; what came back, to the end or to the words `until`."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    came = asyncio.ensure_future(reader.readuntil(until) if until else reader.read())
    try:
        for piece in pieces:
            if came.done():
                break
            writer.write(piece)
            await asyncio.sleep(every)
        return await asyncio.wait_for(came, 10)
    except ConnectionError:
        return b""
    finally:
        writer.close()


def trickled(text: bytes) -> list[bytes]:
    return [text[i : i + 1] for i in range(len(text))]


KEPT = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"
REQUEST = b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"


@KINDS
async def test_a_plain_request_is_answered(kind: type[asyncio.Protocol]):
    async with serving(kind) as port:
        assert b"200 OK" in await answer(port, REQUEST)


@KINDS
async def test_a_trickled_head_is_cut_off_although_it_goes_on(kind: type[asyncio.Protocol]):
    async with serving(kind) as port:
        head = b"GET / HTTP/1.1\r\nhost: x\r\nx-pad: " + b"a" * 200
        assert b" 408 " in await answer(port, *trickled(head), every=HEAD / 20)


@KINDS
async def test_a_connection_on_which_nothing_comes_is_closed(kind: type[asyncio.Protocol]):
    async with serving(kind) as port:
        assert b" 408 " in await answer(port)


@KINDS
async def test_the_deadline_of_a_head_holds_for_the_next_request_of_a_connection(
    kind: type[asyncio.Protocol],
):
    async with serving(kind) as port:
        said = await answer(port, KEPT, *trickled(b"GET / HTTP/1.1\r\nx: " + b"a" * 200), every=HEAD / 20)
        assert b"200 OK" in said
        assert b" 408 " in said


@KINDS
async def test_bare_line_ends_do_not_hold_a_kept_connection(kind: type[asyncio.Protocol]):
    async with serving(kind) as port:
        said = await answer(port, KEPT, b"\r\n", every=0.1)
        assert said.startswith(b"HTTP/1.1 200 OK")
        assert said.count(b"HTTP/1.1 4") == 1


@KINDS
async def test_a_trickled_body_is_cut_off_although_it_goes_on(kind: type[asyncio.Protocol]):
    async with serving(kind) as port:
        head = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n"
        assert await answer(port, head, *trickled(b"a" * 100), every=BODY / 20) == b""


@KINDS
async def test_a_body_that_keeps_its_pace_may_take_longer_than_the_deadline(kind: type[asyncio.Protocol]):
    async with serving(kind) as port:
        head = b"POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 20000\r\n\r\n"
        said = await answer(port, head, *[b"a" * 1000] * 20, every=BODY / 8)
        assert b"\r\n20000\r\n" in said


@KINDS
async def test_a_long_answer_is_not_cut_by_the_deadlines_of_its_request(kind: type[asyncio.Protocol]):
    async with serving(kind) as port:
        said = await answer(port, REQUEST.replace(b"GET /", b"GET /slow"))
        assert b"first " in said
        assert said.endswith(b"0\r\n\r\n")


@KINDS
async def test_a_head_without_end_is_refused_by_its_size(kind: type[asyncio.Protocol]):
    async with serving(kind) as port:
        said = await answer(port, b"GET / HTTP/1.1\r\nx: ", *[b"a" * 16_384] * 6, every=0.01)
        assert said.startswith((b"HTTP/1.1 431 ", b"HTTP/1.1 400 "))


@KINDS
async def test_an_answer_given_before_the_body_has_come_is_heard(kind: type[asyncio.Protocol]):
    async with serving(kind) as port:
        head = b"POST /early HTTP/1.1\r\nhost: x\r\ncontent-length: 3000000\r\n\r\n"
        said = await answer(port, head, *[b"a" * 100_000] * 30, until=b"\r\n0\r\n\r\n")
        assert said.startswith(b"HTTP/1.1 200 OK")
