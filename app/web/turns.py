"""The turns of a chat as templates draw them: what a person said, a reply in one piece, and what is going on.

Values alone: `transcript.py` reads what they are made of. A reply that runs is drawn from its live state, one
that has ended from its rows, and both in the same words.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from app.core.clock import now_ms
from app.core.errors import Action
from app.core.events import UsageReported
from app.core.ids import ChatId, MessageId, ReplyId
from app.core.reply import LIVE, Phase
from app.core.state import ReplyState, Segment
from app.core.text import estimate_tokens
from app.store.messages import StoredMessage
from app.store.tables import Reply
from app.web import wording
from app.web.segments import SegmentView, segments

# A message longer than this, in characters, is folded until the reader asks for all of it.
LONG = 3_000
# A word of so many letters is set without kerning (static/css/prose.css says why).
DENSE = 1_000


@dataclass(frozen=True, slots=True)
class Versions:
    """Where one turn stands among its siblings. `before` and `after` are messages to branch to."""

    number: int = 1
    total: int = 1
    before: MessageId | None = None
    after: MessageId | None = None

    @classmethod
    def of(cls, id: MessageId | None, siblings: Sequence[MessageId]) -> "Versions":
        """`id` among `siblings`; None stands for a turn that is in no tree yet, behind them all."""
        place = siblings.index(id) if id in siblings else len(siblings)
        after = siblings[place + 1] if place + 1 < len(siblings) else None
        return cls(place + 1, max(len(siblings), place + 1), siblings[place - 1] if place else None, after)


@dataclass(frozen=True, slots=True)
class MessageView:
    """What a person said."""

    id: MessageId
    chat: ChatId
    text: str
    versions: Versions
    kind: Literal["message"] = "message"

    @property
    def long(self) -> bool:
        return len(self.text) > LONG

    @property
    def dense(self) -> bool:
        """Whether a word of it is so long that the browser needs help with it."""
        return self.long and any(len(word) > DENSE for word in self.text.split())

    @classmethod
    def of(cls, message: StoredMessage) -> "MessageView":
        return cls(message.id, message.chat, message.text, Versions.of(message.id, message.siblings))


@dataclass(frozen=True, slots=True)
class End:
    """How a reply ended, where that was not as usual: in words, with a sign, and what helps."""

    mark: str
    offers: tuple[Action, ...] = ()
    sign: str = "info"


@dataclass(frozen=True, slots=True)
class ReplyView:
    """A reply, running or ended. `seq`: the number of the last event it shows, 0 if it is drawn from rows."""

    id: ReplyId
    chat: ChatId
    phase: Phase
    run: str
    seq: int
    model: str
    segments: tuple[SegmentView, ...]
    versions: Versions
    warnings: tuple[str, ...] = ()
    fault: str | None = None
    end: End | None = None
    summary: str = ""
    details: tuple[tuple[str, Any], ...] = ()
    kind: Literal["reply"] = "reply"

    @property
    def busy(self) -> bool:
        return self.phase in LIVE


@dataclass(frozen=True, slots=True)
class StatusView:
    """What is going on. `lit`: text comes. `rate` in tokens a second, `share` of the context in per cent."""

    text: str
    lit: bool
    elapsed_ms: int
    rate: int | None = None
    share: int | None = None


# --- a reply ----------------------------------------------------------------------------------------------


def of_state(state: ReplyState, versions: Versions) -> ReplyView:
    """A reply that runs, from its live state."""
    return ReplyView(
        state.reply,
        state.chat,
        state.phase,
        state.run,
        state.seq,
        state.model,
        tuple(segments(state)),
        versions,
        tuple(warning.text for warning in state.warnings),
    )


def of_rows(
    row: Reply, written: Sequence[StoredMessage], versions: Versions, warnings: Sequence[str] = ()
) -> ReplyView:
    """A reply from what is stored of it: its row, the messages it wrote, and what it warned of."""
    answered = [message for message in written if message.role == "assistant"]
    model = (answered[-1].model_name if answered else None) or ""
    return ReplyView(
        ReplyId(row.id),
        ChatId(row.chat),
        row.phase,  # type: ignore[arg-type]  # the table holds it to the same words
        row.run,
        0,
        model,
        tuple(segments([message.neutral() for message in written])),
        versions,
        tuple(warnings),
        fault=row.error["text"] if row.error else None,
        end=_end_of(row, bool(answered)),
        summary=_summary(model, row),
        details=tuple(_details(model, answered, row)),
    )


def _end_of(row: Reply, wrote: bool) -> End | None:
    if row.error:
        return End("", tuple(row.error.get("actions", ())), "warn")
    go_on: tuple[Action, ...] = ("continue",) if wrote else ("retry",)
    match row.phase:
        case "stopped":
            return End("Stopped.", go_on, "stop")
        case "interrupted":
            text = (
                "Interrupted by a restart. What was written is kept."
                if wrote
                else "Interrupted by a restart."
            )
            return End(text, go_on, "warn")
        case "failed":
            return End("This reply failed.", ("retry",), "warn")
    return _END_MARKS.get(row.stop_reason or "")  # complete, or still running


_END_MARKS: Mapping[str, End] = {
    "max_tokens": End("Cut off: the model has written as much as it may at once.", ("continue",)),
    "refusal": End("The model declined to answer this."),
}


def _summary(model: str, row: Reply) -> str:
    usage, ms = row.usage or {}, _took(row)
    tokens = f"{wording.count(usage['output_tokens'])} tokens" if usage.get("output_tokens") else ""
    return " · ".join(part for part in (model, tokens, wording.duration(ms)) if part)


def _took(row: Reply) -> int | None:
    return row.ended - row.started if row.ended and row.started else None


def _details(model: str, answered: Sequence[StoredMessage], row: Reply) -> Iterator[tuple[str, Any]]:
    """The lines of the details, each a name and what is said."""
    if model:
        yield "Model", model
    if answered and answered[-1].endpoint:
        yield "Endpoint", answered[-1].endpoint
    if row.usage:
        yield from _counts(UsageReported(**row.usage))
    if (ms := _took(row)) is not None:
        yield "Took", wording.duration(ms)
    yield "Asked", wording.moment(row.created)


def _counts(usage: UsageReported) -> Iterator[tuple[str, str]]:
    about = "about " if usage.estimated else ""
    yield "Read", f"{about}{wording.count(usage.input_tokens)} tokens"
    if usage.cache_read_tokens:
        yield "of it cached", f"{wording.count(usage.cache_read_tokens)} tokens"
    yield "Written", f"{about}{wording.count(usage.output_tokens)} tokens"
    if usage.reasoning_tokens:
        yield "of it thinking", f"{wording.count(usage.reasoning_tokens)} tokens"
    if (share := _share(usage)) is not None:
        yield "Context", f"{share} % of {wording.size(usage.context_limit)}"
    if usage.cost is not None:
        yield "Cost", wording.money(usage.cost)


# --- what is going on -------------------------------------------------------------------------------------


def status_of(state: ReplyState, now: int | None = None) -> StatusView | None:
    """The status line of a reply in `state`; None once it has ended. `now` in ms."""
    if state.phase not in LIVE:
        return None
    now = now_ms() if now is None else now
    text, lit = _doing(state)
    elapsed = max(0, now - (state.began or now))
    return StatusView(text, lit, elapsed, _rate(state, now), _share(state.usage))


def _doing(state: ReplyState) -> tuple[str, bool]:
    if state.passing.status:
        return state.passing.status, False
    current = state.round
    last = current.segments[-1] if current and current.segments else None
    if isinstance(last, Segment):
        return ("Writing" if last.kind == "text" else "Thinking"), True
    return ("Waiting for the model" if current else "Preparing"), False


def _rate(state: ReplyState, now: int) -> int | None:
    """Tokens a second of the round that is being written, by length; None in its first moment."""
    current = state.round
    pieces = [piece for piece in current.segments if isinstance(piece, Segment)] if current else []
    if not pieces or (spent := now - pieces[0].began) < 500:
        return None
    return round(sum(estimate_tokens(piece.text) for piece in pieces) * 1000 / spent)


def _share(usage: UsageReported | None) -> int | None:
    if usage is None or usage.context_limit <= 0:
        return None
    return min(100, round(usage.context_tokens * 100 / usage.context_limit))
