"""Chats: begun, listed, opened, changed and deleted."""

from typing import Annotated, Any, Literal, TypedDict

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.core.clock import rfc3339
from app.core.errors import Invalid, KeyReused, UnknownModel
from app.core.ids import ChatId, MessageId, ModelId, UserId, is_id
from app.replies import once, reply_view
from app.store import chats, messages, replies, search
from app.store.engine import Session
from app.store.search import Hit
from app.store.tables import Chat
from app.web.api import asked, shapes
from app.web.api.operation import operation
from app.web.api.schema import Page, such
from app.web.changes import LONGEST_FOLDER, LONGEST_TITLE, change_chat
from app.web.house import house, user
from app.web.pages.search import marked

Title = Annotated[str, such(maxLength=LONGEST_TITLE)]
Folder = Annotated[str, such(maxLength=LONGEST_FOLDER)]


class NewChat(TypedDict, total=False):
    """A chat to begin. A temporary one is in no list and is deleted after a day."""

    kind: Literal["chat"]
    title: Title
    model: shapes.Pick
    temporary: bool


class ChatChanges(TypedDict, total=False):
    """What to change of a chat. `folder` null: in none; `model` null: the default one."""

    title: Title
    folder: Folder | None
    pinned: bool
    archived: bool
    unread: bool
    model: shapes.Pick | None


class Wanted(TypedDict, total=False):
    """Which chats to list."""

    q: Annotated[str, such(maxLength=200, description="Words to find in titles and messages")]
    folder: Folder
    archived: bool
    cursor: shapes.Cursor
    limit: Annotated[int, such(minimum=1, maximum=100)]


class Before(TypedDict, total=False):
    """Which piece of a chat to open."""

    before: Annotated[
        str, such(maxLength=40, description="The messages above this one: its id or its position")
    ]


class Branch(TypedDict):
    """A message of the branch to show."""

    message: MessageId


@operation(takes=NewChat, gives={201: shapes.Chat}, raises=[UnknownModel, KeyReused], key="optional")
async def create(request: Request) -> Response:
    """Begin a chat.

    Its messages are posted to it afterwards.
    """
    here, me, new = house(request), user(request), await asked.body(request, NewChat)
    stamp = once.stamp(me, asked.key(request), "new chat", new)

    async def write(s: Session) -> tuple[dict[str, Any], bool]:
        if (known := await stamp.known(s)) is not None:
            return await _shown(s, await chats.owned(s, ChatId(known), me)), False
        if (model := ModelId(new["model"]) if "model" in new else None) is not None:
            await here.models.choose(model)
        title = " ".join(new.get("title", "").split())
        chat = await chats.create(s, me, title=title, model=model, temporary=new.get("temporary", False))
        await stamp.record(s, "chat", chat.id)
        return reply_view.of_chat(chat), True

    shown, fresh = await here.db.write(write)
    if fresh:
        here.bulletin.publish(me, "chat", {"change": "created", **shown})
    return JSONResponse(shown, 201)


@operation(query=Wanted, gives={200: Page[shapes.ChatListed | shapes.Hit]})
async def listing(request: Request) -> Response:
    """List chats, or find words in them.

    Without `q` the chats, last active first. With `q` the places where all its words are found: titles first, then
    messages, newest first.
    """
    me, wanted = user(request), asked.query(request, Wanted)
    cursor, limit = wanted.get("cursor"), wanted.get("limit", 50)
    async with house(request).db.read() as s:
        if words := wanted.get("q", "").strip():
            hits, following = await search.find(s, me, words, cursor=cursor, limit=limit)
            return _page([_hit(hit) for hit in hits], following)
        found, following = await chats.listing(
            s,
            me,
            archived=wanted.get("archived", False),
            folder=wanted.get("folder"),
            pinned_first=False,
            cursor=cursor,
            limit=limit,
        )
    return _page([reply_view.of_chat(row) for row in found], following)


@operation(query=Before, gives={200: shapes.ChatOpened})
async def show(request: Request) -> Response:
    """Open a chat.

    With the last 50 messages of its current branch, or the 50 above `before`. A reply that is being written is known
    by `running_reply`; what it has written so far is told by the reply itself.
    """
    me, before = user(request), asked.query(request, Before).get("before")
    async with house(request).db.read() as s:
        chat = await chats.owned(s, ChatId(asked.path_id(request)), me)
        return JSONResponse(await _opened(s, chat, await _position(s, before, me)))


@operation(takes=ChatChanges, gives={200: shapes.Chat}, raises=[UnknownModel])
async def change(request: Request) -> Response:
    """Change a chat: its title, folder, model, and whether it is pinned, archived or unread."""
    here, chat_id = house(request), ChatId(asked.path_id(request))
    changes = await asked.body(request, ChatChanges)
    chat = await change_chat(here, user(request), chat_id, **changes)
    async with here.db.read() as s:
        return JSONResponse(await _shown(s, chat))


@operation(gives={204: None})
async def delete(request: Request) -> Response:
    """Delete a chat with all that is in it.

    A reply that is being written is stopped first.
    """
    await house(request).accepting.delete_chat(user(request), ChatId(asked.path_id(request)))
    return Response(status_code=204)


@operation(takes=Branch, gives={200: shapes.ChatOpened})
async def branch(request: Request) -> Response:
    """Choose the branch through a message, as far down as it was last written."""
    here, me, chat_id = house(request), user(request), ChatId(asked.path_id(request))
    wanted = await asked.body(request, Branch)
    await here.accepting.choose_branch(me, chat_id, wanted["message"])
    async with here.db.read() as s:
        return JSONResponse(await _opened(s, await chats.owned(s, chat_id, me), None))


async def _shown(s: Session, chat: Chat) -> dict[str, Any]:
    live = await replies.live_in(s, ChatId(chat.id))
    running, waiting = (live.id, live.phase == "waiting") if live else (None, False)
    return reply_view.of_chat(chat, running_reply=running, waiting=waiting)


async def _opened(s: Session, chat: Chat, before: int | None) -> dict[str, Any]:
    branch = await messages.branch(s, chat, before=before)
    queued = await messages.queued(s, ChatId(chat.id))
    return await _shown(s, chat) | {
        "messages": [reply_view.of_message(message) for message in branch],
        "queued": [reply_view.of_message(message) for message in queued],
        "interaction": None,
    }


async def _position(s: Session, before: str | None, me: UserId) -> int | None:
    if before is None or (before.isascii() and before.isdecimal() and len(before) < 16):
        return None if before is None else int(before)
    if not is_id(before):
        raise Invalid("'before' is neither the id nor the position of a message.", field="before")
    return (await messages.owned(s, MessageId(before), me)).position


def _hit(hit: Hit) -> dict[str, Any]:
    snippet = str(marked(hit.snippet))
    told = {"title": hit.title, "message": hit.message, "snippet": snippet, "at": rfc3339(hit.at)}
    return {"id": hit.chat} | told


def _page(items: list[dict[str, Any]], following: str | None) -> Response:
    return JSONResponse({"items": items, "next": following})
