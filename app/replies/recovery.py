"""At start: what the process before left accepted or running.

A reply of whose running round nothing was shown goes on by itself, under a new run token, at most a few
times. Any other keeps what it had shown and is interrupted, with Continue. Rounds that were finished are
whole.
"""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from app.core.errors import Closing, NightdeskError, StorageFault
from app.core.events import Entry, ErrorRaised, RoundBegan, UsageReported
from app.core.ids import ChatId, ReplyId, RunId, UserId, new_run
from app.core.messages import ToolResultPart, Usage
from app.core.state import Call, ReplyState, Round
from app.replies.ended import folded, told
from app.replies.feed import Generation
from app.replies.finish import Finish
from app.replies.log import Logs
from app.replies.manuscript import Ending, Manuscript, ModelCall, Speaker
from app.replies.meter import Meter
from app.replies.models import Models
from app.replies.registry import Before, Registry
from app.replies.settings import ReplySettings
from app.store import chats, messages, replies
from app.store.engine import Database, Session
from app.store.messages import StoredMessage
from app.store.tables import Reply
from app.tasks import Tasks

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Left:
    """A reply without an outcome: its row under the new run token, what it had stored, what its log says."""

    reply: Reply
    user: UserId
    written: Sequence[StoredMessage]
    entries: Sequence[Entry]
    state: ReplyState

    @property
    def id(self) -> ReplyId:
        return ReplyId(self.reply.id)


class _Silent:
    """Keeps nothing: the file of the former run stays as it is until all is stored."""

    def add(self, entry: Entry) -> None:
        pass


class Recovery:
    """Settles every reply that the last process left. Run once, before anybody is served."""

    def __init__(
        self,
        db: Database,
        tasks: Tasks,
        logs: Logs,
        registry: Registry,
        finish: Finish,
        models: Models,
        settings: ReplySettings,
    ) -> None:
        self._db = db
        self._tasks = tasks
        self._logs = logs
        self._registry = registry
        self._finish = finish
        self._models = models
        self._settings = settings

    async def run(self) -> None:
        """Resume or conclude what was left, and drop the logs that belong to nothing any more."""
        logs = set(self._logs.names())
        async with self._db.read() as s:
            rows = await replies.left_over(s)
        unsettled = [row for row in rows if not await self._settled(row)]
        for row in unsettled:
            self._tasks.start(f"recover {row.id}", self._later(row))
        # Logs go only when what they hold is stored, or stands in the log of the new run.
        kept = {path for row in unsettled for path in self._logs.of(ReplyId(row.id))}
        _remove(logs - kept)

    async def _settled(self, row: Reply) -> bool:
        """Whether that was done with; False where storage failed, or the server closes, and it must be tried again."""
        try:
            await self._settle(row)
        except (StorageFault, Closing) as error:
            logger.error("reply %s waits to be picked up: %s", row.id, error)
            return False
        except Exception:
            logger.exception("reply %s could not be picked up", row.id)
            return await self._finish.abandon(row, NightdeskError(LOST))
        return True

    async def _later(self, row: Reply) -> None:
        """Try again until storage works. Its chat stays busy meanwhile."""
        logs = self._logs.of(ReplyId(row.id))
        while not self._registry.closing:
            await asyncio.sleep(self._settings.storage_wait * 10)
            if await self._settled(row):
                return _remove(logs)

    async def _settle(self, row: Reply) -> None:
        left = await self._take_over(row)
        if left is None:
            return
        round, error = left.state.round, left.state.error
        if round is not None and _is_whole(round):
            await self._conclude(left, Ending("complete", round.stop_reason, results="not_run"))
        elif error is not None:
            await self._conclude(left, Ending("failed", "error", error=error, results="not_run"))
        elif not _nothing_shown(round) or left.reply.resumed > self._settings.resumes:
            await self._conclude(left, Ending("interrupted", error=_interrupted(round)))
        else:
            await self._resume(left)

    async def _take_over(self, row: Reply) -> _Left | None:
        """Claim the reply for this process: what its former run might still write comes too late now.

        A new token also in a reply that only is concluded: followers may have been ahead of the log, and
        their numbers mean nothing under another run, so they get the whole state.
        """
        reply, run, former = ReplyId(row.id), new_run(), RunId(row.run)

        async def write(s: Session) -> tuple[UserId, list[StoredMessage]] | None:
            chat = await chats.find(s, ChatId(row.chat))
            if chat is None or not await replies.claim_run(s, reply, run):
                return None
            return UserId(chat.owner), await messages.of_reply(s, reply)

        found = await self._db.write(write)
        if found is None:
            return None
        user, written = found
        row.run, row.resumed = run, row.resumed + 1
        entries: Sequence[Entry] = self._logs.read(reply, former)
        if _is_behind(folded(reply, ChatId(row.chat), run, entries), written):
            entries = told(written)
        return _Left(row, user, written, entries, folded(reply, ChatId(row.chat), run, entries))

    async def _resume(self, left: _Left) -> None:
        """Go on below the rounds that are finished."""
        entries = _finished(left.entries)
        manuscript = self._manuscript(left, entries)
        await self._finish.save(manuscript, retry=False)
        before = Before(entries, Meter(manuscript.generation.state.usage), manuscript.last)
        self._registry.start(left.reply, left.user, before=before)
        logger.info("reply %s goes on, for the %d. time", left.id, left.reply.resumed)

    async def _conclude(self, left: _Left, ending: Ending) -> None:
        manuscript = self._manuscript(left, left.entries)
        self._finish.conclude(manuscript, ending)
        stored = await self._finish.outcome(manuscript, ending, retry=False, go_on=False)
        self._finish.show(manuscript, stored)
        logger.info("reply %s is %s", left.id, ending.state)

    def _manuscript(self, left: _Left, entries: Sequence[Entry]) -> Manuscript:
        """The reply as its log left it, with what it has beyond the database put aside to be stored."""
        chat, run = ChatId(left.reply.chat), RunId(left.reply.run)
        generation = Generation(left.id, chat, left.user, run, _Silent())
        for entry in entries:
            generation.append(entry)
        manuscript = Manuscript(left.reply, generation, self._logs.open(left.id, run, lambda _: None))
        if left.written:
            manuscript.last = left.written[-1].id
        if (round := generation.state.round) is not None:
            self._put_aside(left, manuscript, round)
        return manuscript

    def _put_aside(self, left: _Left, manuscript: Manuscript, round: Round) -> None:
        """The last round: an open call where it was cut off, else what the database misses of it."""
        call = ModelCall(self._speaker(left.state), round.message, asked=True)
        before, usage = _usage_of(left.entries, round.number)
        manuscript.meter = Meter(before)
        manuscript.meter.begin(call.speaker.model, usage.input_tokens)
        if not round.ended:
            for segment in round.segments:
                text = segment.called.arguments if isinstance(segment, Call) else segment.text
                manuscript.meter.wrote(text)
            manuscript.call = call
            return
        manuscript.meter.reported(usage)
        counted = manuscript.meter.end(whole=True)
        if all(message.id != round.message for message in left.written):
            manuscript.put_call(call, round, counted)
        answered = round.calls and all(each.result is not None for each in round.calls)
        if answered and all(message.parent != round.message for message in left.written):
            manuscript.put_results(round)

    def _speaker(self, state: ReplyState) -> Speaker:
        """Who was answering, as far as that can still be found by name."""
        for endpoint, models in self._models.all():
            for model in models:
                if (model.name, endpoint.name) == (state.model, state.endpoint):
                    return Speaker(model, state.model, state.endpoint, endpoint.api)
        return Speaker(None, state.model, state.endpoint, "")


LOST = "The server was restarted, and what this reply had written could not be read back."


def _is_behind(state: ReplyState, written: Sequence[StoredMessage]) -> bool:
    """Whether the log lacks what is stored: it is gone, or its last quarter second was not written any more."""
    ended = {round.message for round in state.rounds if round.ended}
    answered = {call.called.id for round in state.rounds for call in round.calls if call.result is not None}
    for message in written:
        results = {part.id for part in message.parts if isinstance(part, ToolResultPart)}
        if (message.role == "assistant" and message.id not in ended) or not results <= answered:
            return True
    return False


def _is_whole(round: Round) -> bool:
    """The model had its say; only the outcome was missing."""
    said = round.ended and round.stop_reason not in (None, "error")
    return said and not (round.stop_reason == "tool_use" and round.calls)


def _nothing_shown(round: Round | None) -> bool:
    """Nothing of the running round has been shown, or the last one is finished with all its results."""
    if round is None or not round.shown:
        return True
    answered = all(call.result is not None for call in round.calls)
    return round.ended and round.stop_reason == "tool_use" and answered


def _finished(entries: Sequence[Entry]) -> Sequence[Entry]:
    """The entries of the finished rounds, without those of one that had begun and shown nothing."""
    state = folded(ReplyId(""), ChatId(""), RunId(""), entries)
    if state.round is None or state.round.shown:
        return entries
    began = next(at for at in reversed(range(len(entries))) if isinstance(entries[at].event, RoundBegan))
    return entries[:began]


def _interrupted(round: Round | None) -> ErrorRaised:
    if round is None or not round.shown:
        text = "The server was restarted several times while it worked on this reply, so it has given up."
        return ErrorRaised(text, "interrupted", ("retry",))
    text = "The server was restarted while this reply was being written. What it had written is kept."
    return ErrorRaised(text, "interrupted", ("continue", "retry"))


def _usage_of(entries: Iterable[Entry], round: int) -> tuple[UsageReported | None, Usage]:
    """The totals before that round, and what the round itself came to by the last report of it."""
    before: UsageReported | None = None
    last: UsageReported | None = None
    for entry in entries:
        if isinstance(entry.event, UsageReported):
            before, last = (entry.event, last) if entry.round < round else (before, entry.event)
    if last is None:
        return before, Usage(estimated=True)
    names = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")
    counts = {name: getattr(last, name) - (getattr(before, name) if before else 0) for name in names}
    return before, Usage(**counts, estimated=last.estimated)


def _remove(paths: Iterable[Path]) -> None:
    for path in paths:
        with suppress(OSError):
            path.unlink(missing_ok=True)
