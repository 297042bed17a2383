"""What can happen during a reply: one frozen class per type (SPEC 16, "Events of a reply").

An event becomes an `Entry` when `Generation.emit` numbers it. `Status` and `ToolProgress` pass by: they are
never numbered nor logged. `data_of` and `event_from` are the JSON form, on the wire and in the log alike.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, get_args

from app.core.errors import Action
from app.core.ids import MessageId, ReplyId
from app.core.messages import Outcome, StopReason
from app.core.reply import Ended


@dataclass(frozen=True, slots=True)
class Started:
    """A model begins to answer; again when a fallback takes over."""

    type: ClassVar[str] = "started"
    model: str
    endpoint: str


@dataclass(frozen=True, slots=True)
class RoundBegan:
    """One model call begins; what it writes will be the assistant message `message`."""

    type: ClassVar[str] = "round"
    message: MessageId


@dataclass(frozen=True, slots=True)
class Status:
    """What the person is waiting for, in a few words; empty when over. Passes by."""

    type: ClassVar[str] = "status"
    text: str


@dataclass(frozen=True, slots=True)
class TextDelta:
    type: ClassVar[str] = "text"
    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    type: ClassVar[str] = "reasoning"
    text: str


@dataclass(frozen=True, slots=True)
class ToolCalled:
    """The model asked for a call; emitted once its arguments are whole. `arguments` is the text as it came."""

    type: ClassVar[str] = "tool_call"
    id: str
    name: str
    input: Mapping[str, Any] | None
    label: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ToolProgress:
    """Live news of a running call. Passes by."""

    type: ClassVar[str] = "tool_progress"
    id: str
    text: str | None = None
    percent: float | None = None
    output: str | None = None


@dataclass(frozen=True, slots=True)
class ToolResulted:
    type: ClassVar[str] = "tool_result"
    id: str
    outcome: Outcome
    text: str
    ms: int


@dataclass(frozen=True, slots=True)
class RoundEnded:
    """A model call is over: why it ended, or None for a stream cut off."""

    type: ClassVar[str] = "round_end"
    stop_reason: StopReason | None


@dataclass(frozen=True, slots=True)
class UsageReported:
    """Running totals of the reply; `context_tokens` is the last round's prompt plus what it wrote."""

    type: ClassVar[str] = "usage"
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    reasoning_tokens: int
    context_tokens: int
    context_limit: int
    estimated: bool
    cost: float | None


@dataclass(frozen=True, slots=True)
class Warned:
    """Something the person should know that does not end the reply. `code` names the kind."""

    type: ClassVar[str] = "warning"
    code: str
    text: str


@dataclass(frozen=True, slots=True)
class ErrorRaised:
    """Why a reply failed or was cut, in the person's words."""

    type: ClassVar[str] = "error"
    text: str
    code: str
    actions: tuple[Action, ...]


@dataclass(frozen=True, slots=True)
class Finished:
    """The one outcome, sent only after it is stored. `next` is the reply that the queue started with it."""

    type: ClassVar[str] = "finished"
    state: Ended
    stop_reason: StopReason | None
    reason: str | None = None
    next: ReplyId | None = None


Event = (
    Started
    | RoundBegan
    | Status
    | TextDelta
    | ReasoningDelta
    | ToolCalled
    | ToolProgress
    | ToolResulted
    | RoundEnded
    | UsageReported
    | Warned
    | ErrorRaised
    | Finished
)

PASSING = (Status, ToolProgress)
TYPES: dict[str, type[Event]] = {kind.type: kind for kind in get_args(Event)}


@dataclass(frozen=True, slots=True)
class Entry:
    """A numbered event. `seq` counts from 1 within a run (0 for a passing event); `ts` is Unix time in ms."""

    seq: int
    ts: int
    round: int
    event: Event

    @property
    def passes(self) -> bool:
        return self.seq == 0


def data_of(event: Event) -> dict[str, Any]:
    """The JSON object of `event`, without its type; fields that are None are left out but for `next` and `input`."""
    data = {field.name: getattr(event, field.name) for field in fields(event)}
    return {name: value for name, value in data.items() if value is not None or name in _ALWAYS}


_ALWAYS = frozenset({"next", "input", "stop_reason", "cost"})


def event_from(type: str, data: Mapping[str, Any]) -> Event:
    """The event that `data_of` gave `data` for. Raises KeyError for an unknown type, TypeError for wrong fields."""
    kind = TYPES[type]
    if kind is ErrorRaised:
        data = {**data, "actions": tuple(data["actions"])}
    return kind(**data)
