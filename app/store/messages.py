"""Messages and their parts: the tree of a chat, its branches, and what waits in its queue."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from sqlalchemy import Select, Table, and_, bindparam, delete as delete_rows, literal, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm.attributes import set_committed_value

from app.core import messages as neutral
from app.core.clock import now_ms
from app.core.errors import KeyReused, NotFound
from app.core.ids import ChatId, MessageId, ReplyId, UserId
from app.core.messages import Part, Role
from app.store import parts as store_parts, rows
from app.store.engine import Session
from app.store.prepared import Prepared, attach, together, write_changes
from app.store.tables import Chat, Message, Part as PartRow


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message as it is kept; `created` in ms.

    A person's has `sampling` and `model` where they were picked for it, an assistant's all from `model` on.
    `siblings` are the ids of all messages with its parent, itself among them, oldest first; they are known of
    messages read to be shown (`branch`, `load`, `of_reply`), else empty.
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
    start = chat.leaf
    if before is not None:
        above = await _PARENT_AT.first(s, chat=chat.id, position=before)
        start = above[0] if above else None
    if start is None:
        return []
    return await _with_siblings(s, await _read(s, _ANCESTRY, start=start, most=limit))


async def path_to(s: Session, message_id: MessageId) -> list[StoredMessage]:
    """The message and all above it, oldest first. Empty if there is no such message."""
    return await _read(s, _ANCESTRY, start=message_id, most=_WHOLE)


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
    return await _with_siblings(s, await _read(s, _NAMED, ids=rows.each(ids)))


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
    advance = _ADVANCE.step({"this": chat.id, "next": message.position + 1, "now": message.created})
    try:
        await together(s, rows.insertion(message), store_parts.step(id, parts), advance)
    except IntegrityError as error:
        if "FOREIGN KEY" in str(error.orig):
            raise NotFound("This chat, or a file that goes with the message, was deleted.") from error
        raise KeyReused("This id already belongs to another message. Send again with a fresh one.") from error
    attach(s, message)
    set_committed_value(chat, "next_position", message.position + 1)
    set_committed_value(chat, "active", message.created)
    return message


def stored(message: Message, parts: Iterable[Part], siblings: Iterable[MessageId] = ()) -> StoredMessage:
    """The value of a row whose parts are at hand, as after `insert`; no query."""
    columns = [getattr(message, column.key) for column in _COLUMNS]
    return _value(columns, parts, siblings)


async def replace_parts(s: Session, message_id: MessageId, parts: Iterable[Part]) -> None:
    """Put other parts in place of a queued message's; no other message is ever rewritten."""
    await s.execute(delete_rows(PartRow).where(PartRow.message == message_id))
    await together(s, store_parts.step(message_id, parts))


async def queued(s: Session, chat_id: ChatId) -> list[StoredMessage]:
    """What waits in the chat, the next one first."""
    return await _read(s, _QUEUE, chat=chat_id)


async def queues(s: Session, user: UserId) -> list[StoredMessage]:
    """What waits in all chats of the person, by chat, the next one of each first."""
    return await _read(s, _QUEUES, user=user)


async def of_reply(s: Session, reply_id: ReplyId) -> list[StoredMessage]:
    """The assistant and tool messages that the reply wrote, in order."""
    return await _with_siblings(s, await _read(s, _OF_REPLY, reply=reply_id))


async def next_queued(s: Session, chat_id: ChatId) -> Message | None:
    """The row of the message whose turn is next."""
    query = select(Message).where(Message.chat == chat_id, Message.queued).order_by(Message.position).limit(1)
    return await s.scalar(query)


async def unqueue(s: Session, message: Message, parent: MessageId | None) -> None:
    """Take a queued message into the tree, under `parent`."""
    message.queued = False
    message.parent = parent
    await write_changes(s)


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
    """The newest leaf below, or the message itself: where somebody who switches to its branch was last."""
    newest = await _NEWEST_BELOW.first(s, top=message_id)
    return MessageId(newest[0]) if newest else message_id


async def _read(s: Session, query: Prepared, **values: Any) -> list[StoredMessage]:
    """The messages that one of the statements below finds, with their parts, one query for all."""
    found = await query.rows(s, **values)
    parts = await store_parts.of(s, [message[0] for message in found])
    return [_value(message, parts.get(message[0], ())) for message in found]


def _value(
    columns: Iterable[Any], parts: Iterable[Part], siblings: Iterable[MessageId] = ()
) -> StoredMessage:
    rest: tuple[Any, ...] = (tuple(parts), tuple(siblings))
    return StoredMessage(*columns, *rest)


async def _with_siblings(s: Session, found: list[StoredMessage]) -> list[StoredMessage]:
    if not found:
        return []
    siblings: dict[str, list[MessageId]] = {}
    for id, sibling in await _SIBLINGS.rows(s, ids=rows.each(message.id for message in found)):
        siblings.setdefault(id, []).append(sibling)
    return [replace(message, siblings=tuple(siblings.get(message.id, (message.id,)))) for message in found]


# The statements are made once: for SQLAlchemy, making one costs more than SQLite takes to run it.

_T = Message.__table__.c
_WHOLE = 1 << 40

# In the order of StoredMessage's fields.
_COLUMNS = (
    _T.id,
    _T.chat,
    _T.parent,
    _T.role,
    _T.reply,
    _T.position,
    _T.created,
    _T.queued,
    _T.by_application,
    _T.sampling,
    _T.model,
    _T.model_name,
    _T.endpoint,
    _T.api,
    _T.stop_reason,
    _T.usage,
    _T.tools_offered,
)


def _ancestry() -> Select[*tuple[Any, ...]]:
    """The message `start` and those above it, topmost first: a look-up for each, at most `most` of them."""
    first = select(_T.id, _T.chat, _T.parent, literal(1).label("height")).where(_T.id == bindparam("start"))
    walk = first.cte("walk", recursive=True)
    above = (
        select(_T.id, _T.chat, _T.parent, walk.c.height + 1)
        .join(walk, and_(_T.id == walk.c.parent, _T.chat == walk.c.chat))
        .where(walk.c.height < bindparam("most"))
    )
    walk = walk.union_all(above)
    return select(*_COLUMNS).join(walk, walk.c.id == _T.id).order_by(walk.c.height.desc())


def _newest_below() -> Select[*tuple[Any, ...]]:
    first = select(_T.id, _T.chat, _T.position).where(_T.id == bindparam("top"))
    below = first.cte("below", recursive=True)
    step = select(_T.id, _T.chat, _T.position).join(
        below, and_(_T.chat == below.c.chat, _T.parent == below.c.id, _T.queued.is_(False))
    )
    below = below.union_all(step)
    # A message that waited has an older position than what it follows, so the newest of all may not be a leaf.
    child = Message.__table__.alias("child")
    children = select(child.c.id).where(
        child.c.chat == below.c.chat, child.c.parent == below.c.id, child.c.queued.is_(False)
    )
    return select(below.c.id).where(~children.exists()).order_by(below.c.position.desc()).limit(1)


def _siblings() -> Select[*tuple[Any, ...]]:
    other = Message.__table__.alias("other")
    same_parent = and_(
        other.c.chat == _T.chat, other.c.parent.is_not_distinct_from(_T.parent), other.c.queued.is_(False)
    )
    query = select(_T.id, other.c.id).join(other, same_parent)
    return query.where(_T.id.in_(rows.EACH)).order_by(other.c.position)


_C = cast(Table, Chat.__table__)

_ANCESTRY = Prepared(_ancestry())
_NEWEST_BELOW = Prepared(_newest_below())
_SIBLINGS = Prepared(_siblings())
_PARENT_AT = Prepared(
    select(_T.parent).where(_T.chat == bindparam("chat"), _T.position == bindparam("position"))
)
_NAMED = Prepared(select(*_COLUMNS).where(_T.id.in_(rows.EACH)).order_by(_T.chat, _T.position))
_OF_REPLY = Prepared(select(*_COLUMNS).where(_T.reply == bindparam("reply")).order_by(_T.position))
_QUEUE = Prepared(select(*_COLUMNS).where(_T.chat == bindparam("chat"), _T.queued).order_by(_T.position))
_QUEUES = Prepared(
    select(*_COLUMNS)
    .join(_C, _C.c.id == _T.chat)
    .where(_C.c.owner == bindparam("user"), _T.queued)
    .order_by(_T.chat, _T.position)
)
_ADVANCE = Prepared(
    update(_C)
    .where(_C.c.id == bindparam("this"))
    .values(next_position=bindparam("next"), active=bindparam("now"))
)
