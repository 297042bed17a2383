"""Ended replies, read back from the store for those who come late: the same interface as a live one."""

from collections.abc import Iterator, Sequence

from app.core.events import (
    Entry,
    ErrorRaised,
    Event,
    Finished,
    ReasoningDelta,
    RoundBegan,
    RoundEnded,
    Started,
    TextDelta,
    ToolCalled,
    ToolResulted,
    UsageReported,
)
from app.core.ids import ChatId, MessageId, ReplyId, RunId, UserId
from app.core.messages import ReasoningPart, TextPart, ToolResultPart, ToolUsePart
from app.core.state import ReplyState, apply
from app.replies.feed import EndedReply, Feed
from app.replies.log import spread
from app.store import events, messages
from app.store.engine import Session
from app.store.messages import StoredMessage
from app.store.tables import Reply


async def ended_reply(s: Session, reply: Reply, user: UserId) -> EndedReply:
    """The ended `reply` with all its events, folded."""
    reply_id, chat = ReplyId(reply.id), ChatId(reply.chat)
    run, records = await events.read(s, reply_id)
    if records:
        entries = list(spread(records))
    else:
        run, entries = RunId(reply.run), _told(reply, await messages.of_reply(s, reply_id))
    return EndedReply(
        reply_id, chat, user, run, folded(reply_id, chat, run, entries), Feed(entries, closed=True)
    )


def folded(reply: ReplyId, chat: ChatId, run: RunId, entries: Sequence[Entry]) -> ReplyState:
    """The state that `entries` lead to."""
    state = ReplyState(reply, chat, run)
    for entry in entries:
        apply(state, entry)
    return state


def _told(reply: Reply, stored: Sequence[StoredMessage]) -> list[Entry]:
    """A reply without events (a restored backup ends those that ran in it): told from its messages."""
    round, entries = 0, list[Entry]()
    for at, event in _events(reply, stored):
        round += isinstance(event, RoundBegan)
        entries.append(Entry(len(entries) + 1, at, round, event))
    return entries


def _events(reply: Reply, stored: Sequence[StoredMessage]) -> Iterator[tuple[int, Event]]:
    for message in stored:
        if message.role == "assistant":
            yield message.created, Started(message.model_name or "", message.endpoint or "")
            yield message.created, RoundBegan(MessageId(message.id))
        for part in message.parts:
            match part:
                case TextPart(text):
                    yield message.created, TextDelta(text)
                case ReasoningPart(text):
                    yield message.created, ReasoningDelta(text)
                case ToolUsePart():
                    called = ToolCalled(part.id, part.name, part.input, part.name, part.arguments)
                    yield message.created, called
                case ToolResultPart():
                    yield message.created, ToolResulted(part.id, part.outcome, part.text, part.ms)
        if message.role == "assistant":
            yield message.created, RoundEnded(message.stop_reason)
    ended = reply.ended or reply.created
    if reply.usage:
        yield ended, UsageReported(**reply.usage)
    if reply.error:
        yield ended, ErrorRaised(reply.error["text"], reply.error["code"], tuple(reply.error["actions"]))
    yield ended, Finished(reply.phase, reply.stop_reason, reply.reason)  # type: ignore[arg-type]
