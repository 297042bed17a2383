"""Reads a chat for the page: a page of its branch, what waits in its queue, and what is going on in it.

`opened` reads a page of a chat, `one_reply` a reply alone. A reply that runs is taken from its live state,
whatever is stored of it yet.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from app.core.errors import NotFound
from app.core.ids import ChatId, MessageId, ReplyId, UserId
from app.core.reply import LIVE
from app.store import chats, events, messages, replies
from app.store.engine import Session
from app.store.messages import StoredMessage
from app.store.tables import Chat, Reply
from app.web import turns
from app.web.house import House
from app.web.turns import MessageView, ReplyView, StatusView, Versions

# How many messages a page of a chat shows.
PAGE = 50


@dataclass(frozen=True, slots=True)
class Place:
    """Which page of a chat: its end, the page above the position `before`, or the one around the message `at`."""

    before: int | None = None
    at: MessageId | None = None


END = Place()


@dataclass(frozen=True, slots=True)
class Opened:
    """A page of a chat. `earlier`: the position to go on above, or None at the beginning; `later`: it is not the
    end of the chat; `found`: the id of the turn that holds the message looked for."""

    chat: Chat
    items: tuple[MessageView | ReplyView, ...]
    earlier: int | None
    later: bool
    found: str | None
    queued: tuple[MessageView, ...]
    running: ReplyId | None
    status: StatusView | None


async def opened(house: House, user: UserId, chat_id: ChatId, place: Place = END) -> Opened:
    """The page of the person's chat at `place`. Raises NotFound."""
    async with house.db.read() as s:
        chat = await chats.owned(s, chat_id, user)
        shown, at_end = await _page(s, chat, place)
        lane = await replies.live_in(s, chat_id)
        items = await _items(s, house, shown, lane if at_end else None)
        waiting = await messages.queued(s, chat_id) if at_end else []
    running = ReplyId(lane.id) if lane else None
    return Opened(
        chat,
        tuple(items),
        earlier=shown[0].position if shown and shown[0].parent else None,
        later=not at_end,
        found=next((message.reply or message.id for message in shown if message.id == place.at), None),
        queued=tuple(MessageView.of(message) for message in waiting),
        running=running,
        status=status_now(house, running),
    )


async def one_reply(house: House, user: UserId, reply_id: ReplyId) -> ReplyView:
    """One reply as the page shows it now. Raises NotFound."""
    async with house.db.read() as s:
        row = await replies.owned(s, reply_id, user)
        warnings = (await events.warnings(s, [reply_id])).get(reply_id, [])
        return await _view(s, house, row, await messages.of_reply(s, reply_id), warnings)


def status_now(house: House, running: ReplyId | None) -> StatusView | None:
    """The status line of the reply that holds a chat's lane; None while nothing runs."""
    if running is None:
        return None
    generation = house.registry.find(running)
    return turns.status_of(generation.state) if generation else StatusView("Preparing", False, 0)


async def _page(s: Session, chat: Chat, place: Place) -> tuple[list[StoredMessage], bool]:
    """The messages of a page, and whether the chat ends with it."""
    shown = await _above(s, chat, place.before)
    if place.at is None or any(message.id == place.at for message in shown):
        return shown, place.before is None
    return await _around(s, chat, place.at), False


async def _above(s: Session, chat: Chat, before: int | None) -> list[StoredMessage]:
    """A page that begins with a person's turn, so that no reply is cut in two."""
    shown = await messages.branch(s, chat, before=before, limit=PAGE)
    while shown and shown[0].role != "user" and shown[0].parent:
        shown = await messages.branch(s, chat, before=shown[0].position, limit=PAGE) + shown
    return shown


async def _around(s: Session, chat: Chat, at: MessageId) -> list[StoredMessage]:
    """The turns around a message, on the current branch or, where it is not on that, on its own. Raises NotFound."""
    found = await messages.load(s, [at])
    if not found or found[0].chat != chat.id or found[0].queued:
        raise NotFound("There is no such message, or it was deleted.")
    path = await messages.path_to(s, MessageId(chat.leaf)) if chat.leaf else []
    if all(message.id != at for message in path):
        path = await messages.path_to(s, await messages.deepest_leaf(s, at))
    turn = [number for number, message in enumerate(path) if message.role == "user"]
    place = next(number for number, message in enumerate(path) if message.id == at)
    first = max((number for number in turn if number <= place - PAGE // 2), default=0)
    last = min((number for number in turn if number >= place + PAGE // 2), default=len(path))
    return await messages.load(s, [message.id for message in path[first:last]])


async def _items(
    s: Session, house: House, shown: Sequence[StoredMessage], lane: Reply | None
) -> list[MessageView | ReplyView]:
    """The turns in order: each person's message, then the reply to it."""
    found = await replies.of_inputs(s, [message.id for message in shown if message.role == "user"])
    rows = {ReplyId(row.id): row for row in found}
    silent = await _silent(s, shown, found, lane)
    warnings = await events.warnings(s, [message.reply for message in shown if message.reply])
    written: dict[ReplyId, list[StoredMessage]] = {}
    for message in shown:
        if message.reply is not None:
            written.setdefault(message.reply, []).append(message)
    items: list[MessageView | ReplyView] = []
    for message in shown:
        if message.role == "user" and not message.by_application:
            items.append(MessageView.of(message))
        if message.reply in rows and written[message.reply][0] is message:
            told = warnings.get(message.reply, ())
            items.append(await _view(s, house, rows[message.reply], written[message.reply], told))
        if message.id in silent:
            items.append(await _view(s, house, silent[message.id], [], ()))
    return items


async def _silent(
    s: Session, shown: Sequence[StoredMessage], found: Sequence[Reply], lane: Reply | None
) -> dict[MessageId, Reply]:
    """By the message that they follow: the reply that has written nothing yet, and those that ended before they
    wrote anything, where nothing else was said in their place."""
    silent: dict[MessageId, Reply] = {}
    if shown and lane is not None and lane.after == shown[-1].id:
        silent[shown[-1].id] = lane
    for message, following in zip(shown, [*shown[1:], None], strict=True):
        if message.id in silent or message.role != "user" or (following and following.role != "user"):
            continue
        latest = next((row for row in reversed(found) if row.after == message.id), None)
        if latest and latest.phase not in LIVE and not await messages.of_reply(s, ReplyId(latest.id)):
            silent[message.id] = latest
    return silent


async def _view(
    s: Session, house: House, row: Reply, written: Sequence[StoredMessage], warnings: Sequence[str]
) -> ReplyView:
    versions = await _versions(s, row, written)
    generation = house.registry.find(ReplyId(row.id)) if row.phase in LIVE else None
    if generation is not None:
        return turns.of_state(generation.state, versions)
    return turns.of_rows(row, written, versions, warnings)


async def _versions(s: Session, row: Reply, written: Sequence[StoredMessage]) -> Versions:
    first = next((message for message in written if message.role == "assistant"), None)
    if first is not None:
        return Versions.of(first.id, first.siblings)
    return Versions.of(None, await messages.children(s, MessageId(row.after)))
