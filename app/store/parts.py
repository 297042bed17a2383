"""Parts of messages: the typed values of `core.messages` as rows, and back."""

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import insert, select

from app.core.ids import FileId, MessageId
from app.core.messages import FilePart, Part, ReasoningPart, TextPart, ToolResultPart, ToolUsePart
from app.core.text import storable
from app.store import rows
from app.store.engine import Session
from app.store.tables import Part as PartRow

_TABLE = PartRow.__table__
_EMPTY: dict[str, Any] = {column.key: None for column in _TABLE.columns}


async def write(s: Session, message_id: MessageId, parts: Iterable[Part]) -> None:
    """Store the parts of a message in their order, one statement for all."""
    values = [
        {**_EMPTY, "message": message_id, "place": place, **_values(part)} for place, part in enumerate(parts)
    ]
    if values:
        await s.execute(insert(_TABLE), values)  # type: ignore[arg-type]


async def of(s: Session, message_ids: Sequence[str]) -> dict[MessageId, list[Part]]:
    """The parts of these messages, each in order; a message without any is left out."""
    found: dict[MessageId, list[Part]] = {}
    if message_ids:
        query = (
            select(_TABLE).where(_TABLE.c.message.in_(rows.each(message_ids))).order_by("message", "place")
        )
        for row in (await s.execute(query)).all():
            found.setdefault(MessageId(row.message), []).append(_part(row))
    return found


def _values(part: Part) -> dict[str, Any]:
    match part:
        case TextPart(text):
            return {"type": "text", "text": storable(text)}
        case ReasoningPart(text, ms, opaque):
            return {"type": "reasoning", "text": storable(text), "ms": ms, "opaque": _plain(opaque)}
        case ToolUsePart(id, name, arguments, input):
            call = {"call": storable(id), "name": storable(name), "arguments": storable(arguments)}
            return {"type": "tool_use", **call, "input": _plain(input)}
        case ToolResultPart(id, outcome, text, ms):
            return {
                "type": "tool_result",
                "call": storable(id),
                "outcome": outcome,
                "text": storable(text),
                "ms": ms,
            }
        case FilePart(type, file, name):
            return {"type": type, "file": file, "name": storable(name)}


def _plain(value: Any) -> dict[str, Any] | None:
    return None if value is None else dict(value)


def _part(row: Any) -> Part:
    match row.type:
        case "text":
            return TextPart(row.text)
        case "reasoning":
            return ReasoningPart(row.text, row.ms or 0, row.opaque)
        case "tool_use":
            return ToolUsePart(row.call, row.name, row.arguments, row.input)
        case "tool_result":
            return ToolResultPart(row.call, row.outcome, row.text, row.ms or 0)
        case "image" | "document":
            return FilePart(row.type, FileId(row.file), row.name or "")
    raise ValueError(f"a part of the unknown type {row.type!r} in message {row.message}")
