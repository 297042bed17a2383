"""Parts of messages: the typed values of `core.messages` as rows, and back."""

from collections.abc import Iterable, Sequence
from typing import Any, cast

from sqlalchemy import Table, insert, select

from app.core.ids import FileId, MessageId
from app.core.messages import FilePart, Outcome, Part, ReasoningPart, TextPart, ToolResultPart, ToolUsePart
from app.core.text import storable
from app.store import rows
from app.store.engine import Session
from app.store.prepared import Prepared, Step
from app.store.tables import Part as PartRow

_TABLE = cast(Table, PartRow.__table__)
_INSERT = Prepared(insert(_TABLE))
_CONTENT = [column for column in _TABLE.columns if column.key not in ("message", "place")]
_OF = Prepared(
    select(_TABLE.c.message, *_CONTENT)
    .where(_TABLE.c.message.in_(rows.EACH))
    .order_by(_TABLE.c.message, _TABLE.c.place)
)
_EMPTY: dict[str, Any] = {column.key: None for column in _TABLE.columns}


def step(message_id: MessageId, parts: Iterable[Part]) -> Step:
    """What stores the parts of a message in their order, for `prepared.together`."""
    values = [
        {**_EMPTY, "message": message_id, "place": place, **_values(part)} for place, part in enumerate(parts)
    ]
    return _INSERT.step(*values)


async def of(s: Session, message_ids: Sequence[str]) -> dict[MessageId, list[Part]]:
    """The parts of these messages, each in order; a message without any is left out."""
    found: dict[MessageId, list[Part]] = {}
    if message_ids:
        for message, *content in await _OF.rows(s, ids=rows.each(message_ids)):
            found.setdefault(message, []).append(_part(*content))
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


def _part(
    type: str,
    text: str,
    call: str,
    name: str | None,
    arguments: str,
    input: dict[str, Any] | None,
    outcome: Outcome,
    ms: int | None,
    file: str,
    opaque: dict[str, Any] | None,
) -> Part:
    match type:
        case "text":
            return TextPart(text)
        case "reasoning":
            return ReasoningPart(text, ms or 0, opaque)
        case "tool_use":
            return ToolUsePart(call, name or "", arguments, input)
        case "tool_result":
            return ToolResultPart(call, outcome, text, ms or 0)
        case "image" | "document":
            return FilePart(type, FileId(file), name or "")
    raise ValueError(f"a part of the unknown type {type!r}")
