"""Starts, finds, follows and stops replies: the owner of every reply's tasks.

A reply runs in two tasks. The first works (`runner`) and may be cancelled at any moment, even before its
first step; its done callback, which nothing can skip, starts the second, which concludes (`finish`) and is
never cancelled. So a stop, a failure and an end that race give one outcome.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, Protocol, TypeVar

from app.core.errors import Closing, NightdeskError, NotFound, StorageFault, Superseded
from app.core.events import Entry, ErrorRaised, Warned
from app.core.ids import ChatId, MessageId, ReplyId, RunId, UserId
from app.core.reply import ENDED
from app.replies.ended import ended_reply
from app.replies.feed import Generation, Source
from app.replies.finish import Finish, Stored
from app.replies.log import Logs
from app.replies.manuscript import Ending, Manuscript
from app.replies.meter import Meter
from app.replies.prepare import Opening
from app.replies.settings import ReplySettings
from app.store import replies
from app.store.engine import Database, Session
from app.store.tables import Chat, Reply
from app.tasks import Tasks

logger = logging.getLogger(__name__)

T = TypeVar("T")


class Work(Protocol):
    """What a reply does from its start to its ending; `runner.Runner` is it."""

    async def run(self, manuscript: Manuscript, opening: Opening | None) -> Ending:
        """Raises what goes wrong; may be cancelled anywhere."""
        ...


class Titles(Protocol):
    """Names a chat after its first reply; `title.Titles` is it."""

    def after(self, generation: Generation, chat: Chat, first_words: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Before:
    """What an earlier run of a reply has finished: its entries, its counts, and its last stored message."""

    entries: Sequence[Entry]
    meter: Meter
    last: MessageId


@dataclass(slots=True, eq=False)
class Job:
    """A reply in this process. `done`: its outcome is stored, or its run was let go without one."""

    manuscript: Manuscript
    done: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    work: asyncio.Task[Ending | None] | None = None
    asked: Literal["stop", "restart"] | None = None
    concluding: bool = False
    # What somebody wants done in the transaction of the outcome, and where its answer goes.
    then: "tuple[Callable[[Session], Awaitable[Any]], asyncio.Future[Any]] | None" = None

    @property
    def generation(self) -> Generation:
        return self.manuscript.generation


class Registry:
    """Every reply of this process: those that run, and those that ended within the last minutes."""

    def __init__(
        self,
        db: Database,
        tasks: Tasks,
        logs: Logs,
        work: Work,
        finish: Finish,
        titles: Titles,
        settings: ReplySettings,
    ) -> None:
        self._db = db
        self._tasks = tasks
        self._logs = logs
        self._work = work
        self._finish = finish
        self._titles = titles
        self._settings = settings
        self._jobs: dict[ReplyId, Job] = {}
        self.closing = False

    @property
    def running(self) -> int:
        """How many replies run."""
        return sum(not job.done.done() for job in self._jobs.values())

    def find(self, reply_id: ReplyId) -> Generation | None:
        """The live state of a reply that runs, or ended a short while ago."""
        job = self._jobs.get(reply_id)
        return job.generation if job else None

    def start(
        self,
        reply: Reply,
        user: UserId,
        opening: Opening | None = None,
        *,
        before: "Before | None" = None,
    ) -> Generation:
        """Run `reply`, a row that is accepted or running; one that runs is only found. Raises Closing.

        `opening` is what its accepter knows already of its turn; `before` what an earlier run of the reply has
        finished.
        """
        reply_id = ReplyId(reply.id)
        if (job := self._jobs.get(reply_id)) is not None:
            return job.generation
        if self.closing:
            raise Closing
        job = self._jobs[reply_id] = Job(self._manuscript(reply, user, before))
        job.work = self._tasks.start(f"reply {reply_id}", self._run(job, opening))
        job.work.add_done_callback(partial(self._worked, job))
        return job.generation

    def _manuscript(self, reply: Reply, user: UserId, before: "Before | None") -> Manuscript:
        def warn(_: OSError) -> None:
            if not generation.sealed:  # else the number might be that of the end, which is being stored
                generation.emit(UNSAVED)

        log = self._logs.open(ReplyId(reply.id), RunId(reply.run), warn)
        generation = Generation(ReplyId(reply.id), ChatId(reply.chat), user, RunId(reply.run), log)
        manuscript = Manuscript(reply, generation, log)
        if before is not None:
            for entry in before.entries:
                generation.append(entry)
            manuscript.meter, manuscript.last = before.meter, before.last
            log.write()
        return manuscript

    async def stop(self, reply_id: ReplyId) -> None:
        """The owner's Stop: returns once the outcome is stored. An ended reply stays as it is."""
        await self.stop_and(reply_id, None)

    async def stop_and(self, reply_id: ReplyId, then: Callable[[Session], Awaitable[T]] | None) -> T | None:
        """Stop, and run `then` in the outcome's transaction; its answer, or None where the reply had ended.

        Raises what `then` raises; the reply ends all the same.
        """
        job = self._jobs.get(reply_id)
        if job is None or job.done.done():
            return None
        answer: asyncio.Future[T] | None = None
        if then is not None and job.then is None and not job.concluding:
            answer = asyncio.get_running_loop().create_future()
            job.then = (then, answer)
        self._cancel(job, "stop")
        await asyncio.wait({job.done})
        return answer.result() if answer is not None and answer.done() else None

    async def stop_all(
        self, *, user: UserId | None = None, model: str | None = None, endpoint: str | None = None
    ) -> None:
        """Stop every reply of a person, or that a model or an endpoint (by id) is answering."""
        jobs = [job for job in self._left() if _concerns(job, user, model, endpoint)]
        for job in jobs:
            self._cancel(job, "stop")
        if jobs:
            await asyncio.wait([job.done for job in jobs])

    async def follow_source(self, reply_id: ReplyId, user: UserId) -> Source:
        """What a follower of the person's reply reads: live, or folded from the store once it has ended.

        Raises NotFound, and Closing for a reply that does not run and has not ended: the next start settles
        it.
        """
        for _ in range(100):
            if (live := self.find(reply_id)) is not None:
                if live.user != user:
                    raise NotFound
                return live
            async with self._db.read() as s:
                row = await replies.owned(s, reply_id, user)
                if row.phase in ENDED:
                    return await ended_reply(s, row, user)
            await asyncio.sleep(0.01)  # it is committed, and its accepter is about to start it
        raise Closing

    async def close(self, drain: float | None = None) -> None:
        """Refuse new replies, give running ones `drain` seconds, then let go of them for the next start."""
        self.closing = True
        self._finish.close()
        if left := self._left():
            await asyncio.wait(left.values(), timeout=self._settings.drain if drain is None else drain)
        for job in self._left():
            self._cancel(job, "restart")
        if left := self._left():
            await asyncio.wait(left.values())
        await self._logs.close()

    def _left(self) -> dict[Job, asyncio.Future[None]]:
        return {job: job.done for job in self._jobs.values() if not job.done.done()}

    def _cancel(self, job: Job, asked: Literal["stop", "restart"]) -> None:
        if job.asked is not None or job.concluding:
            return
        job.asked = asked
        assert job.work is not None
        job.work.cancel()
        # An endpoint that does not let go of its connection must not hold up the outcome.
        asyncio.get_running_loop().call_later(self._settings.stop_grace, self._worked, job)

    async def _run(self, job: Job, opening: Opening | None) -> Ending | None:
        try:
            return await self._work.run(job.manuscript, opening)
        except Superseded as error:
            logger.info("a run was superseded: %s", error)
            return None
        except NightdeskError as error:
            logger.warning("reply %s failed: %s: %s", job.manuscript.reply.id, error.name, error)
            return failed(job.generation, error)
        except Exception:
            logger.exception("reply %s failed", job.manuscript.reply.id)
            return failed(job.generation, NightdeskError(INTERNAL))

    def _worked(self, job: Job, _: object = None) -> None:
        """The work is over, or was told to be and does not end: conclude, once."""
        if job.concluding:
            return
        job.concluding = True
        ending = _ending(job)
        if ending is None:
            assert job.work is not None
            self._let_go(job, keep=job.work.cancelled() or not job.work.done())
        else:
            self._tasks.start(f"conclude {job.manuscript.reply.id}", self._conclude(job, ending))

    async def _conclude(self, job: Job, ending: Ending) -> None:
        manuscript, keep = job.manuscript, False
        try:
            self._finish.conclude(manuscript, ending)
            stored = await self._store(job, ending)
            if stored.next is not None and not self.closing:
                self.start(stored.next.reply, job.generation.user)
            self._finish.show(manuscript, stored)
            self._titles.after(job.generation, stored.chat, manuscript.first_words)
        except Superseded as error:
            logger.info("an outcome was superseded: %s", error)
        except StorageFault as error:
            # Only while closing: the row stays as it is, and the next start concludes from the log.
            logger.warning("the outcome of reply %s was not stored: %s", manuscript.reply.id, error)
            keep = True
        except Exception:
            logger.exception("the outcome of reply %s failed", manuscript.reply.id)
            keep = not await self._finish.abandon(manuscript.reply, NightdeskError(INTERNAL))
        finally:
            self._let_go(job, keep)

    async def _store(self, job: Job, ending: Ending) -> Stored:
        """Store the outcome with what somebody wants done along with it, or alone where that fails."""
        if job.then is None:
            return await self._finish.outcome(job.manuscript, ending)
        then, answer = job.then
        answer.add_done_callback(lambda future: future.exception())  # told even if nobody waits any more
        given: list[Any] = []

        async def keep(s: Session) -> None:
            given[:] = [await then(s)]

        try:
            stored = await self._finish.outcome(job.manuscript, ending, keep)
        except Superseded:
            answer.set_result(None)
            raise
        except Exception as error:
            answer.set_exception(error)
            return await self._finish.outcome(job.manuscript, ending)
        answer.set_result(given[0])
        return stored

    def _let_go(self, job: Job, keep: bool) -> None:
        """The run is over here. With `keep` its log stays, for the next start to go on from."""
        job.generation.close()
        job.manuscript.log.close(keep=keep)
        if not job.done.done():
            job.done.set_result(None)
        reply_id = job.generation.reply
        wait = 0.0 if job.generation.state.finished is None else self._settings.keep_finished
        asyncio.get_running_loop().call_later(wait, self._jobs.pop, reply_id, None)


INTERNAL = "Something went wrong in Nightdesk itself. What was written is kept; the server's log says more."

UNSAVED = Warned(
    "storage",
    "The server cannot write to its disk. The reply goes on, but until that works a restart would lose it.",
)


def failed(generation: Generation, error: NightdeskError) -> Ending:
    """The ending of a reply that met `error`. What was shown can be continued."""
    round = generation.state.round
    actions = error.actions
    if round is not None and round.shown and "continue" not in actions:
        actions = ("continue", *actions)
    return Ending("failed", "error", error=ErrorRaised(error.person, error.name, actions), results="not_run")


def _ending(job: Job) -> Ending | None:
    """How the work ended; None for a run that has no outcome to write."""
    work = job.work
    assert work is not None
    if work.done() and not work.cancelled():
        return work.result()
    if job.asked == "stop":
        return Ending("stopped", results="stopped")
    return None


def _concerns(job: Job, user: UserId | None, model: str | None, endpoint: str | None) -> bool:
    if user is not None and job.generation.user == user:
        return True
    answering = job.manuscript.model
    return answering is not None and (answering.id == model or answering.endpoint == endpoint)
