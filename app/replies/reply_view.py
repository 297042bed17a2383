"""The JSON of a reply, a message and a chat: shared by the API, its `state` events and pages."""

from collections.abc import Mapping, Sequence
from typing import Any

from app.core.clock import rfc3339
from app.core.events import data_of
from app.core.ids import MessageId
from app.core.messages import (
    FilePart,
    Message,
    Part,
    ReasoningPart,
    TextPart,
    ToolResultPart,
    ToolUsePart,
)
from app.core.state import ReplyState, Round, messages_of
from app.store.chats import ChatRow
from app.store.messages import StoredMessage
from app.store.tables import Chat, Reply


def view(state: ReplyState, stored: Sequence[StoredMessage] = (), row: Reply | None = None) -> dict[str, Any]:
    """A reply: `state` is its fold; messages that are stored already are shown as they stand, if given.

    `row` adds what only the database knows: the input and the times.
    """
    shown: dict[str, Any] = {
        "id": state.reply,
        "chat": state.chat,
        "state": state.phase,
        "text": state.text,
        "reasoning": state.reasoning,
        "messages": _messages(state, stored),
        "usage": data_of(state.usage) if state.usage else None,
        "model": state.model or None,
        "endpoint": state.endpoint or None,
        "status": state.passing.status,
        "warnings": [data_of(warning) for warning in state.warnings],
    }
    if state.error is not None:
        shown["error"] = data_of(state.error)
    if state.finished is not None:
        shown |= data_of(state.finished) | {"state": state.finished.state}
    return shown | (_of_row(row) if row is not None else {})


def of_row(row: Reply, stored: Sequence[StoredMessage] = ()) -> dict[str, Any]:
    """A reply by its row and messages alone, for lists and for replies that have no live state."""
    texts = [message.neutral() for message in stored if message.role == "assistant"]
    shown: dict[str, Any] = {
        "id": row.id,
        "chat": row.chat,
        "state": row.phase,
        "text": "".join(message.text for message in texts),
        "reasoning": "".join(message.reasoning for message in texts),
        "messages": [of_message(message) for message in stored],
        "usage": row.usage,
        "model": next((message.model_name for message in reversed(stored) if message.model_name), None),
        "stop_reason": row.stop_reason,
    }
    if row.error is not None:
        shown["error"] = row.error
    return shown | _of_row(row)


def of_message(message: StoredMessage) -> dict[str, Any]:
    """A stored message."""
    shown: dict[str, Any] = {
        "id": message.id,
        "role": message.role,
        "created": rfc3339(message.created),
        "position": message.position,
        "reply": message.reply,
        "parent": message.parent,
        "siblings": list(message.siblings),
        "queued": message.queued,
        "parts": [of_part(part) for part in message.parts],
    }
    if message.role == "assistant":
        shown |= {
            "model": message.model_name,
            "endpoint": message.endpoint,
            "stop_reason": message.stop_reason,
            "usage": message.usage,
        }
    return shown


def of_part(part: Part) -> dict[str, Any]:
    """A part of a message. Provider data never leaves the server."""
    match part:
        case TextPart(text):
            return {"type": "text", "text": text}
        case ReasoningPart(text, ms):
            return {"type": "reasoning", "text": text, "ms": ms}
        case ToolUsePart(id, name, _, input):
            return {"type": "tool_use", "id": id, "name": name, "input": _plain(input)}
        case ToolResultPart(id, outcome, text, ms):
            return {"type": "tool_result", "id": id, "outcome": outcome, "text": text, "ms": ms}
        case FilePart(type, file, name):
            return {"type": type, "file": file, "name": name}


def of_chat(
    chat: Chat | ChatRow, *, running_reply: str | None = None, waiting: bool | None = None
) -> dict[str, Any]:
    """A chat, without its messages."""
    shown: dict[str, Any] = {
        "id": chat.id,
        "kind": chat.kind,
        "title": chat.title,
        "folder": chat.folder,
        "pinned": chat.pinned,
        "archived": chat.archived,
        "unread": chat.unread,
        "active": rfc3339(chat.active),
        "running_reply": chat.running_reply if isinstance(chat, ChatRow) else running_reply,
        "waiting": chat.waiting if isinstance(chat, ChatRow) else bool(waiting),
    }
    if isinstance(chat, Chat):
        shown |= {
            "created": rfc3339(chat.created),
            "model": chat.model,
            "temporary": chat.temporary,
            "leaf": chat.leaf,
        }
    return shown


def _of_row(row: Reply) -> dict[str, Any]:
    return {
        "input": row.input,
        "continues": row.continues,
        "created": rfc3339(row.created),
        "started": rfc3339(row.started) if row.started else None,
        "ended": rfc3339(row.ended) if row.ended else None,
    }


def _messages(state: ReplyState, stored: Sequence[StoredMessage]) -> list[dict[str, Any]]:
    """The reply's messages: those that are stored, then what the live state has beyond them."""
    known = [of_message(message) for message in stored]
    live = messages_of(state)
    rounds = {round.message: round for round in state.rounds}
    return known + [_live(state, message, rounds) for message in live[len(known) :]]


def _live(state: ReplyState, message: Message, rounds: Mapping[MessageId, Round]) -> dict[str, Any]:
    round = rounds.get(message.id) if message.id is not None else None
    shown: dict[str, Any] = {
        "id": message.id,
        "role": message.role,
        "created": rfc3339(round.began if round else state.began or 0),
        "position": None,
        "reply": state.reply,
        "parent": None,
        "siblings": [message.id] if message.id is not None else [],
        "queued": False,
        "parts": [of_part(part) for part in message.parts],
    }
    if message.role == "assistant":
        stop = round.stop_reason if round else None
        shown |= {"model": state.model or None, "endpoint": state.endpoint or None, "stop_reason": stop}
    return shown


def _plain(value: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if value is None else dict(value)
