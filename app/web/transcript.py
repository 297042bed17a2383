"""Reads a chat for the page: a page of its branch, what waits in its queue, and what is going on in it.

`opened` reads a page of a chat, `one_reply` a reply alone. A reply that runs is taken from its live state,
whatever is stored of it yet.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.core.ids import ChatId, MessageId, ReplyId, UserId
from app.core.reply import LIVE
from app.store import chats, messages, replies
from app.store.engine import Session
from app.store.messages import StoredMessage
from app.store.tables import Chat, Reply
from app.web import turns
from app.web.house import House
from app.web.turns import MessageView, ReplyView, StatusView, Versions

# How many messages a page of a chat shows.
PAGE = 50


@dataclass(frozen=True, slots=True)
class Opened:
    """A page of a chat. `earlier`: the message to go on above, or None at the beginning."""

    chat: Chat
    items: tuple[MessageView | ReplyView, ...]
    earlier: MessageId | None
    queued: tuple[MessageView, ...]
    running: ReplyId | None
    status: StatusView | None


async def opened(house: House, user: UserId, chat_id: ChatId, before: MessageId | None = None) -> Opened:
    """The last page of the chat, or the one above the message `before`. Raises NotFound."""
    async with house.db.read() as s:
        chat = await chats.owned(s, chat_id, user)
        shown = await _page(s, chat, before)
        rows = await _rows(s, chat, shown, at_end=before is None)
        items = await _items(s, house, shown, rows)
        waiting = [] if before else await messages.queued(s, chat_id)
        lane = await replies.live_in(s, chat_id)
    running = ReplyId(lane.id) if lane else None
    return Opened(
        chat,
        tuple(items),
        shown[0].id if shown and shown[0].parent else None,
        tuple(MessageView.of(message) for message in waiting),
        running,
        status_now(house, running),
    )


async def one_reply(house: House, user: UserId, reply_id: ReplyId) -> ReplyView:
    """One reply as the page shows it now. Raises NotFound."""
    async with house.db.read() as s:
        row = await replies.owned(s, reply_id, user)
        return await _view(s, house, row, await messages.of_reply(s, reply_id))


def status_now(house: House, running: ReplyId | None) -> StatusView | None:
    """The status line of the reply that holds a chat's lane; None while nothing runs."""
    if running is None:
        return None
    generation = house.registry.find(running)
    return turns.status_of(generation.state) if generation else StatusView("Preparing", False, 0)


async def _page(s: Session, chat: Chat, before: MessageId | None) -> list[StoredMessage]:
    """A page of the branch that begins with a person's turn, so that no reply is cut in two."""
    shown = await messages.branch(s, chat, before=before, limit=PAGE)
    while shown and shown[0].role != "user" and shown[0].parent:
        shown = await messages.branch(s, chat, before=shown[0].id, limit=PAGE) + shown
    return shown


async def _rows(
    s: Session, chat: Chat, shown: Sequence[StoredMessage], *, at_end: bool
) -> dict[ReplyId, Reply]:
    """The rows of the replies on the page, that one included which has written nothing yet, or never did."""
    wrote = list({message.reply: None for message in shown if message.reply})
    rows = await replies.of_chat(s, ChatId(chat.id), wrote)
    if at_end and shown and shown[-1].role == "user":
        for row in (await replies.of_input(s, shown[-1].id))[-1:]:
            rows[ReplyId(row.id)] = row
    return rows


async def _items(
    s: Session, house: House, shown: Sequence[StoredMessage], rows: Mapping[ReplyId, Reply]
) -> list[MessageView | ReplyView]:
    """The turns in order: each person's message, then the reply to it."""
    written: dict[ReplyId, list[StoredMessage]] = {id: [] for id in rows}
    items: list[MessageView | ReplyId] = []
    for message in shown:
        if message.role == "user":
            if not message.by_application:
                items.append(MessageView.of(message))
        elif message.reply in written:
            if not written[message.reply]:
                items.append(message.reply)
            written[message.reply].append(message)
    items += [id for id, found in written.items() if not found]
    return [
        item if isinstance(item, MessageView) else await _view(s, house, rows[item], written[item])
        for item in items
    ]


async def _view(s: Session, house: House, row: Reply, written: Sequence[StoredMessage]) -> ReplyView:
    versions = await _versions(s, row, written)
    generation = house.registry.find(ReplyId(row.id)) if row.phase in LIVE else None
    if generation is not None:
        return turns.of_state(generation.state, versions)
    return turns.of_rows(row, written, versions)


async def _versions(s: Session, row: Reply, written: Sequence[StoredMessage]) -> Versions:
    first = next((message for message in written if message.role == "assistant"), None)
    if first is not None:
        return Versions.of(first.id, first.siblings)
    return Versions.of(None, await messages.children(s, MessageId(row.after)))
