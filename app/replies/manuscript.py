"""A reply being written: what is open, and what is written but not stored yet."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from app.core.clock import now_ms
from app.core.events import ErrorRaised, RoundEnded, ToolResulted
from app.core.ids import MessageId, new_id
from app.core.messages import Message, Outcome, ReasoningPart, StopReason, ToolResultPart, Usage
from app.core.reply import Ended
from app.core.state import Round, assistant_message
from app.replies.feed import Generation
from app.replies.log import ReplyLog
from app.replies.meter import Meter, cost_of
from app.store.tables import Model, Reply


@dataclass(frozen=True, slots=True)
class Ending:
    """How a reply ends. `results` is what becomes of calls that have no result yet."""

    state: Ended
    stop_reason: StopReason | None = None
    reason: str | None = None
    error: ErrorRaised | None = None
    results: Outcome = "interrupted"


@dataclass(frozen=True, slots=True)
class Speaker:
    """Who answers a model call, as messages and the ledger name it. `model` is None where it is gone."""

    model: Model | None
    model_name: str
    endpoint: str
    api: str


@dataclass(slots=True)
class ModelCall:
    """One model call under way; `sent` is its row of "what was sent".

    `asked`: the request went out and was not turned down. `shown`: the model's own words have reached
    followers. `opaque`: provider data that belongs to the reasoning, to be stored with it.
    """

    speaker: Speaker
    message: MessageId
    sent: dict[str, Any] = field(default_factory=dict)
    tools_offered: tuple[str, ...] = ()
    asked: bool = False
    shown: bool = False
    opaque: list[Mapping[str, Any]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Page:
    """What one step leaves to be stored: a message (none where nothing was shown) and its rows."""

    message: Message | None
    fields: Mapping[str, Any] = field(default_factory=dict)
    usage: Mapping[str, Any] | None = None
    # What was sent, under the id of the message that it gave.
    call: MessageId | None = None
    sent: dict[str, Any] = field(default_factory=dict)


class Manuscript:
    """A reply being written: its row, its live state, its counts, and the pages that are not stored yet."""

    def __init__(
        self, reply: Reply, generation: Generation, log: ReplyLog, meter: Meter | None = None
    ) -> None:
        self.reply, self.generation, self.log = reply, generation, log
        self.meter = meter or Meter()
        self.call: ModelCall | None = None
        # Who answers, between calls as well; None until that is settled.
        self.model: Model | None = None
        # What the chat began with, if this reply answers that: its title is made of it.
        self.first_words = ""
        self.pages: list[Page] = []
        # The last stored message of this reply's branch: what the next one follows.
        self.last = MessageId(reply.after)
        self.storing = asyncio.Lock()

    def end_call(self, stop_reason: StopReason | None) -> Message | None:
        """Close the current model call: tell what it used and that it is over, and put its page aside.

        Gives the message of the call, None where nothing was shown.
        """
        call, self.call = self.call, None
        generation, round = self.generation, self.generation.state.round
        if call is None or round is None or round.ended:
            return None
        # A call that was turned down before it said anything has used nothing.
        costs = call.shown or call.asked
        usage = self.meter.end(whole=stop_reason is not None) if costs else self.meter.drop()
        told = self.meter.event()
        if told != generation.state.usage:
            generation.append(generation.entry(told))
        generation.append(generation.entry(RoundEnded(stop_reason)))
        return self.put_call(call, round, usage)

    def put_call(self, call: ModelCall, round: Round, usage: Usage) -> Message | None:
        """Put the page of a call that is over aside: its message, if anything was shown, and its rows."""
        message = _with_opaque(assistant_message(round), call.opaque) if round.shown else None
        if message is not None or call.asked:
            self.pages.append(self._page(call, message, round.stop_reason, usage))
        return message

    def answer_calls(self, outcome: Outcome, text: str) -> Message:
        """Give every call of the round that has no result this one, then put the tool message aside."""
        generation, round = self.generation, self.generation.state.rounds[-1]
        for call in round.calls:
            if call.result is None:
                generation.append(generation.entry(ToolResulted(call.called.id, outcome, text, 0)))
        return self.put_results(round)

    def put_results(self, round: Round) -> Message:
        """Put the tool message of a round aside."""
        results = [call.result for call in round.calls if call.result is not None]
        parts = tuple(ToolResultPart(r.id, r.outcome, r.text, r.ms) for r in results)
        message = Message("tool", parts, id=MessageId(new_id()))
        self.pages.append(Page(message))
        return message

    def _page(self, call: ModelCall, message: Message | None, stop: StopReason | None, usage: Usage) -> Page:
        speaker = call.speaker
        counts = {each.name: getattr(usage, each.name) for each in fields(Usage)}
        counts["cost"] = cost_of(speaker.model, usage)
        said = {
            "model": speaker.model.id if speaker.model else None,
            "model_name": speaker.model_name,
            "endpoint": speaker.endpoint,
            "api": speaker.api,
            "stop_reason": stop,
            "usage": counts,
            "tools_offered": {"names": list(call.tools_offered)} if call.tools_offered else None,
        }
        row = counts | {
            "at": now_ms(),
            "user": self.generation.user,
            "chat": self.generation.chat,
            "reply": self.generation.reply,
            "role": "chat",
            "model": speaker.model.id if speaker.model else "",
            "model_name": speaker.model_name,
            "endpoint": speaker.endpoint,
        }
        return Page(message, said, row if call.shown or call.asked else None, call.message, call.sent)


def _with_opaque(message: Message, opaque: Sequence[Mapping[str, Any]]) -> Message:
    """`message` with provider data on its thoughts, in the order in which both came."""
    left = iter(opaque)
    parts = tuple(
        replace(part, opaque=next(left, None)) if isinstance(part, ReasoningPart) else part
        for part in message.parts
    )
    return replace(message, parts=parts) if opaque else message
