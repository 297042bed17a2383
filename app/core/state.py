"""The one place where a reply's state changes: `apply(state, entry)`.

Deterministic, no I/O, O(1) per event: text is kept as lists of deltas and joined only when somebody reads it.
The page, the API, a late follower, a restart and the tests all fold the same entries with it.
"""

from dataclasses import dataclass, field
from typing import Literal

from app.core.events import (
    Entry,
    ErrorRaised,
    Finished,
    ReasoningDelta,
    RoundBegan,
    RoundEnded,
    Started,
    Status,
    TextDelta,
    ToolCalled,
    ToolProgress,
    ToolResulted,
    UsageReported,
    Warned,
)
from app.core.ids import ChatId, MessageId, ReplyId, RunId
from app.core.messages import (
    Message,
    Part,
    ReasoningPart,
    StopReason,
    TextPart,
    ToolResultPart,
    ToolUsePart,
)
from app.core.reply import Phase


@dataclass(slots=True)
class Segment:
    """A run of text or of reasoning. `began` and `ended` are Unix times in ms; `ended` is None while it is open."""

    kind: Literal["text", "reasoning"]
    began: int
    deltas: list[str] = field(default_factory=list)
    ended: int | None = None

    @property
    def text(self) -> str:
        if len(self.deltas) > 1:
            self.deltas[:] = ["".join(self.deltas)]
        return self.deltas[0] if self.deltas else ""


@dataclass(slots=True)
class Call:
    """One tool call; `result` is None until it has its outcome."""

    called: ToolCalled
    began: int
    result: ToolResulted | None = None


@dataclass(slots=True)
class Round:
    """One model call and the tool calls it asked for, in the order they came."""

    number: int
    message: MessageId
    began: int
    segments: list[Segment | Call] = field(default_factory=list)
    ended: bool = False
    stop_reason: StopReason | None = None

    @property
    def calls(self) -> list[Call]:
        return [segment for segment in self.segments if isinstance(segment, Call)]

    @property
    def shown(self) -> bool:
        """Whether anything of this round has reached a follower."""
        return bool(self.segments)


@dataclass(slots=True)
class Passing:
    """What passes by: never logged, and left out when two states are compared."""

    status: str = ""
    progress: dict[str, ToolProgress] = field(default_factory=dict)


@dataclass(slots=True)
class ReplyState:
    """Everything a follower can know of a reply; the fold of its entries."""

    reply: ReplyId
    chat: ChatId
    run: RunId
    phase: Phase = "running"
    seq: int = 0
    began: int | None = None
    model: str = ""
    endpoint: str = ""
    rounds: list[Round] = field(default_factory=list)
    usage: UsageReported | None = None
    warnings: list[Warned] = field(default_factory=list)
    error: ErrorRaised | None = None
    finished: Finished | None = None
    passing: Passing = field(default_factory=Passing, compare=False)

    @property
    def text(self) -> str:
        """The visible text of all rounds, joined with nothing between."""
        return "".join(
            s.text for r in self.rounds for s in r.segments if isinstance(s, Segment) and s.kind == "text"
        )

    @property
    def reasoning(self) -> str:
        return "".join(
            s.text
            for r in self.rounds
            for s in r.segments
            if isinstance(s, Segment) and s.kind == "reasoning"
        )

    @property
    def round(self) -> Round | None:
        """The current round."""
        return self.rounds[-1] if self.rounds else None


def apply(state: ReplyState, entry: Entry) -> None:
    """Fold `entry` into `state`."""
    event = entry.event
    if not entry.passes:
        state.seq = entry.seq
    match event:
        case TextDelta(text):
            _extend(state, "text", text, entry.ts)
        case ReasoningDelta(text):
            _extend(state, "reasoning", text, entry.ts)
        case Status(text):
            state.passing.status = text
        case ToolProgress():
            state.passing.progress[event.id] = event
        case Started():
            state.model, state.endpoint = event.model, event.endpoint
            state.began = state.began or entry.ts
        case RoundBegan():
            state.rounds.append(Round(entry.round, event.message, entry.ts))
        case ToolCalled():
            _close_segment(state, entry.ts)
            state.rounds[-1].segments.append(Call(event, entry.ts))
        case ToolResulted():
            _call(state, event.id).result = event
            state.passing.progress.pop(event.id, None)
        case RoundEnded():
            _close_segment(state, entry.ts)
            state.rounds[-1].ended, state.rounds[-1].stop_reason = True, event.stop_reason
        case UsageReported():
            state.usage = event
        case Warned():
            state.warnings.append(event)
        case ErrorRaised():
            state.error = event
        case Finished():
            if state.rounds:
                _close_segment(state, entry.ts)
            state.finished, state.phase, state.passing = event, event.state, Passing()


def messages_of(state: ReplyState) -> list[Message]:
    """The assistant and tool messages of the reply so far, in the shape in which they are stored.

    A round in which nothing was shown gives none, a call without a result none of a tool message.
    """
    found: list[Message] = []
    for round in state.rounds:
        if round.segments:
            found.append(assistant_message(round))
        results = tuple(_result(call.result) for call in round.calls if call.result)
        if results:
            found.append(Message("tool", results))
    return found


def assistant_message(round: Round) -> Message:
    """What the model wrote in `round`, as one message."""
    return Message("assistant", tuple(_part(segment) for segment in round.segments), id=round.message)


def _part(segment: Segment | Call) -> Part:
    if isinstance(segment, Call):
        called = segment.called
        return ToolUsePart(called.id, called.name, called.arguments, called.input)
    if segment.kind == "text":
        return TextPart(segment.text)
    return ReasoningPart(segment.text, (segment.ended or segment.began) - segment.began)


def _result(result: ToolResulted) -> ToolResultPart:
    return ToolResultPart(result.id, result.outcome, result.text, result.ms)


def _extend(state: ReplyState, kind: Literal["text", "reasoning"], text: str, ts: int) -> None:
    segments = state.rounds[-1].segments
    last = segments[-1] if segments else None
    if not isinstance(last, Segment) or last.kind != kind:
        _close_segment(state, ts)
        last = Segment(kind, ts)
        segments.append(last)
    last.deltas.append(text)


def _close_segment(state: ReplyState, ts: int) -> None:
    segments = state.rounds[-1].segments
    if segments and isinstance(last := segments[-1], Segment) and last.ended is None:
        last.ended = ts


def _call(state: ReplyState, id: str) -> Call:
    for call in reversed(state.rounds[-1].calls):
        if call.called.id == id:
            return call
    raise KeyError(id)
