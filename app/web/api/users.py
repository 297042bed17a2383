"""Users: who has an account here. For administrators."""

from typing import Annotated, Any, NotRequired, TypedDict

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.accounts.names import folded
from app.core.clock import rfc3339
from app.core.errors import KeyReused, NotFound
from app.core.ids import UserId
from app.replies import once
from app.store.tables import User
from app.web.api import asked, shapes
from app.web.api.operation import operation
from app.web.api.schema import Page, such
from app.web.house import House, address, admin, house, user

Password = Annotated[str, such(minLength=1, maxLength=1000)]


class NewUser(TypedDict):
    """An account to make. Without a password its person comes in by a link."""

    name: Annotated[str, such(minLength=1, maxLength=200)]
    role: NotRequired[shapes.Role]
    password: NotRequired[Password]


class UserChanges(TypedDict, total=False):
    """What to change of an account. A disabled one is shut out, and what it has running is stopped."""

    role: shapes.Role
    disabled: bool


@operation(gives={200: Page[shapes.User]})
async def listing(request: Request) -> Response:
    """List accounts."""
    everybody = await house(request).people.everybody()
    return JSONResponse({"items": [_shown(found) for found in everybody], "next": None})


@operation(takes=NewUser, gives={201: shapes.Invited}, raises=[KeyReused], key="optional")
async def create(request: Request) -> Response:
    """Make an account, entered by password or by a link."""
    here, new = house(request), await asked.body(request, NewUser)
    # A key keeps a hash of what was asked: a password is no part of it.
    content = new["name"], new.get("role"), "password" in new
    stamp = once.stamp(user(request), asked.key(request), "new user", content)
    async with here.db.read() as s:
        known = await stamp.known(s)
    if known is not None:
        return JSONResponse(_shown(await _find(here, known)) | {"link": None}, 201)
    made, link = await _make(request, new)
    await here.db.write(lambda s: stamp.record(s, "user", made.id))
    return JSONResponse(_shown(made) | {"link": link}, 201)


@operation(takes=UserChanges, gives={200: shapes.User})
async def change(request: Request) -> Response:
    """Change an account: its role, and whether it is disabled."""
    here, me, user_id = house(request), admin(request), UserId(asked.path_id(request))
    changes = await asked.body(request, UserChanges)
    if (role := changes.get("role")) is not None:
        await here.people.set_role(user_id, role, me, address(request))
    if (disabled := changes.get("disabled")) is not None:
        act = here.people.disable if disabled else here.people.enable
        await act(user_id, me, address(request))
    return JSONResponse(_shown(await _find(here, user_id)))


@operation(gives={201: shapes.Link})
async def make_link(request: Request) -> Response:
    """Make a one-time sign-in link for somebody who is locked out; the one before is void."""
    here, me = house(request), admin(request)
    locked_out = await _find(here, asked.path_id(request))
    token = await here.people.reset(locked_out.name, by=me, address=address(request))
    return JSONResponse({"link": _link(here, token)}, 201)


async def _make(request: Request, new: NewUser) -> tuple[User, str | None]:
    here, me = house(request), admin(request)
    name, role = new["name"], new.get("role", "member")
    if "password" in new:
        made = await here.people.add_user(name, new["password"], role, by=me, address=address(request))
        return made, None
    token = await here.people.invite(name, role, me, address(request))
    everybody = await here.people.everybody()
    made = next(found for found in everybody if found.name_folded == folded(name))
    return made, _link(here, token)


async def _find(here: House, user_id: str) -> User:
    for found in await here.people.everybody():
        if found.id == user_id:
            return found
    raise NotFound("There is no such person.")


def _link(here: House, token: str) -> str:
    return f"{here.render.url('/sign-in/link')}?token={token}"


def _shown(user: User) -> dict[str, Any]:
    return {
        "id": user.id,
        "name": user.name,
        "role": user.role,
        "disabled": user.disabled,
        "created": rfc3339(user.created),
    }
