"""Who is asking, and what they have chosen about their pages."""

from typing import Any, Literal, TypedDict

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.core.ids import UserId
from app.web.api import asked, shapes
from app.web.api.operation import operation
from app.web.house import house, person
from app.web.preferences import Preferences


class Me(TypedDict):
    """Who is asking, and how."""

    id: UserId
    name: str
    role: shapes.Role
    via: Literal["session", "key", "single-user"]
    scope: shapes.Scope
    preferences: dict[str, Any]


class MyChanges(TypedDict, total=False):
    """What to change. Preferences that are not named stay as they are."""

    preferences: dict[str, Any]


@operation(gives={200: Me})
async def show(request: Request) -> Response:
    """Read who is asking, and by what."""
    me = person(request)
    return JSONResponse(
        {
            "id": me.id,
            "name": me.name,
            "role": me.role,
            "via": me.via,
            "scope": me.scope,
            "preferences": Preferences.of(me.preferences).changed({}),
        }
    )


@operation(takes=MyChanges, gives={204: None})
async def change(request: Request) -> Response:
    """Change one's preferences."""
    me = person(request)
    wanted = (await asked.body(request, MyChanges)).get("preferences", {})
    Preferences.of(me.preferences).changed(wanted)
    await house(request).sessions.set_preferences(me, wanted)
    return Response(status_code=204)
