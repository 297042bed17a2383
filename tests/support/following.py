"""Following a stream in a test: a Nightdesk on a real socket, its events, and a page that keeps what frames say."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import uvicorn

from app.web.protocol import HttpToolsProtocol
from app.web.splitter import JOINS
from tests.support.desk import Desk


@asynccontextmanager
async def served(desk: Desk, protocol: type[HttpToolsProtocol] = HttpToolsProtocol) -> AsyncIterator[str]:
    """`desk` on a free port of this host; its address."""
    bound = socket.socket()
    bound.bind(("127.0.0.1", 0))
    config = uvicorn.Config(
        desk.app, http=protocol, ws="none", lifespan="off", access_log=False, log_config=None
    )
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    task = asyncio.ensure_future(server._serve(sockets=[bound]))
    while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
        await asyncio.sleep(0.005)
    try:
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"
    finally:
        desk.house.bulletin.close()
        server.force_exit = server.should_exit = True
        await task


@dataclass(frozen=True)
class Event:
    """One server-sent event; a comment has the type `:`."""

    type: str
    data: Any = None
    id: str | None = None


def parsed(data: bytes) -> list[Event]:
    """The events in `data`, all of them whole."""
    found: list[Event] = []
    for block in data.decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines())
        if fields:
            found.append(Event(fields["event"], json.loads(fields["data"]), fields.get("id")))
    return found


class Events:
    """The events of an open stream, read one after the other."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self._lines = response.aiter_lines()

    async def next(self) -> Event | None:
        """The next event, None at the end."""
        type, data, id = "", None, None
        async for line in self._lines:
            if line.startswith(":"):
                type = ":"
            elif line:
                name, _, value = line.partition(": ")
                if name == "event":
                    type = value
                elif name == "data":
                    data = json.loads(value)
                elif name == "id":
                    id = value
            elif type:
                return Event(type, data, id)
        return None

    async def until(self, type: str) -> list[Event]:
        """All events up to the first one of `type`, which is among them."""
        found: list[Event] = []
        async with asyncio.timeout(20):
            while not found or found[-1].type != type:
                event = await self.next()
                assert event is not None, f"the stream ended before {type}: {[e.type for e in found]}"
                found.append(event)
        return found

    async def rest(self) -> list[Event]:
        """All events to the end of the stream."""
        found: list[Event] = []
        async with asyncio.timeout(20):
            while (event := await self.next()) is not None:
                found.append(event)
        return found


@asynccontextmanager
async def following(client: httpx.AsyncClient, path: str, **headers: str) -> AsyncIterator[Events]:
    """An open stream. `headers` with `_` for `-`."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with client.stream("GET", path, headers={"accept": "text/event-stream"} | named) as response:
        yield Events(response)


def text_of(events: list[Event], kind: str = "text") -> str:
    """What the deltas among `events` say."""
    return "".join(event.data["data"]["text"] for event in events if event.type == kind)


@dataclass
class Segment:
    """What a page knows of a segment: settled blocks, and the open one as HTML."""

    blocks: list[str] = field(default_factory=list)
    parts: int | None = None
    tail: str = ""
    closed: bool = False

    @property
    def html(self) -> str:
        blocks, tail = list(self.blocks), self.tail
        if tail.startswith(JOINS[0]):
            joined, tail = _unframed(tail)
            blocks[-1] = _inserted(blocks[-1], joined)
        return "".join(blocks) + tail


class PageModel:
    """Applies frames as `follow.js` does, on strings: what a page would show after each of them."""

    def __init__(self) -> None:
        self.segments: dict[str, Segment] = {}
        self.writing: Segment | None = None
        self.ended: Any = None
        self.frames = 0

    def take(self, event: Event) -> None:
        self.frames += 1
        act = getattr(self, f"_{event.type}", None)
        if act is not None:
            act(event.data)

    def _open(self, data: Any) -> None:
        self.writing = self.segments.setdefault(data["segment"], Segment())

    def _tail(self, data: Any) -> None:
        assert self.writing is not None
        self.writing.tail = _applied(self.writing.tail, data)

    def _block(self, data: Any) -> None:
        segment = self.segments[data["segment"]]
        html, segment.tail = _applied(segment.tail, data), ""
        if data["settled"] < len(segment.blocks):
            return
        if html.startswith(JOINS[0]):
            joined, html = _unframed(html)
            segment.blocks[-1] = _inserted(segment.blocks[-1], joined)
            if data.get("loose") and ' class="loose"' not in segment.blocks[-1].split(">", 1)[0]:
                segment.blocks[-1] = segment.blocks[-1].replace(">", ' class="loose">', 1)
        segment.blocks += _elements(html)
        assert len(segment.blocks) == data["settled"]
        segment.parts = data.get("parts")

    def _redraw(self, data: Any) -> None:
        self.segments[data["segment"]].blocks[data["block"]] = data["html"]

    def _close(self, data: Any) -> None:
        segment = self.segments[data["segment"]]
        segment.tail, segment.closed = "", True

    def _ended(self, data: Any) -> None:
        self.ended = data


def _applied(before: str, data: Any) -> str:
    units = before.encode("utf-16-le")[: data["keep"] * 2]
    return str(units.decode("utf-16-le") + data["rest"])


def _inserted(block: str, parts: str) -> str:
    """`parts` at the end of `block`: before the tags that close a list, code or plain text."""
    at = block.rindex("</code>") if block.startswith('<div class="code">') else block.rindex("</")
    return block[:at] + parts + block[at:]


def _unframed(html: str) -> tuple[str, str]:
    """The parts in a frame that joins the last block, and what stands behind it."""
    elements = _elements(html)
    return elements[0][len(JOINS[0]) : -len(JOINS[1])], "".join(elements[1:])


def _elements(html: str) -> list[str]:
    """The elements that `html` is made of."""
    found: list[str] = []
    depth = start = at = 0
    while at < len(html):
        end = html.index(">", at) + 1 if html[at] == "<" else html.index("<", at)
        if html[at] == "<":
            tag = html[at + 1 : end - 1].split()[0]
            if tag.startswith("/"):
                depth -= 1
            elif tag not in ("br", "hr", "input"):
                depth += 1
            if depth == 0:
                found.append(html[start:end])
                start = end
        at = end
    return found
