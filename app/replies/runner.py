"""The loop: ask the model, answer what it calls, ask again, until it calls nothing."""

import asyncio
import logging
import random
from collections.abc import AsyncGenerator
from contextlib import aclosing
from itertools import count
from types import TracebackType
from typing import cast

from app.core.errors import BrokenStream, Overloaded, ProviderError, RateLimited
from app.core.events import ReasoningDelta, RoundBegan, Started, Status, TextDelta, ToolCalled, Warned
from app.core.ids import MessageId, new_id
from app.core.messages import Message, StopReason
from app.core.text import storable
from app.providers.base import (
    CallSeen,
    Done,
    ProviderEvent,
    ReasoningSeen,
    Request,
    Starting,
    TextSeen,
    UsageSeen,
)
from app.replies import toolstep
from app.replies.feed import Generation
from app.replies.finish import Finish
from app.replies.manuscript import Ending, Manuscript, ModelCall, Speaker
from app.replies.prepare import Opening, Preparing, Turn, size_of_request
from app.replies.settings import ReplySettings

logger = logging.getLogger(__name__)


class Runner:
    """Writes replies. It raises what goes wrong; the registry turns that into an outcome."""

    def __init__(self, preparing: Preparing, finish: Finish, settings: ReplySettings) -> None:
        self._preparing = preparing
        self._finish = finish
        self._settings = settings

    async def run(self, manuscript: Manuscript, opening: Opening | None) -> Ending:
        """From the start of a reply, or from where an earlier run of it left off, to its ending."""
        generation = manuscript.generation
        with Wait(generation, "Preparing", self._settings.status_after):
            turn = await self._preparing.turn(generation, manuscript.reply, opening)
        manuscript.first_words, manuscript.model = turn.first_words, turn.choice.model
        begin(generation, turn)
        while True:
            said, stop_reason = await self._ask(manuscript, turn)
            if stop_reason != "tool_use" or said is None or turn.closing:
                return ending_of(generation, turn, stop_reason)
            await self._finish.save(manuscript)
            answered = await toolstep.run_calls(manuscript)
            await self._finish.save(manuscript)
            turn = turn.after(said, answered).to_close()

    async def _ask(self, manuscript: Manuscript, turn: Turn) -> tuple[Message | None, StopReason]:
        """One model call, from `RoundBegan` to `RoundEnded`: what it said, if anything, and why it ended."""
        request, generation = turn.request(), manuscript.generation
        model, endpoint = turn.choice.model, turn.choice.endpoint
        call = ModelCall(
            Speaker(model, model.name, endpoint.name, endpoint.api), MessageId(new_id()), turn.sent()
        )
        manuscript.meter.begin(model, size_of_request(request))
        generation.emit(RoundBegan(call.message))
        generation.emit(manuscript.meter.event())
        if turn.kept:
            generation.emit(TextDelta(turn.kept))
        manuscript.call = call
        done = await self._try(manuscript, turn, request, call)
        if done.stop_reason is None:
            raise BrokenStream(f"The answer of '{endpoint.name}' broke off before its end.", "no end mark")
        if done.stop_reason == "error":
            raise ProviderError(
                f"'{endpoint.name}' ended its answer with an error.", f"finished with {done.raw!r}"
            )
        return manuscript.end_call(done.stop_reason), done.stop_reason

    async def _try(self, manuscript: Manuscript, turn: Turn, request: Request, call: ModelCall) -> Done:
        """Stream the answer. While nothing of it has been shown, a fault that may pass is tried again."""
        for attempt in count(1):
            try:
                return await self._stream(manuscript, turn, request, call)
            except ProviderError as error:
                if call.shown:
                    raise
                call.asked = error.may_cost
                pause = self._pause(error, attempt)
                logger.info("reply %s tries again in %.1f s: %s", manuscript.reply.id, pause, error)
                with Wait(
                    manuscript.generation, f"{error.person} Trying again in {max(1, round(pause))} s.", 0
                ):
                    await asyncio.sleep(pause)
        raise AssertionError("unreachable")

    def _pause(self, error: ProviderError, attempt: int) -> float:
        """Seconds until the next try. Raises `error` where there is none."""
        settings = self._settings
        asked = error.retry_after if isinstance(error, RateLimited | Overloaded) else None
        if not error.may_retry or attempt >= settings.tries or (asked or 0) > settings.longest_wait:
            raise error
        backoff = min(settings.first_wait * 2 ** (attempt - 1), settings.longest_wait)
        # Spread, so that replies which failed together do not all come back together.
        return float(max(asked or 0, backoff) * random.uniform(1.0, 1.25))

    async def _stream(self, manuscript: Manuscript, turn: Turn, request: Request, call: ModelCall) -> Done:
        generation, meter, clock = manuscript.generation, manuscript.meter, asyncio.get_running_loop().time
        tell_usage = clock() + self._settings.usage_every
        call.asked = True
        stream = cast(AsyncGenerator[ProviderEvent, None], turn.provider.stream(request))
        with Wait(
            generation, f"Waiting for {turn.choice.endpoint.name}", self._settings.status_after
        ) as wait:
            async with aclosing(stream) as events:
                async for event in events:
                    if type(event) is Starting:
                        wait.say(event.text)
                        continue
                    wait.over()
                    if type(event) is Done:
                        return event
                    take(event, generation, manuscript, turn, call)
                    if clock() >= tell_usage:
                        generation.emit(meter.event())
                        tell_usage = clock() + self._settings.usage_every
        return Done(None)


def take(
    event: ProviderEvent, generation: Generation, manuscript: Manuscript, turn: Turn, call: ModelCall
) -> None:
    """What a provider yielded becomes an event of the reply."""
    match event:
        case TextSeen(text) if text:
            text = storable(text)
            manuscript.meter.wrote(text)
            generation.emit(TextDelta(text))
            call.shown = True
        case ReasoningSeen(text, opaque):
            if text:
                manuscript.meter.wrote(text)
                generation.emit(ReasoningDelta(storable(text)))
                call.shown = True
            if opaque is not None:
                call.opaque.append(opaque)
        case CallSeen(asked):
            manuscript.meter.wrote(asked.arguments)
            if turn.closing:
                generation.emit(
                    Warned("call-dropped", f"The model asked for '{asked.name}' once more. It was not run.")
                )
            else:
                generation.emit(ToolCalled(asked.id, asked.name, asked.input, asked.name, asked.arguments))
                call.shown = True
        case UsageSeen(usage):
            manuscript.meter.reported(usage)


def begin(generation: Generation, turn: Turn) -> None:
    """Say who answers, and what of the chat the model does not see."""
    model, endpoint = turn.choice.model.name, turn.choice.endpoint.name
    if (generation.state.model, generation.state.endpoint) != (model, endpoint):
        generation.emit(Started(model, endpoint))
    if turn.dropped and not any(warning.code == "dropped" for warning in generation.state.warnings):
        generation.emit(Warned("dropped", DROPPED.format(model=model, count=turn.dropped)))


DROPPED = (
    "The chat is longer than {model} can read at once. It was not shown the oldest part ({count} messages)."
)


def ending_of(generation: Generation, turn: Turn, stop_reason: StopReason) -> Ending:
    """A reply whose model has had its say."""
    name, state = turn.choice.model.name, generation.state
    if stop_reason == "max_tokens":
        generation.emit(
            Warned("cut", f"The answer was cut off at the longest that {name} may write at once.")
        )
    elif stop_reason == "refusal":
        generation.emit(Warned("refusal", f"{name} declined to answer this."))
    elif not state.text and not any(round.calls for round in state.rounds):
        generation.emit(Warned("empty", f"{name} answered with nothing."))
    return Ending("complete", stop_reason, results="not_run")


class Wait:
    """Names what the person waits for, once that takes longer than `after` seconds, until it is `over`."""

    __slots__ = ("_after", "_generation", "_handle", "_text", "_told")

    def __init__(self, generation: Generation, text: str, after: float) -> None:
        self._generation, self._text, self._after = generation, text, after
        self._handle: asyncio.TimerHandle | None = None
        self._told = False

    def __enter__(self) -> "Wait":
        if self._after > 0:
            self._handle = asyncio.get_running_loop().call_later(self._after, self._tell)
        else:
            self._tell()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.over()

    def say(self, text: str) -> None:
        """Name it otherwise, at once."""
        self.over()
        self._text = text
        self._tell()

    def over(self) -> None:
        """It came. Costs next to nothing when called again."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        if self._told:
            self._told = False
            self._show("")

    def _tell(self) -> None:
        self._told = True
        self._show(self._text)

    def _show(self, text: str) -> None:
        if not self._generation.sealed:
            self._generation.emit(Status(text))
