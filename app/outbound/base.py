"""What a caller sees of the way out. It is handed an `Http` and knows nothing of the library behind it.

    OutboundError
    ├── Blocked         the guard refused the address; nothing was sent
    ├── NoConnection    no name, no route, refused, or TLS failed; nothing was sent
    ├── Timeout         nothing came for longer than the idle time-out
    └── Broken          the connection ended or turned to rubbish after the request was sent

Their texts are for the log: a host and a reason, never a header or a body.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol


class OutboundError(Exception):
    pass


class Blocked(OutboundError):
    """The guard refused. `reason` may be shown to an administrator."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class NoConnection(OutboundError):
    pass


class Timeout(OutboundError):
    pass


class Broken(OutboundError):
    pass


class HttpResponse(Protocol):
    """An answer whose head has come. Its body may be read once, by `chunks` or by `read`."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Names in lower case; values of a repeated header joined by a comma."""
        ...

    def chunks(self) -> AsyncIterator[bytes]:
        """The body as it comes, one item per network read. Raises Timeout or Broken."""
        ...

    async def read(self, limit: int) -> bytes:
        """The body up to `limit` bytes; what is beyond is left unread. Raises Timeout or Broken."""
        ...


class Http(Protocol):
    """Sends requests within one reach. Redirects are never followed: a 3xx is an answer like any other."""

    def stream(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        json: Any = None,
        idle_timeout: float,
    ) -> AbstractAsyncContextManager[HttpResponse]:
        """Send, and enter once the head of the answer has come; leaving closes the answer.

        `json`, if not None, is the body. `idle_timeout` is in seconds: the longest silence before the head
        and between two chunks. Entering raises any `OutboundError`.
        """
        ...
