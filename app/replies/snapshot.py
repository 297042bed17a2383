"""What a follower of a person is told first: all that is going on, in the words of the changes that come after."""

from collections.abc import Sequence
from typing import Any

from app.core.ids import UserId
from app.replies import reply_view
from app.store import chats, messages
from app.store.engine import Session
from app.store.messages import StoredMessage


async def snapshot(s: Session, user: UserId) -> dict[str, Any]:
    """Running and waiting replies, unread chats, and the queues by chat."""
    lanes = [{"id": reply, "chat": chat, "state": phase} for chat, reply, phase in await chats.lanes(s, user)]
    return {
        "running": [lane for lane in lanes if lane["state"] != "waiting"],
        "waiting": [lane for lane in lanes if lane["state"] == "waiting"],
        "unread": await chats.unread(s, user),
        "queues": _by_chat(await messages.queues(s, user)),
    }


def _by_chat(queued: Sequence[StoredMessage]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for message in queued:
        found.setdefault(message.chat, []).append(reply_view.of_message(message))
    return found
