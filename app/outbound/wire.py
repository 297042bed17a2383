"""HTTP/1.1 on asyncio and llhttp: one connection, and the pool of idle ones as a transport for httpx.

httpx's own transport costs 60 µs a chunk and 0.8 ms a request (anyio's cancel scopes, h11 in Python, scans of
its pool): half of all the time there is for 200 replies at 30 tokens a second. This one costs 10 µs a chunk,
and gives what one read brought as one chunk. The guard sits where it connects.
"""

import asyncio
import contextlib
import re
import socket
import ssl
from collections.abc import AsyncIterator
from typing import NamedTuple, cast

import certifi
import httptools
import httpx

from app.outbound.addresses import Address
from app.outbound.base import Blocked, Broken, NoConnection, OutboundError, Timeout
from app.outbound.guard import Guard

_HEAD_LIMIT = 64 * 1024  # bytes without any of a body in them: a head, chunk extensions, trailers
_BUFFER_LIMIT = 256 * 1024  # bytes unread by the caller, past which reading from the network pauses
_CONNECT_SECONDS = 10.0
_NEXT_ADDRESS_SECONDS = 2.5  # a dead address gets this long while there are others
_IDLE_SECONDS = 60.0
_IDLE_CONNECTIONS = 100
_HEADER_VALUE = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")
_HEADER_NAME = re.compile(rb"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


class Origin(NamedTuple):
    scheme: str
    host: str
    port: int


class Connection(asyncio.Protocol):
    """One connection. It carries one exchange at a time: `send`, `head`, then `chunks` to its end."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._deadline = 0.0
        self._closed = False
        self._busy = False

    # --- one exchange, for the transport ------------------------------------------------------------------

    def send(self, method: str, data: bytes, idle_timeout: float) -> None:
        """Begin an exchange with `data`, a whole request."""
        self._parser = httptools.HttpResponseParser(self)
        self._method = method
        self._idle_timeout = idle_timeout
        self._parts: list[bytes] = []
        self._held = 0  # bytes in `_parts`
        self._quiet = 0  # bytes since the last of a body
        self._fault: OutboundError | None = None
        self._headers: list[tuple[bytes, bytes]] = []
        self._head_done = self._body_done = self._reusable = self._sized = self._paused = False
        self.heard = False  # whether any byte of an answer has come
        self._busy = True
        self._transport.write(data)

    async def head(self) -> tuple[int, list[tuple[bytes, bytes]]]:
        """Status and headers. Raises Timeout or Broken."""
        while not self._head_done:
            if self._fault is not None:
                raise self._fault
            await self._wait()
        return self._status, self._headers

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body, as raw as it came, one item per read. Raises Timeout or Broken after what came before."""
        while True:
            if self._parts:
                chunk = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
                self._parts.clear()
                self._held = 0
                if self._paused:
                    self._paused = False
                    self._transport.resume_reading()
                yield chunk
            elif self._body_done:
                return
            elif self._fault is not None:
                raise self._fault
            else:
                await self._wait()

    def finish(self) -> bool:
        """End the exchange. True: the connection can carry another; False: it is closed now."""
        self._busy = False
        self._parts = []
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._reusable and self._body_done and not self._closed:
            return True
        self.close()
        return False

    @property
    def is_open(self) -> bool:
        return not self._closed

    def close(self) -> None:
        """Drop the connection at once, so that the other side notices that nobody reads on."""
        self._closed = True
        self._transport.abort()

    async def _wait(self) -> None:
        """Until something came. Each call moves the deadline; the one timer is set anew when it fires."""
        self._deadline = self._loop.time() + self._idle_timeout
        if self._timer is None:
            self._timer = self._loop.call_later(self._idle_timeout, self._check_deadline)
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _check_deadline(self) -> None:
        self._timer = None
        if self._waiter is None:
            return
        left = self._deadline - self._loop.time()
        if left > 0.001:
            self._timer = self._loop.call_later(left, self._check_deadline)
        else:
            self._fail(Timeout(f"nothing came for {self._idle_timeout:g} s"))

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _fail(self, fault: OutboundError) -> None:
        if self._busy and not self._body_done and self._fault is None:
            self._fault = fault
        self.close()
        self._wake()

    # --- what asyncio calls -------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if not self._busy or self._fault is not None:
            self.close()  # an answer to nothing: whatever follows could be taken for the next one
            return
        self.heard = True
        self._quiet += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._reusable = False
            self._fail(Broken(f"the answer is not HTTP: {error}"))
            return
        if self._quiet > _HEAD_LIMIT and not self._body_done:
            self._fail(Broken("the head of the answer is too long"))
        if self._held > _BUFFER_LIMIT and not self._paused and not self._closed:
            self._paused = True
            self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> None:
        self._ended_by_peer("the connection was closed")

    def connection_lost(self, error: Exception | None) -> None:
        self._ended_by_peer(f"the connection was lost: {error}" if error else "the connection was closed")

    def _ended_by_peer(self, what: str) -> None:
        if self._busy and self._head_done and not self._sized and self._fault is None:
            self._body_done = True  # a body without a length ends with its connection
        self._reusable = False
        where = "in the middle of the answer" if self._busy and self.heard else "without an answer"
        self._fail(Broken(f"{what} {where}"))

    # --- what the parser calls ----------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self._body_done:
            self._reusable = False  # more than one answer to one request

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._head_done:
            self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        if self._head_done:
            return
        self._status = self._parser.get_status_code()
        if self._status < 200:
            self._headers = []  # an interim answer; the real one follows
            return
        self._head_done = True
        self._sized = any(name in (b"content-length", b"transfer-encoding") for name, _ in self._headers)
        if self._method == "HEAD":
            self._body_done = True

    def on_body(self, body: bytes) -> None:
        self._quiet = 0
        if not self._body_done:
            self._parts.append(body)
            self._held += len(body)

    def on_message_complete(self) -> None:
        if self._head_done and not self._body_done:
            self._body_done = True
            self._reusable = self._parser.should_keep_alive()


class Wire(httpx.AsyncBaseTransport):
    """Sends httpx's requests over guarded connections and keeps idle ones for the next.

    `resend`: a request that met a connection which its server was just closing is sent once more, whatever
    its method. `tls` is made from the system's and certifi's authorities when first needed, if not given.
    """

    def __init__(self, guard: Guard, resend: bool = False, tls: ssl.SSLContext | None = None) -> None:
        self._guard = guard
        self._resend = resend
        self._tls = tls
        self._idle: dict[Origin, dict[Connection, asyncio.TimerHandle]] = {}
        self._idle_count = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Raises an OutboundError."""
        origin = _origin(request.url)
        data = _head(request) + b"".join([part async for part in cast(httpx.AsyncByteStream, request.stream)])
        timeouts: dict[str, float] = request.extensions["timeout"]
        if (kept := self._take_idle(origin)) is not None:
            try:
                return await self._exchange(kept, origin, request.method, data, timeouts["read"])
            except Broken:
                if kept.heard or not (self._resend or request.method in ("GET", "HEAD")):
                    raise
        fresh = await self._connect(origin, timeouts["connect"])
        return await self._exchange(fresh, origin, request.method, data, timeouts["read"])

    async def _exchange(
        self, connection: Connection, origin: Origin, method: str, data: bytes, idle_timeout: float
    ) -> httpx.Response:
        try:
            connection.send(method, data, idle_timeout)
            status, headers = await connection.head()
        except BaseException:
            connection.finish()
            raise
        return httpx.Response(status, headers=headers, stream=_Body(self, origin, connection))

    # --- connections --------------------------------------------------------------------------------------

    def _take_idle(self, origin: Origin) -> Connection | None:
        idle = self._idle.get(origin, {})
        while idle:
            connection, timer = idle.popitem()
            timer.cancel()
            self._idle_count -= 1
            if connection.is_open:
                return connection
        self._idle.pop(origin, None)
        return None

    def keep(self, origin: Origin, connection: Connection) -> None:
        """Take back a connection that can carry another exchange."""
        if self._idle_count >= _IDLE_CONNECTIONS:
            connection.close()
            return
        timer = asyncio.get_running_loop().call_later(_IDLE_SECONDS, self._let_go, origin, connection)
        self._idle.setdefault(origin, {})[connection] = timer
        self._idle_count += 1

    def _let_go(self, origin: Origin, connection: Connection) -> None:
        del self._idle[origin][connection]
        self._idle_count -= 1
        connection.close()

    async def aclose(self) -> None:
        for idle in self._idle.values():
            for connection, timer in idle.items():
                timer.cancel()
                connection.close()
        self._idle.clear()
        self._idle_count = 0

    async def _connect(self, origin: Origin, seconds: float) -> Connection:
        """A new connection to the first address that answers. Raises Blocked or NoConnection."""
        addresses = await self._guard.admit(origin.host, origin.port)
        deadline = asyncio.get_running_loop().time() + seconds
        fault: Exception | None = None
        for place, address in enumerate(addresses):
            left = deadline - asyncio.get_running_loop().time()
            is_last = place == len(addresses) - 1
            try:
                async with asyncio.timeout(left if is_last else min(left, _NEXT_ADDRESS_SECONDS)):
                    return await self._open(origin, address)
            except OSError as error:  # TimeoutError and ssl.SSLError are OSErrors
                fault = error
        raise NoConnection(f"{origin.host}:{origin.port}: {fault or 'timed out'}") from fault

    async def _open(self, origin: Origin, address: Address) -> Connection:
        loop = asyncio.get_running_loop()
        family = socket.AF_INET if address.version == 4 else socket.AF_INET6
        with contextlib.ExitStack() as undo:
            # Our own socket, so that no layer below can look the host up once more.
            sock = undo.enter_context(socket.socket(family, socket.SOCK_STREAM))
            sock.setblocking(False)
            await loop.sock_connect(sock, (str(address), origin.port))
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            tls = await self._authorities() if origin.scheme == "https" else None
            name = origin.host.rstrip(".") if tls is not None else None
            _, connection = await loop.create_connection(Connection, sock=sock, ssl=tls, server_hostname=name)
            undo.pop_all()
        return connection

    async def _authorities(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = await asyncio.to_thread(_load_authorities)
        return self._tls


class _Body(httpx.AsyncByteStream):
    def __init__(self, wire: Wire, origin: Origin, connection: Connection) -> None:
        self._wire = wire
        self._origin = origin
        self._connection: Connection | None = connection

    def __aiter__(self) -> AsyncIterator[bytes]:
        if self._connection is None:
            raise RuntimeError("the answer is closed")
        return self._connection.chunks()

    async def aclose(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and connection.finish():
            self._wire.keep(self._origin, connection)


def _load_authorities() -> ssl.SSLContext:
    """certifi's list for machines without one, and the system's for authorities of one's own."""
    context = ssl.create_default_context(cafile=certifi.where())
    context.load_default_certs()
    context.set_alpn_protocols(["http/1.1"])
    return context


def _origin(url: httpx.URL) -> Origin:
    if url.scheme not in ("http", "https"):
        raise Blocked("only http and https addresses can be reached")
    if url.userinfo:
        raise Blocked("an address must not hold a name or password")
    if not url.host:
        raise Blocked("the address has no host")
    host = url.raw_host.decode("ascii")
    return Origin(url.scheme, host, url.port or (443 if url.scheme == "https" else 80))


def _head(request: httpx.Request) -> bytes:
    """The request line and headers, refused where a value could end its line."""
    lines = [b"%s %s HTTP/1.1" % (request.method.encode("ascii"), request.url.raw_path)]
    for name, value in request.headers.raw:
        if _HEADER_NAME.fullmatch(name) is None or _HEADER_VALUE.fullmatch(value) is None:
            raise Blocked("a header holds what cannot be sent")
        lines.append(b"%s: %s" % (name, value))
    return b"\r\n".join(lines) + b"\r\n\r\n"
