"""What comes in: a message as it is sent, what it must be like, and what its key has made before."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from app.core.errors import Archived, Invalid, NotFound, NotOpen, TooLong
from app.core.ids import ChatId, FileId, MessageId, ModelId, ReplyId, UserId, is_id
from app.core.messages import FilePart, Part, TextPart
from app.core.text import is_storable, opening_words
from app.replies import once
from app.replies.prepare import Opening
from app.store import chats, files, messages, replies
from app.store.engine import Session
from app.store.messages import StoredMessage
from app.store.tables import Chat, Reply


@dataclass(frozen=True)
class NewMessage:
    """What a person sends.

    With `parent_given`, `parent` is what it follows (None: it begins the chat anew), which makes a branch;
    else it follows the end of the current one. `busy` says what to do while a reply runs.
    """

    text: str
    files: tuple[FileId, ...] = ()
    id: MessageId | None = None
    model: ModelId | None = None
    parent: MessageId | None = None
    parent_given: bool = False
    sampling: Mapping[str, Any] = field(default_factory=dict)
    busy: Literal["queue", "reject", "replace"] = "queue"

    def content(self) -> list[Any]:
        """All that makes it what it is, for its idempotency key."""
        return [
            self.text,
            self.files,
            self.id,
            self.model,
            self.parent,
            self.parent_given,
            dict(self.sampling),
            self.busy,
        ]


@dataclass(frozen=True)
class Taken:
    """What a transaction made or, under a key that it had seen, found."""

    chat: Chat
    message: StoredMessage | None
    reply: Reply | None
    fresh: bool = True
    chat_is_new: bool = False
    opening: Opening | None = None
    queued: tuple[StoredMessage, ...] | None = None


@dataclass(frozen=True)
class Runs:
    """The lane is taken by this reply, which may be stopped for what is asked."""

    reply: ReplyId


def check(new: NewMessage, max_text: int) -> None:
    """Refuse what cannot be a message; `max_text` in bytes of UTF-8. Raises Invalid, TooLong."""
    size = len(new.text.encode("utf-8", "surrogatepass"))
    if size > max_text:
        most = f"at most {max_text // 1024} KB can be sent"
        raise TooLong(f"This is {size // 1024 + 1} KB of text; {most}.", field="text")
    if not new.text.strip() and not new.files:
        raise Invalid("There is nothing to send yet. Write something first.", field="text")
    if not is_storable(new.text):
        raise Invalid("The text holds characters that cannot be stored (NUL, or half a sign).", field="text")
    check_id(new.id, "id")


def check_id(id: str | None, field: str) -> None:
    if id is not None and not is_id(id):
        raise Invalid("An id that a client chooses must be a UUIDv7.", field=field)


async def open_chat(s: Session, chat_id: ChatId, user: UserId) -> Chat:
    chat = await chats.owned(s, chat_id, user)
    if chat.archived:
        raise Archived
    return chat


async def parent_of(s: Session, chat: Chat, new: NewMessage) -> MessageId | None:
    """What the message follows. Raises NotFound for a message that is not in this chat's tree."""
    if not new.parent_given:
        return MessageId(chat.leaf) if chat.leaf else None
    if new.parent is not None:
        parent = await messages.owned(s, new.parent, UserId(chat.owner))
        if parent.chat != chat.id or parent.queued:
            raise NotFound("The message that this one should follow is not in this chat.")
    return new.parent


def note(chat: Chat, new: NewMessage) -> None:
    """What a message changes in its chat: the name of one that has none yet, and the model that was picked."""
    if chat.title_from == "none":
        chat.title, chat.title_from = opening_words(new.text) or "New chat", "opening"
    if new.model is not None and new.model != chat.model:
        chat.model = new.model


async def parts_of(s: Session, new: NewMessage, user: UserId) -> tuple[Part, ...]:
    attached: list[Part] = []
    for file_id in new.files:
        file = await files.owned(s, file_id, user)
        kind: Literal["image", "document"] = "image" if file.type.startswith("image/") else "document"
        attached.append(FilePart(kind, file_id, file.name))
    return (TextPart(new.text), *attached) if new.text else tuple(attached)


async def seen(s: Session, stamp: once.Stamp) -> Taken | None:
    """What an earlier post with this key made. Raises KeyReused where it asked for something else."""
    known = await stamp.known(s)
    return await found(s, MessageId(known), stamp.user) if known is not None else None


async def seen_reply(s: Session, stamp: once.Stamp) -> Taken | None:
    known = await stamp.known(s)
    if known is None:
        return None
    reply = await replies.owned(s, ReplyId(known), stamp.user)
    return Taken(await chats.owned(s, ChatId(reply.chat), stamp.user), None, reply, fresh=False)


async def found(s: Session, message_id: MessageId, user: UserId) -> Taken:
    """A message that is there, with the first reply that was made to it."""
    found = await messages.load(s, [message_id])
    if not found:
        raise NotOpen("This message was sent and has been removed since.")
    chat = await chats.owned(s, found[0].chat, user)
    made = await replies.of_input(s, message_id)
    return Taken(chat, found[0], made[0] if made else None, fresh=False)
