"""Chats: loading through the owner, the list of the sidebar, titles, unread marks, and their end."""

import re
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, cast

from sqlalchemy import (
    Select,
    Table,
    and_,
    bindparam,
    delete as delete_rows,
    func,
    select,
    text,
    tuple_,
    update as update_rows,
)
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm.attributes import set_committed_value

from app.core.clock import now_ms
from app.core.errors import Invalid, KeyReused, NotFound
from app.core.ids import ChatId, MessageId, ModelId, ReplyId, UserId, new_id
from app.core.reply import Phase
from app.store import rows
from app.store.engine import Session
from app.store.prepared import Prepared
from app.store.tables import IN_LANE, Chat, Draft, Reply

TitleFrom = Literal["none", "opening", "model", "person"]
_TITLE_ORDER: tuple[TitleFrom, ...] = ("none", "opening", "model", "person")
_CURSOR = re.compile(r"([01])\.(\d{1,15})\.([0-9a-f-]{36})")
_CHANGEABLE = frozenset(
    {"title", "title_from", "folder", "pinned", "archived", "unread", "model", "temporary"}
)


@dataclass(frozen=True, slots=True)
class ChatRow:
    """A chat as the list shows it. `active` is in ms; `waiting`: its running reply waits for a person."""

    id: ChatId
    title: str
    kind: str
    folder: str | None
    pinned: bool
    archived: bool
    unread: bool
    active: int
    running_reply: ReplyId | None
    waiting: bool


async def owned(s: Session, chat_id: ChatId, user: UserId) -> Chat:
    """The chat, if it is theirs. Raises NotFound, for a stranger's chat as for none."""
    chat = await _OWNED.one(s, Chat, chat=chat_id, user=user)
    if chat is None:
        raise NotFound("There is no such chat, or it was deleted.")
    return chat


async def find(s: Session, chat_id: ChatId) -> Chat | None:
    """The chat whoever owns it, for the server's own work; None if it is gone."""
    return await _BY_ID.one(s, Chat, chat=chat_id)


async def create(
    s: Session,
    owner: UserId,
    *,
    id: ChatId | None = None,
    kind: Literal["chat", "agent"] = "chat",
    title: str = "",
    model: ModelId | None = None,
    temporary: bool = False,
    folder: str | None = None,
) -> Chat:
    now = now_ms()
    chat = Chat(
        id=id or new_id(),
        owner=owner,
        kind=kind,
        title=title,
        title_from="person" if title else "none",
        model=model,
        temporary=temporary,
        folder=folder,
        created=now,
        active=now,
    )
    try:
        await rows.add(s, chat)
    except IntegrityError as error:
        if "FOREIGN KEY" in str(error.orig):
            raise
        raise KeyReused("This id already belongs to another chat. Try again with a fresh one.") from error
    return chat


async def listing(
    s: Session,
    user: UserId,
    *,
    archived: bool = False,
    folder: str | None = None,
    pinned: bool | None = None,
    pinned_first: bool = True,
    cursor: str | None = None,
    limit: int = 100,
) -> tuple[list[ChatRow], str | None]:
    """The person's chats, last active first, pinned ones before all if `pinned_first`; and the next page's cursor.

    `folder` and `pinned` narrow the list when given. Temporary chats are never listed.
    Raises Invalid for a cursor that isn't ours.
    """
    values: dict[str, Any] = {"user": user, "archived": archived, "most": limit + 1}
    if folder is not None:
        values["folder"] = folder
    if pinned is not None:
        values["pinned"] = pinned
    if cursor is not None:
        values |= _position(cursor)
    found = [ChatRow(*row) for row in await _list(pinned_first, *values).rows(s, **values)]
    more = len(found) > limit
    found = found[:limit]
    return found, _cursor(found[-1]) if more else None


async def row(s: Session, chat_id: ChatId, user: UserId) -> ChatRow:
    """One chat as the list shows it, a temporary one too. Raises NotFound."""
    found = await _ROW.first(s, user=user, chat=chat_id)
    if found is None:
        raise NotFound("There is no such chat, or it was deleted.")
    return ChatRow(*found)


async def folders(s: Session, user: UserId) -> list[str]:
    """The names of the person's folders, in order."""
    query = (
        select(Chat.folder)
        .where(Chat.owner == user, Chat.folder.is_not(None))
        .distinct()
        .order_by(Chat.folder)
    )
    return [name for name in (await s.scalars(query)).all() if name is not None]


async def update(s: Session, chat: Chat, **fields: Any) -> None:
    """Change title, folder, pinned, archived, unread, model or temporary; a title counts as given by hand."""
    if "title" in fields:
        fields = {"title_from": "person", **fields}
    await rows.change(s, chat, fields, _CHANGEABLE)


async def delete(s: Session, chat: Chat) -> None:
    """Remove the chat with its messages, replies, events and draft. Its ledger rows and files stay."""
    await s.execute(delete_rows(Draft).where(Draft.user == chat.owner, Draft.chat == chat.id))
    await s.execute(delete_rows(Chat).where(Chat.id == chat.id).execution_options(synchronize_session=False))
    s.expunge(chat)


async def set_leaf(s: Session, chat: Chat, message_id: MessageId) -> None:
    """Make the branch that ends with the message the current one."""
    await _SET_LEAF.change(s, this=chat.id, to=message_id)
    set_committed_value(chat, "leaf", message_id)


async def set_title(s: Session, chat_id: ChatId, title: str, came_from: TitleFrom) -> bool:
    """Whether the title was set: one from the model yields to a person's, the opening words to both."""
    weaker = _TITLE_ORDER[: _TITLE_ORDER.index(came_from) + 1]
    query = (
        update_rows(Chat)
        .where(Chat.id == chat_id, Chat.title_from.in_(weaker))
        .values(title=title, title_from=came_from)
    )
    return await rows.changed(s, query)


async def unread(s: Session, user: UserId) -> list[ChatId]:
    """The person's unread chats, temporary ones left out."""
    query = select(Chat.id).where(Chat.owner == user, Chat.unread, Chat.temporary.is_(False))
    return [ChatId(id) for id in (await s.scalars(query)).all()]


async def lanes(s: Session, user: UserId) -> list[tuple[ChatId, ReplyId, Phase]]:
    """The person's chats in which a reply is being written, with that reply and its phase."""
    query = select(Reply.chat, Reply.id, Reply.phase).join(Chat, Chat.id == Reply.chat)
    found = await s.execute(query.where(_LIVE, Chat.owner == user).order_by(Reply.created))
    return [(ChatId(chat), ReplyId(id), cast(Phase, phase)) for chat, id, phase in found.all()]


async def expire_temporary(s: Session, before_ms: int) -> list[ChatId]:
    """Delete the temporary chats made before that moment in which nothing runs; returns their ids."""
    running = select(Reply.id).where(Reply.chat == Chat.id, _LIVE).exists()
    query = select(Chat).where(Chat.temporary, Chat.created < before_ms, ~running)
    gone = (await s.scalars(query)).all()
    for chat in gone:
        await delete(s, chat)
    return [ChatId(chat.id) for chat in gone]


_T = cast(Table, Chat.__table__)
_OWNED = Prepared(select(_T).where(_T.c.id == bindparam("chat"), _T.c.owner == bindparam("user")))
_BY_ID = Prepared(select(_T).where(_T.c.id == bindparam("chat")))
_SET_LEAF = Prepared(update_rows(_T).where(_T.c.id == bindparam("this")).values(leaf=bindparam("to")))
_LIVE = text(f"reply.{IN_LANE}")


def _rows() -> Select[*tuple[Any, ...]]:
    """The person's chats in the shape of ChatRow."""
    reply = cast(Table, Reply.__table__).c
    columns = (
        _T.c.id,
        _T.c.title,
        _T.c.kind,
        _T.c.folder,
        _T.c.pinned,
        _T.c.archived,
        _T.c.unread,
        _T.c.active,
    )
    return (
        select(*columns, reply.id, func.coalesce(reply.phase == "waiting", False))
        .join(Reply.__table__, and_(reply.chat == _T.c.id, _LIVE), isouter=True)
        .where(_T.c.owner == bindparam("user"))
    )


@cache
def _list(pinned_first: bool, *given: str) -> Prepared:
    """The statement of `listing`, with a condition for each of the values that are given."""
    query = _rows().where(_T.c.archived.is_(bindparam("archived")), _T.c.temporary.is_(False))
    if "folder" in given:
        query = query.where(_T.c.folder == bindparam("folder"))
    if "pinned" in given:
        query = query.where(_T.c.pinned.is_(bindparam("pinned")))
    order = [_T.c.pinned] if pinned_first else []
    order += [_T.c.active, _T.c.id]
    if "last_id" in given:
        last: list[Any] = [bindparam(f"last_{column.key}") for column in order]
        query = query.where(tuple_(*order) < tuple_(*last))
    query = query.order_by(*(column.desc() for column in order))
    return Prepared(query.limit(bindparam("most")))


_ROW = Prepared(_rows().where(_T.c.id == bindparam("chat")))


def _cursor(last: ChatRow) -> str:
    return f"{int(last.pinned)}.{last.active}.{last.id}"


def _position(cursor: str) -> dict[str, Any]:
    match = _CURSOR.fullmatch(cursor)
    if match is None:
        raise Invalid("This cursor is not one of ours.", field="cursor")
    return {"last_pinned": match[1] == "1", "last_active": int(match[2]), "last_id": match[3]}
