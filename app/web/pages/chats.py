"""Chats: the new one, one that is there, the list, and what is done with a chat as a whole."""

from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.core.ids import ChatId, MessageId
from app.replies.endpoints import EMBEDDED
from app.replies.models import Found
from app.store import chats, drafts
from app.store.tables import Endpoint, Model
from app.web import answers, forms, sidebar, transcript, wording
from app.web.changes import LONGEST_FOLDER, LONGEST_TITLE, change_chat
from app.web.composing import composer
from app.web.house import House, house, person, user
from app.web.preferences import Preferences
from app.web.render import preferences_of


async def home(request: Request) -> Response:
    """`GET /`: a chat that is not there yet. `?text=` begins it, `?temporary=1` leaves it off the list."""
    here, me = house(request), person(request)
    preferences = preferences_of(request)
    async with here.db.read() as s:
        listed = await sidebar.read(s, me.id, preferences)
        text = request.query_params.get("text") or await drafts.get(s, me.id, None)
    temporary = bool(request.query_params.get("temporary"))
    return here.render.page(
        request,
        "chats/new.html",
        sidebar=listed,
        current=None,
        composer=composer(here, None, text, temporary=temporary),
        steps=await _first_steps(here, preferences, admin=me.role == "admin", begun=bool(listed.groups)),
    )


async def show(request: Request) -> Response:
    """`GET /chats/{id}`: its end, with `?before=` the page above that position, with `?at=` around a message."""
    here, me = house(request), person(request)
    chat_id, place = ChatId(answers.path_id(request)), _place(request)
    found = await transcript.opened(here, me.id, chat_id, place)
    if place.before is not None and request.headers.get("hx-request"):
        return here.render.page(request, "chats/_items.html", **_shown(found))
    if found.chat.unread:
        await change_chat(here, me.id, chat_id, unread=False)
    async with here.db.read() as s:
        listed = await sidebar.read(s, me.id, preferences_of(request))
        text = await drafts.get(s, me.id, chat_id)
        folders = await chats.folders(s, me.id)
    return here.render.page(
        request,
        "chats/show.html",
        sidebar=listed,
        current=chat_id,
        folders=folders,
        composer=composer(here, found.chat, text, running=found.running),
        edit=request.query_params.get("edit"),
        **_shown(found),
    )


def _shown(found: transcript.Opened) -> dict[str, Any]:
    return {
        "chat": found.chat,
        "items": found.items,
        "earlier": found.earlier,
        "later": found.later,
        "found": found.found,
        "queued": found.queued,
        "running": found.running,
        "status": found.status,
    }


def _place(request: Request) -> transcript.Place:
    fields = forms.query(request)
    at = fields.optional_id("at")
    return transcript.Place(
        before=fields.whole("before") if "before" in fields else None,
        at=MessageId(at) if at else None,
    )


# --- the empty instance -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FirstSteps:
    """The checklist: whether there is a model, what is said of it, and the local servers to add."""

    model: bool
    sentence: str
    found: tuple[Found, ...]
    admin: bool


async def _first_steps(
    here: House, preferences: Preferences, *, admin: bool, begun: bool
) -> FirstSteps | None:
    """None where nothing is left to do, or where the person has put it away. `begun`: there are chats already."""
    model = here.models.default()
    default = next(
        (pair for pair in here.models.usable() if model is not None and pair[0].id == model.id), None
    )
    if not preferences.first_steps or (default is not None and (begun or not admin)):
        return None
    found = tuple(await here.models.found_locally()) if admin else ()
    return FirstSteps(default is not None, _about_models(default, found), found, admin)


def _about_models(default: tuple[Model, Endpoint] | None, found: tuple[Found, ...]) -> str:
    if default is None:
        said = "None yet: Nightdesk needs one to answer with."
    else:
        model, endpoint = default
        said = f"{model.name} {'runs on this computer' if endpoint.came_from == EMBEDDED else 'is ready'}."
    servers = (
        f"{server.name} was found here, with {wording.plural(len(server.models), 'model', 'models')}."
        for server in found
    )
    return " ".join((said, *servers))


# --- the list ---------------------------------------------------------------------------------------------


async def listing(request: Request) -> Response:
    """`GET /sidebar`: a page of the list, for scripts; `?cursor=&after=` the next one, `?rows=` so many."""
    here, query = house(request), request.query_params
    rows = query.get("rows", "")
    async with here.db.read() as s:
        listed = await sidebar.read(
            s,
            user(request),
            preferences_of(request),
            rows=int(rows) if rows.isdecimal() and len(rows) < 10 else sidebar.ROWS,
            cursor=query.get("cursor"),
            after=query.get("after", ""),
        )
    return here.render.page(request, "chats/_groups.html", sidebar=listed, current=query.get("current"))


async def marks(request: Request) -> Response:
    """`GET /marks`: how many chats are unread, running and waiting; for title and badge of a hidden page."""
    async with house(request).db.read() as s:
        unread, lanes = await chats.unread(s, user(request)), await chats.lanes(s, user(request))
    waiting = sum(phase == "waiting" for _, _, phase in lanes)
    return JSONResponse({"unread": len(unread), "running": len(lanes) - waiting, "waiting": waiting})


# --- one chat as a whole ----------------------------------------------------------------------------------


async def rename(request: Request) -> Response:
    """`POST /chats/{id}/rename`."""
    return await _changed(request, title=(await forms.form(request)).text("title", most=LONGEST_TITLE))


async def pin(request: Request) -> Response:
    """`POST /chats/{id}/pin` with `pinned` (empty: no longer)."""
    return await _changed(request, pinned=(await forms.form(request)).flag("pinned"))


async def archive(request: Request) -> Response:
    """`POST /chats/{id}/archive` with `archived` (empty: restore)."""
    return await _changed(request, archived=(await forms.form(request)).flag("archived"))


async def move(request: Request) -> Response:
    """`POST /chats/{id}/folder`; an empty name takes the chat out of its folder."""
    return await _changed(request, folder=(await forms.form(request)).text("folder", most=LONGEST_FOLDER))


async def delete(request: Request) -> Response:
    """`POST /chats/{id}/delete`: its running reply is stopped first."""
    await house(request).accepting.delete_chat(user(request), ChatId(answers.path_id(request)))
    return answers.go(request, "/")


async def branch(request: Request) -> Response:
    """`POST /chats/{id}/branch`: show the branch through `message`."""
    chat_id = ChatId(answers.path_id(request))
    message = MessageId((await forms.form(request)).id("message"))
    await house(request).accepting.choose_branch(user(request), chat_id, message)
    return answers.go(request, f"/chats/{chat_id}")


async def _changed(request: Request, **fields: Any) -> Response:
    chat_id = ChatId(answers.path_id(request))
    await change_chat(house(request), user(request), chat_id, **fields)
    return answers.go(request, f"/chats/{chat_id}")
