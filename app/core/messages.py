"""The neutral transcript: messages and their typed parts, as every provider adapter and page reads them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from app.core.ids import FileId, MessageId

Role = Literal["user", "assistant", "tool"]
StopReason = Literal["end_turn", "tool_use", "max_tokens", "refusal", "error"]
Outcome = Literal["ok", "hint", "error", "denied", "expired", "stopped", "not_run", "interrupted"]


@dataclass(frozen=True, slots=True)
class TextPart:
    text: str


@dataclass(frozen=True, slots=True)
class ReasoningPart:
    """What the model thought. `opaque` is provider data (signed blocks) that is only ever sent back as it came."""

    text: str
    ms: int = 0
    opaque: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class ToolUsePart:
    """A call that the model asked for. `arguments` is the text as it came and is sent back byte for byte;
    `input` is what it parsed to, or None where it is not a JSON object."""

    id: str
    name: str
    arguments: str
    input: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class ToolResultPart:
    """The one result of a call, rendered for the model. `id` is the call's."""

    id: str
    outcome: Outcome
    text: str
    ms: int = 0


@dataclass(frozen=True, slots=True)
class FilePart:
    """An attached file: an image for models with vision, else a document."""

    type: Literal["image", "document"]
    file: FileId
    name: str = ""


Part = TextPart | ReasoningPart | ToolUsePart | ToolResultPart | FilePart


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one model call, as the endpoint counts them; `estimated` when we had to.

    `input_tokens` includes cached ones; `output_tokens` includes reasoning.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    estimated: bool = False

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            self.estimated or other.estimated,
        )


@dataclass(frozen=True, slots=True)
class Message:
    """One speaker's turn. An assistant message is exactly one model call, a tool message one round's results.

    `by_application` marks a user turn that Nightdesk itself added (a nudge, a closing, a continuation).
    """

    role: Role
    parts: tuple[Part, ...]
    id: MessageId | None = None
    by_application: bool = False

    @property
    def text(self) -> str:
        """The visible text alone, its parts joined with nothing between."""
        return "".join(part.text for part in self.parts if isinstance(part, TextPart))

    @property
    def reasoning(self) -> str:
        return "".join(part.text for part in self.parts if isinstance(part, ReasoningPart))

    @property
    def calls(self) -> tuple[ToolUsePart, ...]:
        return tuple(part for part in self.parts if isinstance(part, ToolUsePart))


def user_message(text: str, *, by_application: bool = False) -> Message:
    """A user turn of one text part."""
    return Message("user", (TextPart(text),), by_application=by_application)
