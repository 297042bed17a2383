"""Stores what a reply has written: each finished round, and once its outcome, whatever happened.

A `Manuscript` gathers what is written but not stored yet. `Finish.save` stores it; `Finish.outcome` stores
the rest together with the one outcome, the events and what follows, in one transaction that carries the run's
fencing token.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from app.core.clock import now_ms
from app.core.errors import NightdeskError, NotFound, StorageFault, Superseded
from app.core.events import Entry, ErrorRaised, Finished, Status, data_of
from app.core.ids import MessageId, ReplyId, RunId
from app.core.messages import Outcome
from app.replies import queue
from app.replies.feed import Bulletin, Generation
from app.replies.log import joined
from app.replies.manuscript import Ending, Manuscript, Page
from app.replies.settings import ReplySettings
from app.store import chats, events, ledger, messages, replies
from app.store.engine import Database, Session
from app.store.tables import Chat, Reply
from app.tasks import Tasks, shielded

logger = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Stored:
    """An outcome that is in the database: the entry to show, and what was begun with it."""

    entry: Entry
    chat: Chat
    unread: bool
    next: queue.Started | None


Then = Callable[[Session], Awaitable[object]]


class Finish:
    """The one writer of rounds and outcomes."""

    def __init__(self, db: Database, tasks: Tasks, bulletin: Bulletin, settings: ReplySettings) -> None:
        self._db = db
        self._tasks = tasks
        self._bulletin = bulletin
        self._settings = settings
        self._closing = asyncio.Event()

    def close(self) -> None:
        """From now on no queued message is started, and a write that fails is not tried again."""
        self._closing.set()

    async def save(self, manuscript: Manuscript, *, retry: bool = True) -> None:
        """Store the pages put aside. Goes on to its end when the caller is cancelled. Raises Superseded."""
        name = f"save {manuscript.reply.id}"
        error = await shielded(self._tasks, name, self._saved(manuscript, retry))
        if error is not None:
            raise error

    async def _saved(self, manuscript: Manuscript, retry: bool) -> NightdeskError | None:
        """What went wrong as a value: it is the caller's to tell, not an error of the task."""
        try:
            await self._save(manuscript, retry)
        except NightdeskError as error:
            return error
        return None

    async def _save(self, manuscript: Manuscript, retry: bool) -> None:
        async with manuscript.storing:
            pages = tuple(manuscript.pages)
            reply_id, run = ReplyId(manuscript.reply.id), RunId(manuscript.reply.run)

            async def write(s: Session) -> MessageId:
                chat = await _chat(s, manuscript)
                if not await replies.move(s, reply_id, run, "running"):
                    raise Superseded(f"reply {reply_id} run {run}: its round came too late")
                return await _insert(s, manuscript, chat, pages)

            if pages:
                manuscript.last = await self._persist(manuscript.generation, write, retry=retry)
                del manuscript.pages[: len(pages)]

    def conclude(self, manuscript: Manuscript, ending: Ending) -> None:
        """Close the model call and calls without a result. After this nothing but the end comes."""
        generation = manuscript.generation
        generation.seal()
        manuscript.end_call(None)
        if _unanswered(generation):
            manuscript.answer_calls(ending.results, RESULTS[ending.results])
        if ending.error is not None:
            generation.append(generation.entry(ending.error))

    async def outcome(
        self,
        manuscript: Manuscript,
        ending: Ending,
        then: Then | None = None,
        *,
        retry: bool = True,
        go_on: bool = True,
    ) -> Stored:
        """Store the outcome of a concluded reply and what follows it: `then`, else the queue to `go_on`.

        What `then` raises undoes the outcome, too; it comes out here, and the outcome may be asked for again.
        Raises Superseded where the reply has an outcome, another run, or no chat any more, and StorageFault
        where it is not to `retry` or the server closes.
        """

        async def write(s: Session) -> Stored:
            return await self._outcome(s, manuscript, ending, then, go_on)

        async with manuscript.storing:
            return await self._persist(manuscript.generation, write, retry=retry and then is None)

    async def _outcome(
        self,
        s: Session,
        manuscript: Manuscript,
        ending: Ending,
        then: Then | None,
        go_on: bool,
    ) -> Stored:
        generation, reply, now = manuscript.generation, manuscript.reply, now_ms()
        chat = await _chat(s, manuscript)
        last = await _insert(s, manuscript, chat, manuscript.pages)
        fields = _outcome_fields(manuscript, ending, now)
        if not await replies.outcome(s, ReplyId(reply.id), RunId(reply.run), ending.state, **fields):
            raise Superseded(f"reply {reply.id} run {reply.run}: it has its outcome")
        unread = _announced(chat, ending) and then is None and not self._watched(generation)
        chat.active, chat.unread = now, chat.unread or unread
        started: queue.Started | None = None
        if then is not None:
            await then(s)
        elif go_on and ending.state == "complete" and not self._closing.is_set():
            started = await queue.start_next(s, chat, last)
        next = ReplyId(started.reply.id) if started else None
        entry = generation.entry(Finished(ending.state, ending.stop_reason, ending.reason, next))
        records = list(joined([*generation.feed.entries, entry]))
        await events.insert_all(s, ReplyId(reply.id), RunId(reply.run), records)
        return Stored(entry, chat, unread, started)

    def show(self, manuscript: Manuscript, stored: Stored) -> None:
        """Tell followers and the person of an outcome that is stored, and let go of the log."""
        generation = manuscript.generation
        generation.append(stored.entry)
        generation.close()
        manuscript.log.close(keep=False)
        finished = stored.entry.event
        assert isinstance(finished, Finished)
        user, chat = generation.user, generation.chat
        self._bulletin.publish(user, "reply", {"id": generation.reply, "chat": chat, "state": finished.state})
        change = {"id": chat, "change": "running", "running_reply": finished.next}
        self._bulletin.publish(user, "chat", change | ({"unread": True} if stored.unread else {}))
        if stored.next is not None:
            queue.tell_started(self._bulletin, user, stored.next)
        if stored.unread:
            toast = {"chat": chat, "title": stored.chat.title, "state": finished.state}
            self._bulletin.publish(user, "toast", toast)

    async def abandon(self, reply: Reply, error: NightdeskError) -> bool:
        """The last resort after a fault of our own: end the reply, so that its chat is free. Whether it has ended."""
        failure = _error(ErrorRaised(error.person, error.name, error.actions))

        async def write(s: Session) -> None:
            await replies.outcome(s, ReplyId(reply.id), RunId(reply.run), "failed", error=failure)

        try:
            await self._db.write(write)
        except NightdeskError as fault:
            logger.warning("reply %s could not even be given up: %s", reply.id, fault)
            return False
        return True

    def _watched(self, generation: Generation) -> bool:
        return self._bulletin.watched(generation.user, generation.chat)

    async def _persist(
        self, generation: Generation, write: Callable[[Session], Awaitable[T]], *, retry: bool = True
    ) -> T:
        """Write; after a fault of storage again, until it is done: a full disk costs time, not the reply."""
        wait = self._settings.storage_wait
        while True:
            try:
                return await self._db.write(write)
            except StorageFault as fault:
                if not retry or self._closing.is_set():
                    raise
                logger.warning("reply %s waits to be stored: %s", generation.reply, fault)
                generation.append(generation.entry(Status("Waiting until the server can save this")))
                await _until(self._closing, wait)
                wait = min(wait * 2, self._settings.storage_wait * 10)


RESULTS: dict[Outcome, str] = {
    "interrupted": "The call was interrupted. Whether it had an effect is not known; it was not run again.",
    "stopped": "The person stopped the reply before this call had a result.",
    "not_run": "The call was not run.",
}


async def _until(event: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


def _unanswered(generation: Generation) -> bool:
    round = generation.state.round
    return round is not None and any(call.result is None for call in round.calls)


async def _chat(s: Session, manuscript: Manuscript) -> Chat:
    """The reply's chat. One that is gone took the reply with it: no error, only the end of this run."""
    try:
        return await chats.owned(s, manuscript.generation.chat, manuscript.generation.user)
    except NotFound:
        raise Superseded(f"reply {manuscript.reply.id}: its chat is gone") from None


async def _insert(
    s: Session, manuscript: Manuscript, chat: Chat, pages: "tuple[Page, ...] | list[Page]"
) -> MessageId:
    """Insert `pages` one below the other. The chat's branch follows only where it was this one."""
    last = manuscript.last
    for page in pages:
        if page.message is not None:
            assert page.message.id is not None
            await messages.insert(
                s,
                chat,
                id=page.message.id,
                parent=last,
                role=page.message.role,
                parts=page.message.parts,
                reply=ReplyId(manuscript.reply.id),
                **page.fields,
            )
            if chat.leaf == last:
                await chats.set_leaf(s, chat, page.message.id)
            last = page.message.id
        if page.usage is not None:
            await ledger.add(s, **page.usage)
        if page.call is not None and page.usage is not None:
            await replies.add_request(
                s,
                reply=ReplyId(manuscript.reply.id),
                message=page.call,
                model_name=page.usage["model_name"],
                endpoint=page.usage["endpoint"],
                request=page.sent,
            )
    return last


def _outcome_fields(manuscript: Manuscript, ending: Ending, now: int) -> dict[str, Any]:
    state = manuscript.generation.state
    error, usage = ending.error, state.usage
    return {
        "stop_reason": ending.stop_reason,
        "reason": ending.reason,
        "error": _error(error) if error else None,
        "usage": data_of(usage) if usage else None,
        "started": state.began,
        "ended": now,
    }


def _error(error: ErrorRaised) -> dict[str, Any]:
    return {"text": error.text, "code": error.code, "actions": list(error.actions)}


def _announced(chat: Chat, ending: Ending) -> bool:
    """Whether the end of a reply is news: not if the owner stopped it, never in a temporary chat."""
    return ending.state != "stopped" and not chat.temporary
