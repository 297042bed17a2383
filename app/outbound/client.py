"""One client per reach over httpx, and a helper that follows redirects by hand."""

import logging
import zlib
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any
from urllib.parse import urlsplit

import httpx

from app.outbound.base import Blocked, Broken, Http, HttpResponse
from app.outbound.guard import Guard, Reach, Resolve, system_resolve
from app.outbound.wire import Wire

_CONNECT_SECONDS = 10.0
_UNPACKED_AT_ONCE = 64 * 1024
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
# What may go to another origin. A list of what is harmless: nobody can list every header that holds a key.
_HARMLESS = frozenset({"accept", "accept-language", "user-agent", "content-type"})


class Outbound:
    """Every way out. Built by `main`; `close` when nothing uses it any more.

    `allowed` are exact `host:port`s on private addresses that tools may reach, too. Raises ValueError.
    `resolve` stands in for the system's resolver.
    """

    def __init__(self, allowed: Collection[str] = (), resolve: Resolve = system_resolve) -> None:
        self._allowed = {_host_and_port(entry) for entry in allowed}
        self._own_ports: set[int] = set()
        self._resolve = resolve
        self._clients: dict[Reach, Client] = {}
        # At INFO it logs every address whole, and some of them hold a key.
        logging.getLogger("httpx").setLevel(logging.WARNING)

    def http(self, reach: Reach) -> Http:
        """The one client of `reach`."""
        if reach not in self._clients:
            guard = Guard(reach, self._resolve, self._allowed, self._own_ports)
            self._clients[reach] = Client(Wire(guard, resend=reach == "provider"))
        return self._clients[reach]

    def listens_on(self, port: int) -> None:
        """Our own server is bound to `port` now; nothing from here may reach it."""
        self._own_ports.add(port)

    async def close(self) -> None:
        for client in self._clients.values():
            await client.close()


class Client:
    """`Http` over an httpx transport."""

    def __init__(self, transport: httpx.AsyncBaseTransport) -> None:
        self._client = httpx.AsyncClient(
            transport=transport,
            trust_env=False,  # no proxy and no .netrc of the environment
            follow_redirects=False,
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),  # takes and sends none
        )
        self._client.headers = httpx.Headers({"user-agent": "Nightdesk", "accept-encoding": "identity"})

    @asynccontextmanager
    async def stream(
        self, method: str, url: str, *, headers: Mapping[str, str], json: Any = None, idle_timeout: float
    ) -> AsyncIterator[HttpResponse]:
        timeout = httpx.Timeout(idle_timeout, connect=min(idle_timeout, _CONNECT_SECONDS))
        try:
            request = self._client.build_request(method, url, headers=headers, json=json, timeout=timeout)
        except httpx.InvalidURL as error:
            raise Blocked(f"the address is malformed: {error}") from error
        except UnicodeEncodeError as error:
            raise Blocked("the address, a header or the body holds characters that cannot be sent") from error
        response = await self._client.send(request, stream=True)
        try:
            yield _Response(response)
        finally:
            await response.aclose()

    async def close(self) -> None:
        await self._client.aclose()


class _Response:
    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        self.status = response.status_code
        self.headers: Mapping[str, str] = dict(response.headers)

    def chunks(self) -> AsyncIterator[bytes]:
        body = self._response.stream
        assert isinstance(body, httpx.AsyncByteStream)
        encoding = self.headers.get("content-encoding", "identity").strip().lower()
        return aiter(body) if encoding in ("identity", "") else _unpacked(aiter(body), encoding)

    async def read(self, limit: int) -> bytes:
        body = bytearray()
        async for chunk in self.chunks():
            body += chunk
            if len(body) >= limit:
                break
        return bytes(body[:limit])


async def _unpacked(body: AsyncIterator[bytes], encoding: str) -> AsyncIterator[bytes]:
    """`body` decompressed, at most 64 KB at once, however much a few bytes of it unpack to."""
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise Broken(f"the answer came encoded as {encoding[:20]!r}, which was not asked for")
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 32)  # 32: a gzip or a zlib header, whichever is there
    try:
        async for chunk in body:
            while chunk and not unpacker.eof:
                if piece := unpacker.decompress(chunk, _UNPACKED_AT_ONCE):
                    yield piece
                chunk = unpacker.unconsumed_tail
    except zlib.error as error:
        raise Broken(f"the answer is not {encoding}: {error}") from error
    if not unpacker.eof:
        raise Broken("the connection was closed in the middle of the answer")


@asynccontextmanager
async def following(
    http: Http, url: str, *, headers: Mapping[str, str], idle_timeout: float, hops: int = 3
) -> AsyncIterator[tuple[str, HttpResponse]]:
    """GET `url` and up to `hops` redirects, each a request of its own that the guard checks anew.

    Enters with the last address and its answer. At a change of origin every header goes but a few harmless
    ones. Raises an OutboundError; Blocked, too, after too many redirects.
    """
    for _ in range(hops + 1):
        async with http.stream("GET", url, headers=headers, idle_timeout=idle_timeout) as response:
            if response.status not in _REDIRECTS or "location" not in response.headers:
                yield url, response
                return
            target = _target(url, response.headers["location"])
        if _origin(target) != _origin(url):
            headers = {name: value for name, value in headers.items() if name.lower() in _HARMLESS}
        url = target
    raise Blocked(f"more than {hops} redirects")


def _target(url: str, location: str) -> str:
    try:
        return str(httpx.URL(url).join(location))
    except httpx.InvalidURL as error:
        raise Blocked(f"redirected to a malformed address: {error}") from error


def _origin(url: str) -> tuple[str, str, int | None]:
    parsed = httpx.URL(url)
    return parsed.scheme, parsed.host, parsed.port


def _host_and_port(entry: str) -> tuple[str, int]:
    """`host:port` or `[v6]:port`. Raises ValueError for anything else."""
    parts = urlsplit(f"//{entry}")
    if parts.hostname is None or parts.port is None or parts.path or parts.query or "@" in entry:
        raise ValueError(f"{entry!r} is not host:port")
    return parts.hostname.lower().rstrip("."), parts.port
