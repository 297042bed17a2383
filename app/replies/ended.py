"""Ended replies, read back from the store for those who come late: the same interface as a live one."""

from collections.abc import Iterator, Sequence
from dataclasses import fields
from itertools import chain
from typing import cast

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
from app.core.messages import ReasoningPart, StopReason, TextPart, ToolResultPart, ToolUsePart, Usage
from app.core.reply import Ended
from app.core.state import ReplyState, apply
from app.replies.feed import EndedReply, Feed
from app.replies.log import spread
from app.replies.meter import Meter
from app.store import events, messages
from app.store.engine import Session
from app.store.messages import StoredMessage
from app.store.tables import Reply


async def ended_reply(s: Session, reply: Reply, user: UserId) -> EndedReply:
    """The ended `reply` with all its events, folded."""
    reply_id, chat = ReplyId(reply.id), ChatId(reply.chat)
    logged, records = await events.read(s, reply_id)
    entries = list(spread(records)) if records else told(await messages.of_reply(s, reply_id), reply)
    run = logged or RunId(reply.run)
    return EndedReply(
        reply_id, chat, user, run, folded(reply_id, chat, run, entries), Feed(entries, closed=True)
    )


def folded(reply: ReplyId, chat: ChatId, run: RunId, entries: Sequence[Entry]) -> ReplyState:
    """The state that `entries` lead to."""
    state = ReplyState(reply, chat, run)
    for entry in entries:
        apply(state, entry)
    return state


def told(stored: Sequence[StoredMessage], reply: Reply | None = None) -> list[Entry]:
    """The entries of a reply whose log is gone, told from its messages and, with its row, from its end.

    (A restored backup ends the replies that ran in it without a log.)
    """
    round, entries = 0, list[Entry]()
    events = chain(_events(stored), _end(reply) if reply is not None else ())
    for at, event in events:
        round += isinstance(event, RoundBegan)
        entries.append(Entry(len(entries) + 1, at, round, event))
    return entries


def _events(stored: Sequence[StoredMessage]) -> Iterator[tuple[int, Event]]:
    meter = Meter()
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
            if message.usage is not None:
                meter.add(
                    Usage(**{field.name: message.usage[field.name] for field in fields(Usage)}),
                    message.usage["cost"],
                )
                yield message.created, meter.event()
            yield message.created, RoundEnded(cast("StopReason | None", message.stop_reason))


def _end(reply: Reply) -> Iterator[tuple[int, Event]]:
    ended = reply.ended or reply.created
    if reply.usage:
        yield ended, UsageReported(**reply.usage)
    if reply.error:
        yield ended, ErrorRaised(reply.error["text"], reply.error["code"], tuple(reply.error["actions"]))
    yield (
        ended,
        Finished(cast("Ended", reply.phase), cast("StopReason | None", reply.stop_reason), reply.reason),
    )
