"""Endpoints: where models are reached. For administrators."""

from collections.abc import Sequence
from typing import Annotated, Any, NotRequired, TypedDict

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.core.clock import rfc3339
from app.core.errors import KeyReused, NotFound, ProviderError
from app.core.ids import EndpointId
from app.replies import once
from app.store import secrets
from app.store.tables import Endpoint, Model
from app.web.api import asked, models, shapes
from app.web.api.operation import operation
from app.web.api.schema import Page, such
from app.web.changes import delete_endpoint
from app.web.house import House, admin, house

Name = Annotated[str, such(minLength=1, maxLength=200)]
Url = Annotated[str, such(minLength=1, maxLength=2000)]
Secret = Annotated[str, such(maxLength=4096)]


class NewEndpoint(TypedDict):
    """An endpoint to add. `api` is the wire API that it speaks, such as `openai-chat`."""

    name: Name
    api: Name
    base_url: Url
    api_key: NotRequired[Secret | None]


class EndpointChanges(TypedDict, total=False):
    """What to change of an endpoint. `api_key` null: it has none any more; a key goes with its address, too."""

    name: Name
    api: Name
    base_url: Url
    api_key: Secret | None
    idle_timeout: Annotated[int, such(minimum=1, maximum=24 * 3600, description="In seconds")]
    enabled: bool


@operation(gives={200: Page[shapes.Endpoint]})
async def listing(request: Request) -> Response:
    """List endpoints with their models."""
    here = house(request)
    items = [await _shown(here, row, found) for row, found in here.models.all()]
    return JSONResponse({"items": items, "next": None})


@operation(takes=NewEndpoint, gives={201: shapes.Endpoint}, raises=[ProviderError, KeyReused], key="optional")
async def create(request: Request) -> Response:
    """Add an endpoint.

    It is asked for its models first; one that does not answer is not kept.
    """
    here, me, new = house(request), admin(request), await asked.body(request, NewEndpoint)
    # A key keeps a hash of what was asked: a secret is no part of it.
    content = new["name"], new["api"], new["base_url"], "api_key" in new
    stamp = once.stamp(me.id, asked.key(request), "new endpoint", content)
    async with here.db.read() as s:
        known = await stamp.known(s)
    if known is None:
        key = new.get("api_key") or None
        made, _ = await here.models.add_endpoint(new["name"], new["api"], new["base_url"], key, by=me)
        known = made.id
        # In a transaction of its own: no network call is awaited inside one. A second endpoint is not made even if
        # this is never reached, for its name is taken.
        await here.db.write(lambda s: stamp.record(s, "endpoint", made.id))
    return JSONResponse(await _shown(here, *_known(here, known)), 201)


@operation(gives={200: shapes.Endpoint})
async def show(request: Request) -> Response:
    """Read an endpoint with its models."""
    here = house(request)
    return JSONResponse(await _shown(here, *_known(here, asked.path_id(request))))


@operation(takes=EndpointChanges, gives={200: shapes.Endpoint})
async def change(request: Request) -> Response:
    """Change an endpoint.

    A new address, API or key is kept, and tried at once: what came of it stands in `fault`.
    """
    here, me, endpoint_id = house(request), admin(request), EndpointId(asked.path_id(request))
    changes: dict[str, Any] = {**await asked.body(request, EndpointChanges)}
    if "api_key" in changes:
        changes["key"] = changes.pop("api_key") or ""
    await here.models.update_endpoint(endpoint_id, **changes, by=me)
    return JSONResponse(await _shown(here, *_known(here, endpoint_id)))


@operation(gives={200: shapes.Endpoint}, raises=[ProviderError])
async def check(request: Request) -> Response:
    """Ask an endpoint for its models once more."""
    here, endpoint_id = house(request), EndpointId(asked.path_id(request))
    return JSONResponse(await _shown(here, *await here.models.check(endpoint_id)))


@operation(gives={204: None})
async def delete(request: Request) -> Response:
    """Delete an endpoint with its models and its key.

    Replies that one of its models is writing are stopped first.
    """
    await delete_endpoint(house(request), EndpointId(asked.path_id(request)), admin(request))
    return Response(status_code=204)


def _known(here: House, endpoint_id: str) -> tuple[Endpoint, Sequence[Model]]:
    for row, found in here.models.all():
        if row.id == endpoint_id:
            return row, found
    raise NotFound("There is no such endpoint, or it was deleted.")


async def _shown(here: House, row: Endpoint, found: Sequence[Model]) -> dict[str, Any]:
    async with here.db.read() as s:
        has_key = await secrets.get(s, row.id, "key") is not None
    return {
        "id": row.id,
        "name": row.name,
        "api": row.api,
        "base_url": row.base_url,
        "api_key": {"set": has_key},
        "came_from": row.came_from,
        "enabled": row.enabled,
        "idle_timeout": row.idle_timeout,
        "created": rfc3339(row.created),
        "checked": rfc3339(row.checked) if row.checked else None,
        "fault": row.fault,
        "models": [models.kept(model) for model in found],
    }
