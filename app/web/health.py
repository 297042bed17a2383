"""Whether the server is up, and whether it can do its work: for proxies, containers and scripts. No sign-in."""

import math
import time

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.core.errors import Closing, StorageFault
from app.store.engine import Session
from app.web.api import shapes
from app.web.api.operation import operation
from app.web.house import house

# How long one look at the database is believed, in seconds: whoever asks all the time costs nothing.
_BELIEVED = 2.0


@operation(gives={200: shapes.Status})
async def alive(request: Request) -> Response:
    """Ask whether the server is up."""
    return JSONResponse({"status": "ok"})


@operation(gives={200: shapes.Status}, raises=[Closing, StorageFault])
async def ready(request: Request) -> Response:
    """Ask whether the server can do its work.

    It can when its store is migrated and takes writes, and while it is not being shut down.
    """
    # What is open is migrated.
    here, state = house(request), request.app.state
    if here.registry.closing:
        raise Closing
    if time.monotonic() - getattr(state, "found_writable", -math.inf) > _BELIEVED:
        await here.db.write(_nothing)
        state.found_writable = time.monotonic()
    return JSONResponse({"status": "ok"})


async def _nothing(s: Session) -> None:
    """A transaction that takes the write lock and gives it back."""
