"""Messages and their parts: the tree of a chat, its branches, and what waits in its queue."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import CTE, Row, Select, and_, delete as delete_rows, func, literal, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import aliased

from app.core import messages as neutral
from app.core.clock import now_ms
from app.core.errors import KeyReused, NotFound
from app.core.ids import ChatId, MessageId, ReplyId, UserId
from app.core.messages import Part, Role
from app.store import parts as store_parts, rows
from app.store.engine import Session
from app.store.tables import Chat, Message, Part as PartRow


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message as it is kept; `created` in ms.

    A person's has `sampling` and `model` where they were picked for it, an assistant's all from `model` on.
    `siblings` are the ids of all messages with its parent, itself among them, oldest first.
    """

    id: MessageId
    chat: ChatId
    parent: MessageId | None
    role: Role
    reply: ReplyId | None
    position: int
    created: int
    queued: bool
    by_application: bool
    sampling: dict[str, Any] | None
    model: str | None
    model_name: str | None
    endpoint: str | None
    api: str | None
    stop_reason: str | None
    usage: dict[str, Any] | None
    tools_offered: dict[str, Any] | None
    parts: tuple[Part, ...] = ()
    siblings: tuple[MessageId, ...] = ()

    def neutral(self) -> neutral.Message:
        """What a provider is sent of it."""
        return neutral.Message(self.role, self.parts, self.id, self.by_application)

    @property
    def text(self) -> str:
        """The visible text alone."""
        return self.neutral().text


async def branch(
    s: Session, chat: Chat, *, before: int | None = None, limit: int = 50
) -> list[StoredMessage]:
    """The last `limit` messages of the current branch, oldest first; those above `before` if it is given.

    `before` is the position of a message on the branch. Costs the same whatever the length of the chat.
    """
    if before is None:
        start = chat.leaf
    else:
        start = await s.scalar(
            select(Message.parent).where(Message.chat == chat.id, Message.position == before)
        )
    if start is None:
        return []
    return await _walked(s, _ancestry(MessageId(start), limit))


async def path_to(s: Session, message_id: MessageId) -> list[StoredMessage]:
    """The message and all above it, oldest first. Empty if there is no such message."""
    return await _walked(s, _ancestry(message_id), with_siblings=False)


async def owned(s: Session, message_id: MessageId, user: UserId) -> Message:
    """The message's row, if its chat is theirs. Raises NotFound."""
    query = (
        select(Message)
        .join(Chat, Chat.id == Message.chat)
        .where(Message.id == message_id, Chat.owner == user)
    )
    message = await s.scalar(query)
    if message is None:
        raise NotFound("There is no such message, or it was deleted.")
    return message


async def load(s: Session, ids: Sequence[MessageId]) -> list[StoredMessage]:
    """These messages with parts and siblings, by position; those that are gone are left out."""
    query = select(*_COLUMNS).where(Message.id.in_(rows.each(ids))).order_by(Message.chat, Message.position)
    return await _complete(s, (await s.execute(query)).all())


async def insert(
    s: Session,
    chat: Chat,
    *,
    id: MessageId,
    parent: MessageId | None,
    role: Role,
    parts: Iterable[Part],
    reply: ReplyId | None = None,
    queued: bool = False,
    by_application: bool = False,
    **more: Any,
) -> Message:
    """Store a message at the chat's next position, which makes the chat active but doesn't move its leaf.

    `more`: sampling, model, model_name, endpoint, api, stop_reason, usage, tools_offered.
    Raises KeyReused for an id that is taken, NotFound if the chat is gone.
    """
    message = Message(
        id=id,
        chat=chat.id,
        parent=parent,
        role=role,
        reply=reply,
        position=chat.next_position,
        created=now_ms(),
        queued=queued,
        by_application=by_application,
        **more,
    )
    try:
        await rows.add(s, message)
    except IntegrityError as error:
        if "FOREIGN KEY" in str(error.orig):
            raise NotFound("This chat was deleted.") from error
        raise KeyReused("This id already belongs to another message. Send again with a fresh one.") from error
    await store_parts.write(s, id, parts)
    chat.next_position += 1
    chat.active = message.created
    return message


def stored(message: Message, parts: Iterable[Part], siblings: Iterable[MessageId] = ()) -> StoredMessage:
    """The value of a row whose parts are at hand, as after `insert`; no query."""
    columns = [getattr(message, column.key) for column in _COLUMNS]
    return _value(columns, parts, tuple(siblings) or (MessageId(message.id),))


async def replace_parts(s: Session, message_id: MessageId, parts: Iterable[Part]) -> None:
    """Put other parts in place of a queued message's; no other message is ever rewritten."""
    await s.execute(delete_rows(PartRow).where(PartRow.message == message_id))
    await store_parts.write(s, message_id, parts)


async def queued(s: Session, chat_id: ChatId) -> list[StoredMessage]:
    """What waits in the chat, the next one first."""
    return await _complete(s, (await s.execute(_queue(chat_id))).all(), with_siblings=False)


async def queues(s: Session, user: UserId) -> list[StoredMessage]:
    """What waits in all chats of the person, by chat, the next one of each first."""
    query = (
        select(*_COLUMNS)
        .join(Chat, Chat.id == Message.chat)
        .where(Chat.owner == user, Message.queued)
        .order_by(Message.chat, Message.position)
    )
    return await _complete(s, (await s.execute(query)).all(), with_siblings=False)


async def of_reply(s: Session, reply_id: ReplyId) -> list[StoredMessage]:
    """The assistant and tool messages that the reply wrote, in order."""
    query = select(*_COLUMNS).where(Message.reply == reply_id).order_by(Message.position)
    return await _complete(s, (await s.execute(query)).all())


async def next_queued(s: Session, chat_id: ChatId) -> Message | None:
    """The row of the message whose turn is next."""
    query = select(Message).where(Message.chat == chat_id, Message.queued).order_by(Message.position).limit(1)
    return await s.scalar(query)


async def unqueue(s: Session, message: Message, parent: MessageId | None) -> None:
    """Take a queued message into the tree, under `parent`."""
    message.queued = False
    message.parent = parent


async def delete_queued(s: Session, message: Message) -> bool:
    """Remove a queued message; False if it was taken in meanwhile, which then stays."""
    return await rows.changed(s, delete_rows(Message).where(Message.id == message.id, Message.queued))


async def children(s: Session, message_id: MessageId) -> list[MessageId]:
    """The ids of the messages under it, oldest first."""
    chat = select(Message.chat).where(Message.id == message_id).scalar_subquery()
    query = (
        select(Message.id)
        .where(Message.chat == chat, Message.parent == message_id, Message.queued.is_(False))
        .order_by(Message.position)
    )
    return [MessageId(id) for id in (await s.scalars(query)).all()]


async def deepest_leaf(s: Session, message_id: MessageId) -> MessageId:
    """The newest message below, or the message itself: where somebody who switches to its branch was last."""
    top = select(Message.id, Message.chat, Message.position).where(Message.id == message_id)
    below = top.cte("below", recursive=True)
    step = select(Message.id, Message.chat, Message.position).join(
        below, and_(Message.chat == below.c.chat, Message.parent == below.c.id)
    )
    below = below.union_all(step.where(Message.queued.is_(False)))
    newest = await s.scalar(select(below.c.id).order_by(below.c.position.desc()).limit(1))
    return MessageId(newest) if newest is not None else message_id


async def text_size(s: Session, chat_id: ChatId) -> int:
    """Characters of visible text in the whole chat, all branches."""
    query = (
        select(func.coalesce(func.sum(func.length(PartRow.text)), 0))
        .join(Message, Message.id == PartRow.message)
        .where(Message.chat == chat_id, PartRow.type == "text")
    )
    return await s.scalar(query) or 0


# In the order of StoredMessage's fields.
_COLUMNS = (
    Message.id,
    Message.chat,
    Message.parent,
    Message.role,
    Message.reply,
    Message.position,
    Message.created,
    Message.queued,
    Message.by_application,
    Message.sampling,
    Message.model,
    Message.model_name,
    Message.endpoint,
    Message.api,
    Message.stop_reason,
    Message.usage,
    Message.tools_offered,
)


def _queue(chat_id: ChatId) -> Select[*tuple[Any, ...]]:
    return select(*_COLUMNS).where(Message.chat == chat_id, Message.queued).order_by(Message.position)


def _ancestry(start: MessageId, limit: int | None = None) -> CTE:
    """The message and those above it, numbered from 1 upwards: an index look-up for each, at most `limit`."""
    first = select(Message.id, Message.chat, Message.parent, literal(1).label("height")).where(
        Message.id == start
    )
    walk = first.cte("walk", recursive=True)
    above = select(Message.id, Message.chat, Message.parent, walk.c.height + 1).join(
        walk, and_(Message.id == walk.c.parent, Message.chat == walk.c.chat)
    )
    return walk.union_all(above if limit is None else above.where(walk.c.height < limit))


async def _walked(s: Session, walk: CTE, with_siblings: bool = True) -> list[StoredMessage]:
    query = select(*_COLUMNS).join(walk, walk.c.id == Message.id).order_by(walk.c.height.desc())
    return await _complete(s, (await s.execute(query)).all(), with_siblings)


async def _complete(
    s: Session, found: Sequence[Row[*tuple[Any, ...]]], with_siblings: bool = True
) -> list[StoredMessage]:
    """Messages with their parts, one query for all, and their siblings, another one."""
    ids = [message.id for message in found]
    parts = await store_parts.of(s, ids)
    siblings = await _siblings(s, ids) if with_siblings else {}
    return [
        _value(message, parts.get(message.id, ()), siblings.get(message.id, (message.id,)))
        for message in found
    ]


def _value(columns: Iterable[Any], parts: Iterable[Part], siblings: Iterable[MessageId]) -> StoredMessage:
    extra: tuple[Any, ...] = (tuple(parts), tuple(siblings))
    return StoredMessage(*columns, *extra)


async def _siblings(s: Session, ids: Sequence[MessageId]) -> dict[MessageId, list[MessageId]]:
    if not ids:
        return {}
    other = aliased(Message)
    same_parent = and_(
        other.chat == Message.chat, other.parent.is_not_distinct_from(Message.parent), other.queued.is_(False)
    )
    query = (
        select(Message.id, other.id)
        .join(other, same_parent)
        .where(Message.id.in_(rows.each(ids)))
        .order_by(other.position)
    )
    found: dict[MessageId, list[MessageId]] = {}
    for id, sibling in (await s.execute(query)).all():
        found.setdefault(MessageId(id), []).append(MessageId(sibling))
    return found
