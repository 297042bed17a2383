"""Messages that wait their turn: stored while a reply runs, started with the outcome of the one before.

Only `complete` goes on by itself; after any other outcome, and after a restart, what waits stays with Send
now.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from app.core.errors import NotOpen
from app.core.ids import ChatId, MessageId, ModelId, UserId, new_run
from app.replies import reply_view
from app.replies.feed import Bulletin
from app.store import chats, messages, replies
from app.store.engine import Session
from app.store.messages import StoredMessage
from app.store.tables import Chat, Message, Reply


@dataclass(frozen=True, slots=True)
class Started:
    """A reply that was begun with its input, and the chat's messages that still wait."""

    chat: Chat
    input: StoredMessage
    reply: Reply
    queued: tuple[StoredMessage, ...] = ()


async def start_next(s: Session, chat: Chat, after: MessageId) -> Started | None:
    """Give the oldest waiting message its reply; it follows `after`. None where nothing waits."""
    message = await messages.next_queued(s, ChatId(chat.id))
    return await start(s, chat, message, after) if message is not None else None


async def start(s: Session, chat: Chat, message: Message, after: MessageId | None) -> Started:
    """Take a waiting message out of the queue and give it its reply. Raises Busy where one runs."""
    await messages.unqueue(s, message, after)
    message_id, chat_id = MessageId(message.id), ChatId(chat.id)
    await chats.set_leaf(s, chat, message_id)
    reply = await replies.create(
        s,
        chat=chat_id,
        input=message_id,
        after=message_id,
        run=new_run(),
        model=ModelId(message.model) if message.model else None,
        sampling=message.sampling or {},
    )
    (taken,) = await messages.load(s, [message_id])
    return Started(chat, taken, reply, tuple(await messages.queued(s, chat_id)))


async def waiting(s: Session, message_id: MessageId, user: UserId) -> Message:
    """The person's message, if it still waits. Raises NotFound, NotOpen."""
    message = await messages.owned(s, message_id, user)
    if not message.queued:
        raise NotOpen("This message has been sent already, so it can't be changed any more.")
    return message


def tell(bulletin: Bulletin, user: UserId, chat: str, queued: Sequence[StoredMessage]) -> None:
    """Tell the person's other pages what waits in a chat."""
    shown = [reply_view.of_message(message) for message in queued]
    bulletin.publish(user, "queue", {"chat": chat, "messages": shown})


def tell_started(bulletin: Bulletin, user: UserId, started: Started) -> None:
    """Tell the person's pages that a waiting message has its reply now."""
    tell(bulletin, user, started.chat.id, started.queued)
    reply: dict[str, Any] = {"id": started.reply.id, "chat": started.chat.id, "state": "running"}
    bulletin.publish(user, "reply", reply)
