"""Settings, People: who has an account here. For administrators."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import cast

from starlette.requests import Request
from starlette.responses import Response

from app.accounts.access import ROLES, Role
from app.core.errors import NightdeskError, NotFound
from app.core.ids import UserId
from app.store.tables import User
from app.web import answers, forms
from app.web.house import address, admin, house
from app.web.problems import problem_of

HERE = "/settings/users"


@dataclass(frozen=True, slots=True)
class LinkView:
    """A one-time link to hand on, shown this once."""

    name: str
    url: str
    days: int


async def show(request: Request) -> Response:
    """`GET /settings/users`."""
    return await _page(request)


async def invite(request: Request) -> Response:
    """`POST /settings/users` with name and role: a new account, and the page with its invitation."""
    fields, me = await forms.form(request), admin(request)
    name = fields.text("name", most=200)
    try:
        role = cast(Role, fields.choice("role", ROLES, "member"))
        token = await house(request).people.invite(name, role, me, address(request))
    except NightdeskError as error:
        return await _page(request, "add", error, name=name)
    return await _page(request, link=_link(request, name, token, days=3))


async def make_link(request: Request) -> Response:
    """`POST /settings/users/{id}/link`: the page with a new sign-in link for somebody who is locked out."""
    me, user = admin(request), await _user(request)
    try:
        token = await house(request).people.reset(user.name, by=me, address=address(request))
    except NightdeskError as error:
        return await _page(request, user.id, error)
    return await _page(request, link=_link(request, user.name, token, days=1))


async def set_role(request: Request) -> Response:
    """`POST /settings/users/{id}/role`: an administrator, or a member."""
    fields, me = await forms.form(request), admin(request)

    async def change(user: UserId) -> None:
        role = cast(Role, fields.choice("role", ROLES))
        await house(request).people.set_role(user, role, me, address(request))

    return await _tried(request, change)


async def disable(request: Request) -> Response:
    """`POST /settings/users/{id}/disable`: nothing of theirs goes on."""
    me = admin(request)
    return await _tried(request, lambda user: house(request).people.disable(user, me, address(request)))


async def enable(request: Request) -> Response:
    """`POST /settings/users/{id}/enable`."""
    me = admin(request)
    return await _tried(request, lambda user: house(request).people.enable(user, me, address(request)))


async def _tried(request: Request, change: Callable[[UserId], Awaitable[None]]) -> Response:
    """Make `change` to the person of the path; what goes wrong is told beside them."""
    user = UserId(answers.path_id(request))
    try:
        await change(user)
    except NightdeskError as error:
        return await _page(request, user, error)
    return answers.go(request, HERE)


async def _user(request: Request) -> User:
    user_id = answers.path_id(request)
    for user in await house(request).people.everybody():
        if user.id == user_id:
            return user
    raise NotFound("There is no such person.")


def _link(request: Request, name: str, token: str, days: int) -> LinkView:
    # The host was checked on the way in, so that the link leads here and nowhere else.
    here = f"{request.scope['scheme']}://{request.headers['host']}"
    return LinkView(name, f"{here}{house(request).render.url('/sign-in/link')}?token={token}", days)


async def _page(
    request: Request,
    place: str = "",
    error: NightdeskError | None = None,
    link: LinkView | None = None,
    name: str = "",
) -> Response:
    here = house(request)
    found = problem_of(error) if error else None
    return here.render.page(
        request,
        "users/show.html",
        code=found.status if found else 200,
        headers=found.headers if found else None,
        section="users",
        users=await here.people.everybody(),
        link=link,
        name=name,
        place=place,
        fault=found.detail if found else None,
        field=getattr(error, "field", None),
    )
