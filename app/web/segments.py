"""The pieces of a reply as templates draw them: runs of text and of reasoning, and tool calls."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from markupsafe import Markup

from app.core.messages import (
    Message,
    Outcome,
    ReasoningPart,
    TextPart,
    ToolResultPart,
    ToolUsePart,
)
from app.core.state import ReplyState
from app.web.draft import Calling, Writing, draft_of
from app.web.markdown import render

NOTHING = Markup("")


@dataclass(frozen=True, slots=True)
class SegmentView:
    """One piece of a reply as `replies/_segment.html` draws it.

    `html` is everything written so far, in its place: what is settled and the block that is still open. Both stand
    side by side in `.blocks`; `marks` are that element's attributes, which tell a script where the open block begins
    (empty once the segment is complete). `ms` is how long the reasoning or the call took; `last` the last line of
    open reasoning.
    """

    id: str
    kind: Literal["text", "reasoning", "call"]
    html: Markup = NOTHING
    marks: Markup = NOTHING
    open: bool = False
    ms: int | None = None
    last: str = ""
    name: str = ""
    label: str = ""
    arguments: str = ""
    outcome: Outcome | None = None
    text: str = ""
    progress: str = ""


def segments(source: ReplyState | Sequence[Message]) -> list[SegmentView]:
    """The segments of a reply: of its live state, or of the messages that it wrote."""
    if isinstance(source, ReplyState):
        return [view_of(segment) for segment in draft_of(source).segments]
    results = {
        part.id: part for message in source for part in message.parts if isinstance(part, ToolResultPart)
    }
    return [
        view
        for message in source
        if message.role == "assistant"
        for index, part in enumerate(message.parts)
        if (view := _stored(f"s-{message.id}-{index}", part, results)) is not None
    ]


def view_of(segment: Writing | Calling) -> SegmentView:
    """A segment of a running reply as it is now."""
    if isinstance(segment, Calling):
        return _called(segment)
    splitter = segment.splitter
    if segment.closed:
        return SegmentView(segment.id, segment.kind, Markup(splitter.html()), ms=segment.ms)
    last = segment.last_line() if segment.kind == "reasoning" else ""
    return SegmentView(
        segment.id, segment.kind, Markup(splitter.html()), _marks(segment), open=True, last=last
    )


def _marks(segment: Writing) -> Markup:
    splitter = segment.splitter
    parts = "" if splitter.parts is None else f' data-parts="{splitter.parts}"'
    return Markup(f' data-settled="{len(splitter.blocks)}"{parts}')


def _called(segment: Calling) -> SegmentView:
    called, result, progress = segment.call.called, segment.call.result, segment.progress
    return SegmentView(
        segment.id,
        "call",
        ms=result.ms if result else None,
        name=called.name,
        label=called.label,
        arguments=called.arguments,
        outcome=result.outcome if result else None,
        text=result.text if result else "",
        progress=(progress.text or progress.output or "") if progress else "",
    )


def _stored(id: str, part: object, results: Mapping[str, ToolResultPart]) -> SegmentView | None:
    match part:
        case TextPart(text):
            return SegmentView(id, "text", render(text))
        case ReasoningPart(text, ms):
            return SegmentView(id, "reasoning", render(text), ms=ms)
        case ToolUsePart(call, name, arguments):
            result = results.get(call)
            return SegmentView(
                f"call-{call}",
                "call",
                ms=result.ms if result else None,
                name=name,
                label=name,
                arguments=arguments,
                outcome=result.outcome if result else "interrupted",
                text=result.text if result else "",
            )
    return None
