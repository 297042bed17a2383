"""Assembles the request of a reply: the system prompt, the history as far as it fits, the situation.

The situation (date, time zone, name) rides on the message that started the turn and is the same for every
round.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from app.core.errors import NotFound
from app.core.ids import MessageId, ModelId, ReplyId
from app.core.messages import (
    FilePart,
    Message,
    Part,
    ReasoningPart,
    TextPart,
    ToolResultPart,
    ToolUsePart,
    user_message,
)
from app.core.text import estimate_tokens
from app.providers.base import Provider, Request
from app.replies.feed import Generation
from app.replies.models import Choice, Models
from app.store import messages, people, replies
from app.store.engine import Database
from app.store.messages import StoredMessage
from app.store.tables import Model, Reply, User

BASE = (
    "You are a helpful assistant in a chat. Answer in the language of the person, plainly and to the point. "
    "Use Markdown where it helps to read. Say so when you do not know something or cannot do it. A message may "
    "begin with a note in square brackets about the date and the person: it comes from the application. Use it "
    "where it matters and do not mention it otherwise."
)

# For models with a window so small that every word of the prompt costs history and seconds.
BRIEF = "You are a helpful assistant. Answer briefly."
SMALL_WINDOW = 4_096

CONTINUE = (
    "Your last answer was cut off. Go on exactly where it ends, without repeating anything "
    "and without a word about the interruption."
)

# Room that is kept for the answer where the model does not say how much it writes: a part of the window.
ANSWER_SHARE = 4
MOST_ANSWER = 8_192


@dataclass(frozen=True, slots=True)
class Opening:
    """What a turn needs of the store: the person, and the branch up to where the reply goes on.

    `kept` is the text that a continuation begins with, `situation` that of an earlier run of the reply.
    """

    user: User | None
    history: Sequence[StoredMessage]
    kept: str = ""
    situation: str | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """Everything that a model call of this reply needs; each round adds its messages with `after`."""

    choice: Choice
    provider: Provider
    messages: tuple[Message, ...]
    system: str
    situation: str
    sampling: Mapping[str, Any] = field(default_factory=dict)
    # The text that a continued reply begins with, and how many of the oldest messages did not fit.
    kept: str = ""
    dropped: int = 0
    # The text of the input where the chat begins with it.
    first_words: str = ""
    # The last round: whatever it calls is not run.
    closing: bool = False

    def request(self) -> Request:
        """The next model call. A text that is continued goes out as the model's own, with a word to go on."""
        added = (_assistant(self.kept), user_message(CONTINUE, by_application=True)) if self.kept else ()
        model = self.choice.model
        return Request(
            model=model.wire_name,
            messages=self.messages + added,
            system=self.system,
            max_output=model.max_output or None,
            sampling=self.sampling,
        )

    def after(self, *said: Message) -> "Turn":
        """The turn of the next round."""
        return replace(self, messages=self.messages + said, kept="")

    def to_close(self) -> "Turn":
        """The same, for a round whose calls are not run."""
        return replace(self, closing=True)

    def sent(self) -> dict[str, Any]:
        """What was sent, small whatever the history: its ends by id, and what is stored nowhere else."""
        ids = [message.id for message in self.messages if message.id is not None]
        return {
            "first": ids[0] if ids else None,
            "last": ids[-1] if ids else None,
            "dropped": self.dropped,
            "system": self.system,
            "situation": self.situation,
            "sampling": dict(self.sampling),
            "continued": bool(self.kept),
        }


class Preparing:
    """Makes the `Turn` of a reply. What it needs of the store is read in one short session."""

    def __init__(self, db: Database, models: Models) -> None:
        self._db = db
        self._models = models

    async def turn(self, generation: Generation, reply: Reply, opening: Opening | None) -> Turn:
        """`opening` is read where it is not known already.

        Raises UnknownModel, StorageFault, and NotFound where the input is gone.
        """
        read = opening or await self._read(generation, reply)
        choice = await self._models.choose(ModelId(reply.model) if reply.model else None)
        provider = await self._models.open(choice)
        small = 0 < choice.model.context_length <= SMALL_WINDOW
        system = BRIEF if small else BASE
        situation = read.situation if read.situation is not None else situation_of(read.user, small)
        told = with_situation(transcript(read.history), MessageId(reply.input), situation)
        fitting = fit(told, room(choice.model, system, read.kept))
        return Turn(
            choice=choice,
            provider=provider,
            messages=fitting,
            system=system,
            situation=situation,
            sampling={**choice.model.sampling, **reply.sampling},
            kept=read.kept,
            dropped=len(told) - len(fitting),
            first_words=read.history[0].text if len(read.history) == 1 else "",
        )

    async def _read(self, generation: Generation, reply: Reply) -> Opening:
        async with self._db.read() as s:
            user = await people.user(s, generation.user)
            last, situation = MessageId(reply.after), None
            if reply.resumed:
                # An earlier run may have finished rounds: it goes on below them, in the same situation.
                before = await replies.requests(s, ReplyId(reply.id))
                situation = before[0].request.get("situation") if before else None
                written = await messages.of_reply(s, ReplyId(reply.id))
                last = written[-1].id if written else last
            kept = ""
            if reply.continues is not None and last == reply.after:
                kept = kept_text(await messages.of_reply(s, ReplyId(reply.continues)), last)
            history = await messages.path_to(s, last)
            if not history:
                raise NotFound("The message to answer was deleted.")
            return Opening(user, history, kept, situation)


def kept_text(written: Sequence[StoredMessage], after: MessageId) -> str:
    """The text that a cut reply shows last: what its continuation begins with."""
    last = written[-1] if written else None
    if last is None or last.role != "assistant" or last.parent != after or not last.text.strip():
        return ""
    return last.text


def goes_on_after(reply: Reply, written: Sequence[StoredMessage]) -> MessageId:
    """What a continuation of `reply` follows: what its cut message followed, else its last message."""
    if not written:
        return MessageId(reply.after)
    last = written[-1]
    if last.role == "assistant" and last.parent is not None:
        return last.parent
    return last.id


def situation_of(user: User | None, small: bool, now: datetime | None = None) -> str:
    """The state block: date, weekday, time and time zone of the person, and their name as a quoted label."""
    preferences: Mapping[str, Any] = (user.preferences or {}) if user is not None else {}
    zone, name = _zone(preferences.get("time_zone"))
    moment = now.astimezone(zone) if now else datetime.now(zone)
    day = DAYS[moment.weekday()]
    if small:
        return f"[{day}, {moment:%Y-%m-%d %H:%M}]"
    label = display_name(preferences.get("display_name"))
    who = f'; the person is called "{label}"' if label else ""
    return f"[It is {day}, {moment:%Y-%m-%d}, {moment:%H:%M}, time zone {name}{who}.]"


# Not strftime's, which speaks the language of the server.
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def _zone(wanted: Any) -> tuple[tzinfo, str]:
    try:
        return ZoneInfo(wanted), str(wanted)
    except (ZoneInfoNotFoundError, ValueError, TypeError, OSError):
        return ZoneInfo("UTC"), "UTC"


def display_name(wanted: Any) -> str:
    """A name as a label: one line, at most 60 characters, without the quotes that would end it."""
    if not isinstance(wanted, str):
        return ""
    flat = " ".join("".join(c if c.isprintable() else " " for c in wanted).replace('"', "'").split())
    return flat.replace("[", "(").replace("]", ")")[:60].strip()


def with_situation(told: Sequence[Message], input: MessageId, situation: str) -> tuple[Message, ...]:
    """`told` with the situation in front of the message that started the turn."""
    return tuple(
        replace(message, parts=(TextPart(situation + "\n"), *message.parts))
        if message.id == input
        else message
        for message in told
    )


def transcript(history: Iterable[StoredMessage]) -> list[Message]:
    """The history as a model may be sent it: nothing empty, each call with its one result."""
    told: list[Message] = []
    open_calls: tuple[ToolUsePart, ...] = ()
    for stored in history:
        message = stored.neutral()
        answered = message if message.role == "tool" else None
        if open_calls:
            id = answered.id if answered is not None else None
            told.append(Message("tool", _results(open_calls, answered), id=id))
        open_calls = () if answered is not None else message.calls
        if answered is None and (sendable := _sendable(message)) is not None:
            told.append(sendable)
    if open_calls:
        told.append(Message("tool", _results(open_calls, None)))
    return told


def _results(calls: tuple[ToolUsePart, ...], message: Message | None) -> tuple[ToolResultPart, ...]:
    """One result for each of `calls`, from `message` as far as it has them."""
    parts = message.parts if message is not None else ()
    given = {part.id: part for part in parts if isinstance(part, ToolResultPart)}
    return tuple(given.get(call.id) or ToolResultPart(call.id, "interrupted", LOST) for call in calls)


LOST = "There is no result of this call."


def _sendable(message: Message) -> Message | None:
    """`message` without what is not sent: thoughts, files, blank text; None where nothing is left."""
    parts = message.parts
    if (
        len(parts) == 1
        and isinstance(first := parts[0], TextPart)
        and first.text
        and not first.text.isspace()
    ):
        return message
    left = tuple(sent for part in parts if (sent := _sendable_part(part)) is not None)
    return replace(message, parts=left) if left else None


def _sendable_part(part: Part) -> Part | None:
    match part:
        case TextPart(text) if not text.strip():
            return None
        case ReasoningPart(opaque=None):
            return None
        case FilePart(type, _, name):
            return TextPart(f"[An attached {type}, {name!r}, which you cannot see.]")
        case _:
            return part


def _assistant(text: str) -> Message:
    return Message("assistant", (TextPart(text),))


def size_of(message: Message) -> int:
    """About how many tokens `message` is in a request; a few are for the marks around it."""
    return 4 + sum(_part_size(part) for part in message.parts)


def _part_size(part: Part) -> int:
    match part:
        case TextPart(text) | ReasoningPart(text) | ToolResultPart(text=text):
            return estimate_tokens(text)
        case ToolUsePart(_, name, arguments):
            return estimate_tokens(name) + estimate_tokens(arguments)
        case FilePart():
            return 0


def size_of_request(request: Request) -> int:
    """About how many tokens `request` is."""
    return estimate_tokens(request.system) + sum(map(size_of, request.messages))


def room(model: Model, system: str, kept: str) -> int:
    """The tokens that the window has for history; 0 where it is not known, which limits nothing."""
    if model.context_length <= 0:
        return 0
    share = min(model.context_length // ANSWER_SHARE, MOST_ANSWER)
    answer = min(model.max_output, share) if model.max_output > 0 else share
    return max(1, model.context_length - answer - estimate_tokens(system) - estimate_tokens(kept))


def fit(told: Sequence[Message], tokens: int) -> tuple[Message, ...]:
    """The newest whole turns of `told` within `tokens` (0: all); the last turn always, however large."""
    starts = [at for at, message in enumerate(told) if message.role == "user"]
    if tokens <= 0 or len(starts) < 2:
        return tuple(told)
    left, first = tokens - sum(map(size_of, told[starts[-1] :])), starts[-1]
    for start in reversed(starts[:-1]):
        left -= sum(map(size_of, told[start:first]))
        if left < 0:
            break
        first = start
    return tuple(told[first:] if first > starts[0] else told)
