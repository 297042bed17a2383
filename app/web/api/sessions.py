"""Sessions: where one is signed in, and the end of it."""

from typing import Any, TypedDict

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.core.clock import rfc3339
from app.store.tables import LoginSession
from app.web.api import asked, shapes
from app.web.api.operation import operation
from app.web.api.schema import Page
from app.web.house import address, house, person


class Session(TypedDict):
    """A sign-in that holds. `current`: the one that is asking."""

    id: str
    created: shapes.Time
    seen: shapes.Time
    expires: shapes.Time
    agent: str
    address: str
    current: bool


@operation(gives={200: Page[Session]})
async def listing(request: Request) -> Response:
    """List one's sessions, the last used first."""
    me = person(request)
    rows = await house(request).sessions.sessions_of(me.id)
    return JSONResponse({"items": [_shown(row, me.session) for row in rows], "next": None})


@operation(gives={204: None})
async def end(request: Request) -> Response:
    """End a session; whatever is open in it closes at once."""
    await house(request).sessions.revoke(person(request), asked.path_id(request), address(request))
    return Response(status_code=204)


@operation(gives={204: None})
async def end_others(request: Request) -> Response:
    """End all sessions but the one that is asking."""
    await house(request).sessions.revoke_others(person(request), address(request))
    return Response(status_code=204)


def _shown(row: LoginSession, current: str | None) -> dict[str, Any]:
    return {
        "id": row.id,
        "created": rfc3339(row.created),
        "seen": rfc3339(row.seen),
        "expires": rfc3339(row.expires),
        "agent": row.agent,
        "address": row.address,
        "current": row.id == current,
    }
