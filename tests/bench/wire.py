"""A lean HTTP/1.1 client for measuring: raw sockets, wall-clock stamps, bytes counted on the wire."""

import asyncio
import json
import re
import time
import zlib
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

# How `tests.support.upstream_modes` stamps a token: monotonic time in microseconds.
_STAMP = re.compile(rb"@(\d{9,})\b")


@dataclass
class Connection:
    """One keep-alive connection to the server."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    host: str

    @classmethod
    async def open(cls, url: str) -> "Connection":
        parts = urlsplit(url)
        host, port = parts.netloc.rsplit(":", 1)
        reader, writer = await asyncio.open_connection(host, int(port), limit=2**20)
        return cls(reader, writer, parts.netloc)

    def close(self) -> None:
        self.writer.close()

    async def send(
        self, method: str, path: str, headers: dict[str, str], body: bytes = b""
    ) -> tuple[int, dict[str, str]]:
        """Send a request; the status and headers of its answer (names in lower case)."""
        lines = [f"{method} {path} HTTP/1.1", f"Host: {self.host}", f"Content-Length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self.writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        pairs = (line.split(":", 1) for line in head[1:] if ":" in line)
        return int(head[0].split()[1]), {name.lower(): value.strip() for name, value in pairs}

    async def chunk(self) -> bytes:
        """The next chunk of a chunked body; empty at its end."""
        size = int(await self.reader.readuntil(b"\r\n"), 16)
        return (await self.reader.readexactly(size + 2))[:-2]

    async def body(self, headers: dict[str, str]) -> bytes:
        if "content-length" in headers:
            return await self.reader.readexactly(int(headers["content-length"]))
        parts = []
        while part := await self.chunk():
            parts.append(part)
        return b"".join(parts)

    async def json(self, method: str, path: str, headers: dict[str, str], data: Any = None) -> Any:
        """Send JSON, get JSON. Raises AssertionError for a status of 400 or more."""
        body = b"" if data is None else json.dumps(data).encode()
        status, answered = await self.send(method, path, headers | {"Content-Type": "application/json"}, body)
        text = await self.body(answered)
        assert status < 400, f"{method} {path}: {status} {text[:300]!r}"
        return json.loads(text) if text else None


@dataclass
class Followed:
    """What a follower saw: when the first text came, how old each stamped token was, how many bytes crossed."""

    began: float
    first: float | None = None
    ended: float | None = None
    ages_ms: list[float] = field(default_factory=list)
    wire_bytes: int = 0
    finished: bool = False


async def follow(
    connection: Connection,
    path: str,
    headers: dict[str, str],
    *,
    text: re.Pattern[bytes],
    end: bytes,
    compressed: bool = False,
) -> Followed:
    """Follow the event stream at `path` until a chunk holds `end`. `text` finds text that is shown."""
    seen = Followed(time.perf_counter())
    accept = {"Accept-Encoding": "gzip"} if compressed else {"Accept-Encoding": "identity"}
    status, answered = await connection.send("GET", path, headers | accept)
    assert status == 200, f"{path}: {status}"
    unpack = zlib.decompressobj(31) if answered.get("content-encoding") == "gzip" else None
    newest = 0
    while chunk := await connection.chunk():
        seen.wire_bytes += len(chunk) + len(b"%x" % len(chunk)) + 4
        data = unpack.decompress(chunk) if unpack else chunk
        now = time.monotonic_ns() // 1000
        if seen.first is None and text.search(data):
            seen.first = time.perf_counter()
        for match in _STAMP.finditer(data):
            if (stamp := int(match[1])) > newest:
                newest = stamp
                seen.ages_ms.append((now - stamp) / 1000)
        if end in data:
            seen.finished = True
            break
    seen.ended = time.perf_counter()
    connection.close()
    return seen
