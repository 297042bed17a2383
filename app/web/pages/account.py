"""Settings, Sign-in and API keys: what belongs to one's own account."""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, cast

from starlette.requests import Request
from starlette.responses import Response

from app.accounts.access import SCOPES, Scope
from app.core.errors import NightdeskError
from app.store.tables import LoginSession
from app.web import answers, forms
from app.web.house import address, house, person
from app.web.preferences import Preferences
from app.web.problems import problem_of

HERE = "/settings/account"


@dataclass(frozen=True, slots=True)
class SessionView:
    """A session as the list shows it. Times in ms."""

    id: str
    device: str
    address: str
    seen: int
    current: bool


async def show(request: Request) -> Response:
    """`GET /settings/account`."""
    return await _page(request)


async def set_profile(request: Request) -> Response:
    """`POST /settings/account/profile`: the name told to models, and the time zone."""
    fields = await forms.form(request)

    async def change() -> None:
        me = person(request)
        changes = {
            "display_name": fields.text("display_name").strip(),
            "time_zone": fields.text("time_zone").strip() or "UTC",
        }
        Preferences.of(me.preferences).changed(changes)
        await house(request).sessions.set_preferences(me, changes)

    return await _tried(request, change, "profile")


async def set_password(request: Request) -> Response:
    """`POST /settings/account/password`: from `old` to `password`; every other session ends."""
    fields = await forms.form(request)

    async def change() -> None:
        old = fields.optional_text("old") or ""
        await house(request).people.change_password(
            person(request), old, fields.text("password"), address(request)
        )

    return await _tried(request, change, "password")


async def end_session(request: Request) -> Response:
    """`POST /settings/account/sessions/{id}/end`."""

    async def change() -> None:
        await house(request).sessions.revoke(person(request), answers.path_id(request), address(request))

    return await _tried(request, change, "sessions")


async def end_other_sessions(request: Request) -> Response:
    """`POST /settings/account/sessions/end-others`."""

    async def change() -> None:
        await house(request).sessions.revoke_others(person(request), address(request))

    return await _tried(request, change, "sessions")


async def add_key(request: Request) -> Response:
    """`POST /settings/account/keys` with name and scope: the page with the new key on it, this once."""
    fields, me = await forms.form(request), person(request)
    try:
        scope = cast(Scope, fields.choice("scope", SCOPES))
        made = await house(request).sessions.add_key(
            me.id, fields.text("name"), scope, by=me, address=address(request)
        )
    except NightdeskError as error:
        return await _page(request, "keys", error)
    return await _page(request, made=made)


async def end_key(request: Request) -> Response:
    """`POST /settings/account/keys/{id}/end`."""

    async def change() -> None:
        await house(request).sessions.revoke_key(person(request), answers.path_id(request), address(request))

    return await _tried(request, change, "keys")


async def _tried(request: Request, change: Callable[[], Awaitable[None]], place: str) -> Response:
    """Make `change` and show the page again; what goes wrong is told at `place`."""
    try:
        await change()
    except NightdeskError as error:
        return await _page(request, place, error)
    return answers.go(request, HERE)


async def _page(
    request: Request, place: str = "", error: NightdeskError | None = None, made: str | None = None
) -> Response:
    here, me = house(request), person(request)
    found = problem_of(error) if error else None
    context: dict[str, Any] = {
        "sessions": [_view(row, me.session) for row in await here.sessions.sessions_of(me.id)],
        "keys": await here.sessions.keys_of(me.id),
        "scopes": SCOPES,
        "made": made,
        "place": place,
        "fault": found.detail if found else None,
        "field": getattr(error, "field", None),
    }
    return here.render.page(
        request,
        "account/show.html",
        code=found.status if found else 200,
        headers=found.headers if found else None,
        section="account",
        **context,
    )


def _view(row: LoginSession, current: str | None) -> SessionView:
    return SessionView(row.id, device(row.agent), row.address, row.seen, row.id == current)


# The first that is found counts: Edge and Opera also say Chrome, and Chrome also says Safari.
_BROWSERS = (
    ("Edg", "Edge"),
    ("OPR", "Opera"),
    ("Firefox", "Firefox"),
    ("Chrom", "Chrome"),
    ("Safari", "Safari"),
)
_SYSTEMS = (
    ("Android", "Android"),
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Windows", "Windows"),
    ("Mac OS", "Mac"),
    ("CrOS", "ChromeOS"),
    ("Linux", "Linux"),
)


def device(agent: str) -> str:
    """A browser's own description in three words: `Firefox on Linux`."""
    browser = next((name for mark, name in _BROWSERS if mark in agent), None)
    system = next((name for mark, name in _SYSTEMS if mark in agent), None)
    if browser is None:
        return re.split(r"[/ ]", agent, maxsplit=1)[0][:30] or "Unknown device"
    return f"{browser} on {system}" if system else browser
