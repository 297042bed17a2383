"""One helper for each thing that the tests of the store do again and again."""

from contextlib import closing
from pathlib import Path
from typing import Any

from sqlalchemy import text

from app.core.ids import ChatId, MessageId, ReplyId, UserId, new_id, new_run
from app.core.messages import Part, Role, TextPart
from app.store import chats, messages, people, replies
from app.store.copy import connect
from app.store.engine import Database
from app.store.tables import Message, Reply


async def add_person(db: Database, name: str) -> UserId:
    user = await db.write(lambda s: people.add_user(s, name=name, name_folded=name.casefold(), role="member"))
    return UserId(user.id)


async def add_chat(db: Database, owner: UserId, **fields: Any) -> ChatId:
    chat = await db.write(lambda s: chats.create(s, owner, **fields))
    return ChatId(chat.id)


async def add_message(
    db: Database,
    chat_id: ChatId,
    words: str = "Hello",
    *,
    parent: MessageId | None = None,
    role: Role = "user",
    parts: tuple[Part, ...] = (),
    **fields: Any,
) -> MessageId:
    """Stores a message and makes it the leaf of its chat."""
    id = MessageId(new_id())

    async def write(s: Any) -> None:
        chat = await chats.find(s, chat_id)
        assert chat is not None
        said = parts or (TextPart(words),)
        await messages.insert(s, chat, id=id, parent=parent, role=role, parts=said, **fields)
        if not fields.get("queued"):
            await chats.set_leaf(s, chat, id)

    await db.write(write)
    return id


async def add_thread(db: Database, chat_id: ChatId, length: int) -> list[MessageId]:
    """Stores a conversation of `length` messages, one below the other, in one transaction."""
    ids = [MessageId(new_id()) for _ in range(length)]

    async def write(s: Any) -> None:
        chat = await chats.find(s, chat_id)
        assert chat is not None
        for number, id in enumerate(ids):
            parent = ids[number - 1] if number else None
            role: Role = "assistant" if number % 2 else "user"
            await messages.insert(
                s, chat, id=id, parent=parent, role=role, parts=[TextPart(f"number {number}")]
            )
        await chats.set_leaf(s, chat, ids[-1])

    await db.write(write)
    return ids


async def add_reply(db: Database, chat_id: ChatId, input: MessageId) -> Reply:
    """Accepts a reply to that message."""
    return await db.write(
        lambda s: replies.create(
            s, chat=chat_id, input=input, after=input, run=new_run(), model=None, sampling={}
        )
    )


async def phase_of(db: Database, reply_id: ReplyId | str) -> str | None:
    async with db.read() as s:
        reply = await replies.get(s, ReplyId(reply_id))
        return reply.phase if reply else None


async def count(db: Database, table: str) -> int:
    """How many rows there are."""
    async with db.read() as s:
        return int(await s.scalar(text(f"SELECT count(*) FROM {table}")) or 0)


async def leaf_of(db: Database, chat_id: ChatId) -> str | None:
    async with db.read() as s:
        chat = await chats.find(s, chat_id)
        return chat.leaf if chat else None


async def message_of(db: Database, id: MessageId) -> Message | None:
    async with db.read() as s:
        return await s.get(Message, id)


def content(database: Path) -> dict[str, list[str]]:
    """Every row of every table that holds what people and models wrote, and the statements of the schema."""
    with closing(connect(database)) as connection:
        made = connection.execute("SELECT name, sql FROM sqlite_master ORDER BY name").fetchall()
        tables = [name for name, sql in made if sql and sql.startswith("CREATE TABLE")]
        rows = {table: connection.execute(f"SELECT * FROM '{table}'").fetchall() for table in tables}
    return {"": [str(statement) for statement in made]} | {
        table: sorted(map(repr, found)) for table, found in rows.items() if not table.startswith("search_")
    }
