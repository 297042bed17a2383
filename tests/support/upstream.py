"""The scripted upstream: a real HTTP server that speaks OpenAI chat completions and misbehaves on demand.

In a test, on the test's own loop:

    upstream = Upstream()
    await upstream.start()
    ... EndpointConfig(label="Up", api="openai-chat", base_url=upstream.url) ...
    upstream.script("flaky", "status?code=429&retry_after=1", "normal?tokens=20")
    request = await upstream.received(1)      # the first completion that was asked for
    await request.ended()                     # answered, or given up by the client
    assert request.client_closed
    await upstream.stop()

In a process of its own, for benches and fault tests (`UpstreamProcess`, or by hand):

    python -m tests.support.upstream --port 0       prints its base URL (".../v1") as the first line

There `POST /control {"scripts": {name: [mode, ...]}, "models": [...], "forget": true}` and `GET /requests`
do what the methods do. What a model name asks for is in `upstream_modes`. One raw protocol and one timer
serve all responses: 200 of them at 30 deltas a second take about a tenth of a core.
"""

import argparse
import asyncio
import contextlib
import heapq
import http
import json
import socket
import struct
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any, cast

from tests.support.upstream_modes import MODES, Call, Head, Step, Steps, parse, whole

MODELS = ("normal", "reasoning", "tool")
# Steps a response may take in one turn of the loop, so that a fast one starves nobody.
_TURN = 64


@dataclass
class Received:
    """One request for a completion and how its answer went. Times are of the monotonic clock, in seconds."""

    headers: Mapping[str, str]
    body: Mapping[str, Any]
    mode: str
    call: Call
    at: float = field(default_factory=monotonic)
    first_sent: float | None = None
    last_sent: float | None = None
    writes: int = 0
    finished: bool = False
    client_closed: bool = False
    _over: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def model(self) -> str:
        return str(self.body.get("model", ""))

    @property
    def text(self) -> str:
        """The text that a normal reply to this request holds."""
        return self.call.text

    async def ended(self) -> None:
        """Wait until the answer is out, or until the client has closed the connection."""
        await self._over.wait()

    def over(self) -> None:
        self._over.set()

    def as_json(self) -> dict[str, Any]:
        names = ("at", "first_sent", "last_sent", "writes", "finished", "client_closed", "mode", "body")
        return {name: getattr(self, name) for name in names} | {"headers": dict(self.headers)}


class _Connection(asyncio.Protocol):
    """One connection: requests one after the other, each answered by the steps of its mode."""

    def __init__(self, upstream: "Upstream") -> None:
        self.upstream = upstream
        self.buffer = bytearray()
        self.steps: Steps | None = None
        self.request: Received | None = None
        self.chunked = False
        self.due = 0.0
        self.may_write = True
        self.waiting = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclass of asyncio's.
        self.transport = cast(asyncio.Transport, transport)
        raw = transport.get_extra_info("socket")
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.upstream.connections.add(self)
        self.upstream.connected += 1

    def connection_lost(self, exc: Exception | None) -> None:
        self.upstream.connections.discard(self)
        self._end(client_closed=self.steps is not None)

    def pause_writing(self) -> None:
        self.may_write = False

    def resume_writing(self) -> None:
        self.may_write = True
        self.play()

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        self._read_request()

    def _read_request(self) -> None:
        head, mark, rest = self.buffer.partition(b"\r\n\r\n")
        if self.steps is not None or not mark:
            return
        first, *lines = head.decode("latin-1").split("\r\n")
        pairs = (line.partition(":") for line in lines)
        headers = {name.lower(): value.strip() for name, _, value in pairs}
        length = int(headers.get("content-length", 0))
        if len(rest) < length:
            return
        del self.buffer[: len(head) + 4 + length]
        method, target, _ = first.split(" ", 2)
        body = json.loads(rest[:length]) if length else {}
        self.steps, self.request = self.upstream.answer(method, target.partition("?")[0], headers, body)
        self.due = asyncio.get_running_loop().time()
        self.play()

    def play(self) -> None:
        """Take steps until one has to wait."""
        if self.waiting or self.steps is None:
            return
        for _ in range(_TURN):
            if not self.may_write or self.transport.is_closing():
                return
            step = next(self.steps, None)
            if isinstance(step, bytes):
                self._write(step)
            elif isinstance(step, float):
                self.due = max(self.due + step, self.due)
                if self.due > self.upstream.clock():
                    self.upstream.wake_at(self.due, self)
                    return
            elif isinstance(step, Head):
                self._write_head(step)
            else:
                self._leave(step)
                return
        self.upstream.wake_at(0.0, self)

    def _write(self, data: bytes) -> None:
        if self.chunked:
            data = b"%x\r\n%b\r\n" % (len(data), data)
        self.transport.write(data)
        if (request := self.request) is not None:
            request.last_sent = monotonic()
            request.first_sent = request.first_sent or request.last_sent
            request.writes += 1

    def _write_head(self, head: Head) -> None:
        phrase = http.HTTPStatus(head.status).phrase if head.status in set(http.HTTPStatus) else "Scripted"
        size = "transfer-encoding: chunked" if head.length is None else f"content-length: {head.length}"
        lines = [f"HTTP/1.1 {head.status} {phrase}", f"content-type: {head.type}", size]
        lines += [f"{name}: {value}" for name, value in head.headers.items()]
        self.transport.write("\r\n".join([*lines, "", ""]).encode())
        self.chunked = head.length is None

    def _leave(self, step: Step | None) -> None:
        """What follows the last step."""
        if step is Step.HANG:
            return
        if step is Step.RESET:
            linger = struct.pack("ii", 1, 0)
            self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self._end()
            self.transport.abort()
        elif step is Step.CUT:
            self._end()
            self.transport.close()
        else:
            if self.chunked:
                self.transport.write(b"0\r\n\r\n")
            self._end()
            self._read_request()

    def _end(self, client_closed: bool = False) -> None:
        request, self.request, self.steps, self.chunked = self.request, None, None, False
        if request is not None:
            request.finished, request.client_closed = not client_closed, client_closed
            request.over()


class Upstream:
    """The server. `key`, where given, is the only one it lets in; `models` is what it lists."""

    def __init__(self, key: str | None = None, models: tuple[str, ...] = MODELS) -> None:
        self.key = key
        self.models = list(models)
        self.requests: list[Received] = []
        self.connections: set[_Connection] = set()
        self.connected = 0  # connections there ever were
        self._scripts: dict[str, list[str]] = {}
        self._plays: dict[str, list[bytes | float | Head | Step]] = {}
        self._due: list[tuple[float, int, _Connection]] = []
        self._order = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._arrived = asyncio.Event()

    async def start(self, port: int = 0) -> None:
        loop = asyncio.get_running_loop()
        self.clock = loop.time
        self._server = await loop.create_server(lambda: _Connection(self), "127.0.0.1", port, backlog=1024)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"

    async def stop(self) -> None:
        """Stop listening and drop every connection."""
        self._server.close()
        if self._timer is not None:
            self._timer.cancel()
        for connection in list(self.connections):
            connection.transport.abort()
        await self._server.wait_closed()

    def script(self, model: str, *modes: str) -> None:
        """From now on requests for `model` get `modes` in turn; the last one stays."""
        self._scripts[model] = list(modes)

    def play(self, model: str, *steps: bytes | float | Head | Step) -> None:
        """From now on requests for `model` get exactly these steps (see `upstream_modes`)."""
        self._plays[model] = list(steps)

    async def received(self, count: int) -> Received:
        """Wait for the completion request number `count` (from 1) and return it."""
        while len(self.requests) < count:
            self._arrived.clear()
            await self._arrived.wait()
        return self.requests[count - 1]

    def wake_at(self, when: float, connection: _Connection) -> None:
        """Go on with `connection` at `when`; one timer serves all, set for the earliest."""
        connection.waiting = True
        self._order += 1
        heapq.heappush(self._due, (when, self._order, connection))
        if self._timer is None or when < self._timer_at:
            self._set_timer(when)

    def _set_timer(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(when, self._wake)
        self._timer_at = when  # uvloop gives no handle that tells it, for a time that is past

    def _wake(self) -> None:
        self._timer = None
        now, last = self.clock(), self._order
        # Who asks to be woken meanwhile (order above `last`) waits for the next turn of the loop.
        while self._due and self._due[0][0] <= now and self._due[0][1] <= last:
            _, _, connection = heapq.heappop(self._due)
            connection.waiting = False
            connection.play()
        if self._due and self._timer is None:
            self._set_timer(self._due[0][0])

    def answer(
        self, method: str, path: str, headers: Mapping[str, str], body: Any
    ) -> tuple[Steps, Received | None]:
        """The steps that answer a request, and its record where it asks for a completion."""
        if path == "/control":
            return _json(200, self._control(body)), None
        if path == "/requests":
            return _json(200, [request.as_json() for request in self.requests]), None
        if self.key is not None and headers.get("authorization") != f"Bearer {self.key}":
            return _json(
                401, {"error": {"message": "Incorrect API key provided", "code": "invalid_api_key"}}
            ), None
        if path == "/v1/models":
            listed = [{"id": name, "object": "model", "context_length": 8192} for name in self.models]
            return _json(200, {"object": "list", "data": listed}), None
        if (method, path) != ("POST", "/v1/chat/completions"):
            return _json(404, {"error": {"message": f"nothing at {path}"}}), None
        return self._complete(headers, body)

    def _complete(self, headers: Mapping[str, str], body: Any) -> tuple[Steps, Received]:
        named = str(body.get("model", ""))
        modes = self._scripts.get(named, [named])
        mode = modes.pop(0) if len(modes) > 1 else modes[0]
        name, options = parse(mode)
        call = Call(_prompt(body), body, options)
        request = Received(headers, body, mode, call)
        self.requests.append(request)
        self._arrived.set()
        if named in self._plays:
            return iter(self._plays[named]), request
        if name not in MODES:
            missing = {"message": f"The model '{named}' does not exist", "code": "model_not_found"}
            return _json(404, {"error": missing}), request
        streams = body.get("stream") or name != "normal"
        return (MODES[name] if streams else whole)(call), request

    def _control(self, body: Any) -> dict[str, Any]:
        for model, modes in body.get("scripts", {}).items():
            self.script(model, *modes)
        if "models" in body:
            self.models = list(body["models"])
        if body.get("forget"):
            self.requests.clear()
        return {"requests": len(self.requests), "connections": len(self.connections)}


def _prompt(body: Any) -> str:
    """The text of the last user message, which the answer is a function of."""
    for message in reversed(body.get("messages", [])):
        if message.get("role") == "user":
            content = message.get("content")
            return content if isinstance(content, str) else json.dumps(content)
    return ""


def _json(status: int, value: Any) -> Steps:
    body = json.dumps(value).encode()
    yield Head(status, "application/json", {}, len(body))
    yield body


class UpstreamProcess:
    """The same server in a process of its own, for callers that block or that measure CPU time."""

    def __init__(self, port: int = 0) -> None:
        command = [sys.executable, "-m", "tests.support.upstream", "--port", str(port), "--with-parent"]
        home = Path(__file__).resolve().parents[2]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, text=True, cwd=home, stdin=pipe, stdout=pipe)
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()

    @property
    def pid(self) -> int:
        return self._process.pid

    def control(self, **body: Any) -> dict[str, Any]:
        """`scripts`, `models`, `forget`: see the top of this file."""
        return dict(self._ask("/control", json.dumps(body).encode()))

    def requests(self) -> list[dict[str, Any]]:
        return list(self._ask("/requests"))

    def _ask(self, path: str, body: bytes | None = None) -> Any:
        url = self.url.removesuffix("/v1") + path
        with urllib.request.urlopen(urllib.request.Request(url, body), timeout=10) as answer:
            return json.load(answer)

    def stop(self) -> None:
        self._process.kill()
        self._process.communicate()

    def __enter__(self) -> "UpstreamProcess":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


async def _serve(port: int, key: str | None, with_parent: bool) -> None:
    upstream, loop, over = Upstream(key), asyncio.get_running_loop(), asyncio.Event()
    await upstream.start(port)
    print(upstream.url, flush=True)
    if with_parent:
        loop.add_reader(sys.stdin.fileno(), over.set)
    await over.wait()


def main() -> None:
    options = argparse.ArgumentParser(description="A scripted endpoint that speaks OpenAI chat completions.")
    options.add_argument("--port", type=int, default=0, help="0 picks a free one")
    options.add_argument("--key", help="the only API key that is let in")
    options.add_argument("--with-parent", action="store_true", help="end when standard input does")
    given = options.parse_args()
    with contextlib.suppress(ImportError):
        import uvloop

        asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(given.port, given.key, given.with_parent))


if __name__ == "__main__":
    main()
