"""API keys: one's own, made, listed and revoked."""

from collections.abc import Callable
from typing import Annotated, Any, NotRequired, TypedDict

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.accounts.access import Person
from app.accounts.sessions import digest
from app.core.clock import rfc3339
from app.core.errors import KeyReused, NotFound
from app.replies import once
from app.store.tables import ApiKey
from app.web.api import asked, shapes
from app.web.api.operation import operation
from app.web.api.schema import Page, such
from app.web.house import House, address, house, person


class Key(TypedDict):
    """An API key, known by its first characters."""

    id: str
    name: str
    scope: shapes.Scope
    prefix: str
    created: shapes.Time
    seen: shapes.Time | None
    current: bool


class NewKey(Key):
    """A new API key. `token` is told this once: null when the same request is sent again."""

    token: str | None


class WantedKey(TypedDict):
    """A key to make: for everything, for reading alone, or for chats and messages alone."""

    name: Annotated[str, such(minLength=1, maxLength=200)]
    scope: NotRequired[shapes.Scope]


@operation(gives={200: Page[Key]})
async def listing(request: Request) -> Response:
    """List one's API keys."""
    me = person(request)
    rows = await house(request).sessions.keys_of(me.id)
    return JSONResponse({"items": [_shown(row, me.key) for row in rows], "next": None})


@operation(takes=WantedKey, gives={201: NewKey}, raises=[KeyReused], key="optional")
async def create(request: Request) -> Response:
    """Make an API key; it is told this once."""
    here, me, wanted = house(request), person(request), await asked.body(request, WantedKey)
    stamp = once.stamp(me.id, asked.key(request), "new key", wanted)
    async with here.db.read() as s:
        known = await stamp.known(s)
    if known is not None:
        return _made(await _find(here, me, lambda row: row.id == known), me, None)
    scope = wanted.get("scope", "all")
    token = await here.sessions.add_key(me.id, wanted["name"], scope, by=me, address=address(request))
    row = await _find(here, me, lambda row: row.hash == digest(token))
    await here.db.write(lambda s: stamp.record(s, "key", row.id))
    return _made(row, me, token)


@operation(gives={204: None})
async def revoke(request: Request) -> Response:
    """Revoke an API key; whatever is open with it closes at once."""
    await house(request).sessions.revoke_key(person(request), asked.path_id(request), address(request))
    return Response(status_code=204)


async def _find(here: House, me: Person, wanted: Callable[[ApiKey], bool]) -> ApiKey:
    for row in await here.sessions.keys_of(me.id):
        if wanted(row):
            return row
    raise NotFound("This key was revoked since.")


def _made(row: ApiKey, me: Person, token: str | None) -> Response:
    return JSONResponse(_shown(row, me.key) | {"token": token}, 201)


def _shown(row: ApiKey, current: str | None) -> dict[str, Any]:
    return {
        "id": row.id,
        "name": row.name,
        "scope": row.scope,
        "prefix": row.prefix,
        "created": rfc3339(row.created),
        "seen": rfc3339(row.seen) if row.seen else None,
        "current": row.id == current,
    }
