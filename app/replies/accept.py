"""Takes input in: one short transaction stores the message and its reply, or leaves the message waiting.

Whoever gets an answer from here may rely on it: the input is committed, is never lost and never run twice.
The same idempotency key gives the same answer, before and after a restart.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeVar

from app.core.errors import (
    Busy,
    Closing,
    NotFound,
    NotOpen,
)
from app.core.ids import ChatId, MessageId, ModelId, ReplyId, UserId, new_id, new_run
from app.core.messages import FilePart, TextPart
from app.core.reply import LIVE
from app.replies import intake, once, queue, reply_view
from app.replies.feed import Bulletin
from app.replies.intake import NewMessage, Runs, Taken
from app.replies.models import Models
from app.replies.prepare import Opening, goes_on_after
from app.replies.registry import Registry
from app.replies.settings import ReplySettings
from app.store import chats, drafts, messages, people, replies
from app.store.engine import Database, Session
from app.store.messages import StoredMessage
from app.store.tables import Chat, Reply

__all__ = ["Accepted", "Accepting", "NewMessage"]

T = TypeVar("T")


@dataclass(frozen=True)
class Accepted:
    """The stored message, and its reply, or None while it waits in the queue."""

    message: StoredMessage
    reply: Reply | None
    queued: bool


class Accepting:
    """The verbs by which a person gives a chat something to do."""

    def __init__(
        self, db: Database, registry: Registry, models: Models, bulletin: Bulletin, settings: ReplySettings
    ) -> None:
        self._db = db
        self._registry = registry
        self._models = models
        self._bulletin = bulletin
        self._settings = settings

    async def accept(self, user: UserId, chat: ChatId, new: NewMessage, key: str) -> Accepted:
        """Store a message and start its reply, or queue it behind the one that runs.

        Raises Invalid, TooLong, NotFound, Archived, UnknownModel, Busy, KeyReused, Closing, StorageFault.
        """
        intake.check(new, self._settings.max_text)
        stamp = once.stamp(user, key, "message", chat, new.content())
        return self._begin(
            user, await self._stopping(partial(self._take, chat_id=chat, new=new, stamp=stamp))
        )

    async def start_chat(
        self,
        user: UserId,
        new: NewMessage,
        key: str,
        *,
        kind: Literal["chat", "agent"] = "chat",
        model: ModelId | None = None,
        temporary: bool = False,
        chat_id: ChatId | None = None,
    ) -> tuple[Chat, Accepted]:
        """A new chat with its first message, in one transaction. Raises as `accept` does."""
        intake.check(new, self._settings.max_text)
        intake.check_id(chat_id, "chat")
        stamp = once.stamp(user, key, "chat", kind, model, temporary, chat_id, new.content())

        async def write(s: Session) -> Taken:
            if (known := await intake.seen(s, stamp)) is not None:
                return known
            chat = await chats.create(s, user, id=chat_id, kind=kind, model=model, temporary=temporary)
            await drafts.put(s, user, None, "")
            return await self._store(s, chat, new, stamp, chat_is_new=True)

        self._refuse_when_closing()
        taken = await self._db.write(write)
        return taken.chat, self._begin(user, taken)

    async def regenerate(
        self, user: UserId, reply: ReplyId, key: str | None, model: ModelId | None = None
    ) -> Reply:
        """Another reply to the same input, beside the old one, which is stopped first if it runs.

        Raises NotFound, Archived, UnknownModel, Busy (another reply runs), KeyReused, Closing, StorageFault.
        """

        async def again(s: Session, old: Reply, chat: Chat) -> Reply:
            await chats.set_leaf(s, chat, MessageId(old.input))
            return await self._create(s, old, MessageId(old.input), model)

        stamp = once.stamp(user, key, "regenerate", reply, model)
        return await self._reply_again(user, reply, stamp, again)

    async def resume_from(
        self, user: UserId, reply: ReplyId, key: str | None, model: ModelId | None = None
    ) -> Reply:
        """Continue: another reply to the same input that begins with the text which the old one has shown.

        Raises NotOpen for a reply that is whole, else as `regenerate`, and Busy also where the old one runs.
        """

        async def go_on(s: Session, old: Reply, chat: Chat) -> Reply:
            if old.phase == "complete" and old.stop_reason != "max_tokens":
                raise NotOpen("This reply is whole; there is nothing to continue.")
            after = goes_on_after(old, await messages.of_reply(s, ReplyId(old.id)))
            await chats.set_leaf(s, chat, after)
            return await self._create(s, old, after, model, continues=ReplyId(old.id))

        stamp = once.stamp(user, key, "continue", reply, model)
        return await self._reply_again(user, reply, stamp, go_on, stopping=False)

    async def send_now(self, user: UserId, message: MessageId) -> Accepted:
        """Start the reply of a message that waits; sent twice it runs once.

        Raises NotFound, Archived, Busy, Closing.
        """

        async def write(s: Session) -> Taken:
            row = await messages.owned(s, message, user)
            chat = await intake.open_chat(s, ChatId(row.chat), user)
            if not row.queued:
                return await intake.found(s, message, user)
            if (live := await replies.live_in(s, ChatId(chat.id))) is not None:
                raise Busy(live.id)
            leaf = MessageId(chat.leaf) if chat.leaf else None
            started = await queue.start(s, chat, row, leaf)
            return Taken(chat, started.input, started.reply, queued=started.queued)

        self._refuse_when_closing()
        return self._begin(user, await self._db.write(write))

    async def edit_queued(self, user: UserId, message: MessageId, text: str) -> StoredMessage:
        """Put other words into a message that waits. Raises NotFound, NotOpen, Invalid, TooLong."""
        intake.check(NewMessage(text), self._settings.max_text)

        async def write(s: Session) -> list[StoredMessage]:
            row = await queue.waiting(s, message, user)
            (stored,) = await messages.load(s, [message])
            kept = tuple(part for part in stored.parts if isinstance(part, FilePart))
            await messages.replace_parts(s, message, (TextPart(text), *kept))
            return await messages.queued(s, ChatId(row.chat))

        queued = await self._db.write(write)
        changed = next(stored for stored in queued if stored.id == message)
        queue.tell(self._bulletin, user, changed.chat, queued)
        return changed

    async def remove_queued(self, user: UserId, message: MessageId) -> None:
        """Drop a message that waits. Raises NotFound, NotOpen."""

        async def write(s: Session) -> tuple[ChatId, list[StoredMessage]]:
            row = await queue.waiting(s, message, user)
            await messages.delete_queued(s, row)
            return ChatId(row.chat), await messages.queued(s, ChatId(row.chat))

        chat, queued = await self._db.write(write)
        queue.tell(self._bulletin, user, chat, queued)

    async def choose_branch(self, user: UserId, chat: ChatId, message: MessageId) -> None:
        """Show the branch through `message`, as far down as it was last written. Raises NotFound."""

        async def write(s: Session) -> None:
            row = await messages.owned(s, message, user)
            if row.chat != chat or row.queued:
                raise NotFound("This message is not in this chat.")
            await chats.set_leaf(s, await chats.owned(s, chat, user), await messages.deepest_leaf(s, message))

        await self._db.write(write)

    async def delete_chat(self, user: UserId, chat: ChatId) -> None:
        """Delete a chat and all that is in it; what runs is stopped first. Raises NotFound, Closing."""

        async def attempt(s: Session) -> bool | Runs:
            row = await chats.owned(s, chat, user)
            if (live := await replies.live_in(s, chat)) is not None:
                return Runs(ReplyId(live.id))
            await chats.delete(s, row)
            return True

        await self._stopping(attempt)
        self._bulletin.publish(user, "chat", {"id": chat, "change": "deleted"})

    async def _stopping(self, attempt: Callable[[Session], Awaitable[T | Runs]]) -> T:
        """Do `attempt`; where a running reply is in its way, in the transaction of that one's outcome."""
        reply: ReplyId | None = None
        for _ in range(TRIES):
            self._refuse_when_closing()
            made = await self._db.write(attempt)
            if not isinstance(made, Runs):
                return made
            reply = made.reply
            stopped = await self._registry.stop_and(reply, attempt)
            if stopped is not None and not isinstance(stopped, Runs):
                return stopped
            # It ended by itself just now, or its accepter is about to start it.
            await asyncio.sleep(0.01)
        raise Busy(reply or "")

    async def _take(
        self, s: Session, *, chat_id: ChatId, new: NewMessage, stamp: once.Stamp
    ) -> "Taken | Runs":
        if (known := await intake.seen(s, stamp)) is not None:
            return known
        chat = await intake.open_chat(s, chat_id, stamp.user)
        live = await replies.live_in(s, chat_id)
        if live is not None and new.busy == "replace":
            return Runs(ReplyId(live.id))
        if live is not None and (new.busy == "reject" or new.parent_given):
            raise Busy(live.id)
        await drafts.put(s, stamp.user, chat_id, "")
        return await self._store(s, chat, new, stamp, queued=live is not None)

    async def _store(
        self,
        s: Session,
        chat: Chat,
        new: NewMessage,
        stamp: once.Stamp,
        *,
        queued: bool = False,
        chat_is_new: bool = False,
    ) -> Taken:
        """Insert the message, with its reply unless it is to wait, and what else changes with it."""
        pick = new.model or (ModelId(chat.model) if chat.model else None)
        await self._models.choose(pick)
        parent = None if queued else await intake.parent_of(s, chat, new)
        parts = await intake.parts_of(s, new, stamp.user)
        row = await messages.insert(
            s,
            chat,
            id=new.id or MessageId(new_id()),
            parent=parent,
            role="user",
            parts=parts,
            queued=queued,
            model=pick if queued else None,
            sampling=dict(new.sampling) if queued and new.sampling else None,
        )
        intake.note(chat, new)
        await stamp.record(s, "message", row.id)
        message = messages.stored(row, parts)
        if queued:
            return Taken(chat, message, None, queued=tuple(await messages.queued(s, message.chat)))
        if new.parent_given:
            (message,) = await messages.load(s, [message.id])
        await chats.set_leaf(s, chat, message.id)
        reply = await _reply_to(s, message, pick, new.sampling)
        opening = None
        if parent is None:
            # Nothing comes before it, so its run needs nothing else of the store.
            opening = Opening(await people.user(s, stamp.user), (message,))
        return Taken(chat, message, reply, chat_is_new=chat_is_new, opening=opening)

    async def _reply_again(
        self,
        user: UserId,
        reply: ReplyId,
        stamp: once.Stamp,
        make: Callable[[Session, Reply, Chat], Awaitable[Reply]],
        *,
        stopping: bool = True,
    ) -> Reply:
        """Make another reply to the input of `reply`, which is stopped first where `stopping`."""

        async def attempt(s: Session) -> "Taken | Runs":
            if (known := await intake.seen_reply(s, stamp)) is not None:
                return known
            old = await replies.owned(s, reply, user)
            chat = await intake.open_chat(s, ChatId(old.chat), user)
            live = await replies.live_in(s, ChatId(chat.id))
            if live is not None and (live.id != old.id or not stopping):
                raise Busy(live.id)
            if live is not None:
                return Runs(reply)
            new = await make(s, old, chat)
            await stamp.record(s, "reply", new.id)
            return Taken(chat, None, new)

        taken = await self._stopping(attempt)
        self._start(user, taken)
        assert taken.reply is not None
        return taken.reply

    async def _create(
        self,
        s: Session,
        old: Reply,
        after: MessageId,
        model: ModelId | None,
        continues: ReplyId | None = None,
    ) -> Reply:
        pick = model or (ModelId(old.model) if old.model else None)
        await self._models.choose(pick)
        return await replies.create(
            s,
            chat=ChatId(old.chat),
            input=MessageId(old.input),
            after=after,
            run=new_run(),
            model=pick,
            sampling=old.sampling,
            continues=continues,
        )

    def _begin(self, user: UserId, taken: Taken) -> Accepted:
        self._start(user, taken)
        assert taken.message is not None
        return Accepted(taken.message, taken.reply, taken.message.queued)

    def _start(self, user: UserId, taken: Taken) -> None:
        """After the commit: run the reply, tell the pages. A closing server leaves it to the next start."""
        chat, reply = taken.chat, taken.reply
        if reply is not None and reply.phase in LIVE and not self._registry.closing:
            self._registry.start(reply, user, taken.opening)
        if not taken.fresh or not self._bulletin.followers(user):
            return
        running = reply.id if reply is not None else None
        change = "created" if taken.chat_is_new else "running"
        if running is not None:
            shown = reply_view.of_chat(chat, running_reply=running)
            self._bulletin.publish(user, "chat", {"change": change, **shown})
            self._bulletin.publish(user, "reply", {"id": running, "chat": chat.id, "state": "running"})
        if taken.queued is not None:
            queue.tell(self._bulletin, user, chat.id, taken.queued)

    def _refuse_when_closing(self) -> None:
        if self._registry.closing:
            raise Closing


# A reply in the way ends within a moment of being told; more tries are for those that begin meanwhile.
TRIES = 20


async def _reply_to(
    s: Session, message: StoredMessage, pick: ModelId | None, sampling: Mapping[str, Any]
) -> Reply:
    return await replies.create(
        s,
        chat=message.chat,
        input=message.id,
        after=message.id,
        run=new_run(),
        model=pick,
        sampling=sampling,
    )
