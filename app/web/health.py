"""Whether the server is up, and whether it can do its work: for proxies, containers and scripts. No sign-in."""

import math
import time

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.core.errors import Closing
from app.store.engine import Session
from app.web.house import house

# How long one look at the database is believed, in seconds: whoever asks all the time costs nothing.
_BELIEVED = 2.0


async def alive(request: Request) -> Response:
    """`GET /healthz`: this process answers."""
    return JSONResponse({"status": "ok"})


async def ready(request: Request) -> Response:
    """`GET /readyz`: the store is migrated, which it is once it is open, and takes writes.

    Raises Closing, StorageFault.
    """
    here, state = house(request), request.app.state
    if here.registry.closing:
        raise Closing
    if time.monotonic() - getattr(state, "found_writable", -math.inf) > _BELIEVED:
        await here.db.write(_nothing)
        state.found_writable = time.monotonic()
    return JSONResponse({"status": "ok"})


async def _nothing(s: Session) -> None:
    """A transaction that takes the write lock and gives it back."""
