"""Roles: which model answers in chats, and which names them. For administrators."""

from typing import TypedDict, cast

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.core.errors import UnknownModel
from app.core.ids import ModelId
from app.replies.models import Role
from app.web.api import asked, shapes
from app.web.api.operation import operation
from app.web.house import House, admin, house


class Roles(TypedDict):
    """Which model was set for each role; null: the default for it."""

    chat: ModelId | None
    title: ModelId | None


class RoleChanges(TypedDict, total=False):
    """A model for each role that is to change; null leaves it to the default."""

    chat: shapes.Pick | None
    title: shapes.Pick | None


@operation(gives={200: Roles})
async def show(request: Request) -> Response:
    """Read which model was set for each role."""
    return JSONResponse(_shown(house(request)))


@operation(takes=RoleChanges, gives={200: Roles}, raises=[UnknownModel])
async def change(request: Request) -> Response:
    """Set the models of roles."""
    here = house(request)
    for role, picked in (await asked.body(request, RoleChanges)).items():
        model = ModelId(str(picked)) if picked is not None else None
        await here.models.set_default(cast(Role, role), model, by=admin(request))
    return JSONResponse(_shown(here))


def _shown(here: House) -> dict[str, str | None]:
    set_ones = {role: here.models.chosen(cast(Role, role)) for role in Roles.__annotations__}
    return {role: model.id if model else None for role, model in set_ones.items()}
