"""The one way out: a resolver, a guard against forged requests, and the HTTP clients built on them.

Nothing else in Nightdesk opens an HTTP connection or imports a client. In reading order:

    base.py         what a caller sees: `Http`, `HttpResponse` and the errors
    addresses.py    what kind of address an address is
    guard.py        which of them a reach may connect to
    wire.py         one HTTP/1.1 connection, and the pool of idle ones
    client.py       `Outbound`: one client per reach
"""

from app.outbound.base import (
    Blocked,
    Broken,
    Http,
    HttpResponse,
    NoConnection,
    OutboundError,
    Timeout,
)
from app.outbound.client import Outbound, following
from app.outbound.guard import Reach

__all__ = [
    "Blocked",
    "Broken",
    "Http",
    "HttpResponse",
    "NoConnection",
    "Outbound",
    "OutboundError",
    "Reach",
    "Timeout",
    "following",
]
