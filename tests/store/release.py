"""The database of a release, with something odd in every table, as SQL: what later versions must be able to open.

python -m tests.store.release > tests/fixtures/store/0001.sql      once, with the release that ends at that schema
"""

import asyncio
import sqlite3
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any, cast

from app.core.ids import ChatId, FileId, MessageId, ReplyId, RunId, UserId, new_id, new_run
from app.core.messages import FilePart, ReasoningPart, TextPart, ToolResultPart, ToolUsePart
from app.core.reply import Ended, Phase
from app.store import (
    chats,
    drafts,
    endpoints,
    events,
    files,
    idempotency,
    ledger,
    messages,
    people,
    replies,
    secrets,
    settings,
)
from app.store.audit import append_audit
from app.store.copy import connect
from app.store.engine import Database, Session
from app.store.events import EventRecord
from app.store.folder import DataFolder
from app.store.tables import Base, Chat, Model
from app.tasks import Tasks

ODD = (
    'It\'s "odd": Grüße, 你好 日本語, \u202eright to left\u202c, e\u0301, \U0001f469\u200d\U0001f467; '
    "-- no comment\n\tlast\r\nline \\ %s"
)


async def fill(s: Session) -> None:
    user = await add_people(s)
    await add_settings(s)
    await add_chats(s, user)


async def add_people(s: Session) -> UserId:
    ada = await people.add_user(
        s,
        name="Ada Ünlü",
        name_folded="ada ünlü",
        role="admin",
        password="$argon2id$x",
        preferences={"t": [1, None]},
    )
    await people.add_user(s, name="O'Eve", name_folded="o'eve", role="member")
    user = UserId(ada.id)
    await people.add_session(s, user=user, token_hash="t1", csrf="c", expires=2**41, agent=ODD, address="::1")
    await people.add_key(s, user=user, name=ODD, scope="chat", hash="h1", prefix="nd_")
    await people.add_link(s, kind="sign-in", token_hash="l1", expires=2**41, user=user)
    await people.add_link(s, kind="setup", token_hash="l2", expires=1)
    for number in range(3):
        await append_audit(s, action="note", actor=user, actor_name="Ada", detail={"n": number, "odd": ODD})
    return user


async def add_settings(s: Session) -> None:
    await settings.put(s, "odd", {"text": ODD, "list": [None, 1.5, True]})
    endpoint = await endpoints.add(s, name=ODD, api="openai-chat", base_url="http://[::1]:8080/v1")
    s.add(
        Model(
            id=new_id(),
            endpoint=endpoint.id,
            wire_name="a/b:c",
            name=ODD,
            capabilities=["vision"],
            edited=["name"],
        )
    )
    await s.flush()
    await secrets.add_data_key(s, 1, b"\x00wrapped\xff")
    await secrets.put(
        s, endpoint.id, "key", origin="http://[::1]:8080", key_version=1, sealed=b"\x00\x01'\xff"
    )


async def add_chats(s: Session, user: UserId) -> None:
    file = await files.add_file(s, owner=user, sha256="0" * 64, name=ODD, type="image/png", size=3)
    phases: tuple[Phase, ...] = ("complete", "stopped", "failed", "interrupted", "running", "accepted")
    for place, phase in enumerate(phases):
        chat = await chats.create(s, user, title=ODD if place else "", temporary=place == 1, folder=ODD)
        asked = (TextPart(ODD), FilePart("image", FileId(file.id), ODD))
        question = await messages.insert(s, chat, id=_id(), parent=None, role="user", parts=asked)
        run, asking = new_run(), MessageId(question.id)
        reply = await replies.create(
            s,
            chat=ChatId(chat.id),
            input=asking,
            after=asking,
            run=run,
            model=None,
            sampling={"top_p": 0.5},
        )
        await answer(s, chat, asking, ReplyId(reply.id), run, large=place == 0)
        await messages.insert(
            s, chat, id=_id(), parent=None, role="user", parts=[TextPart("waits")], queued=True
        )
        if phase not in ("running", "accepted"):
            error = {"text": ODD, "code": "unreachable", "actions": ["retry"]} if phase == "failed" else None
            await replies.outcome(
                s, ReplyId(reply.id), run, cast(Ended, phase), error=error, usage={"input_tokens": 3}
            )
        elif phase == "running":
            await replies.move(s, ReplyId(reply.id), run, "running", started=5)
        await drafts.put(s, user, ChatId(chat.id), ODD)
        await idempotency.record(s, user, f"key {place}", "f" * 64, "message", question.id)
    await drafts.put(s, user, None, ODD)


async def answer(
    s: Session, chat: Chat, question: MessageId, reply: ReplyId, run: RunId, large: bool
) -> None:
    thought = ReasoningPart(ODD, 120, {"signature": ODD})
    call = ToolUsePart("call", "look", '{"odd":  "\\u00e9"}', {"odd": "é"})
    said: dict[str, Any] = {
        "model": "m",
        "model_name": ODD,
        "endpoint": ODD,
        "api": "openai-chat",
        "stop_reason": "tool_use",
    }
    first, second = _id(), _id()
    parts = (thought, TextPart(ODD), call)
    await messages.insert(
        s, chat, id=first, parent=question, role="assistant", parts=parts, reply=reply, **said
    )
    result = (ToolResultPart("call", "error", ODD, 7),)
    await messages.insert(s, chat, id=second, parent=first, role="tool", parts=result, reply=reply)
    sibling = (TextPart("a second answer"),)
    await messages.insert(s, chat, id=_id(), parent=question, role="assistant", parts=sibling)
    await chats.set_leaf(s, chat, second)
    log = [
        EventRecord(1, 3, 1, 10, "text", {"text": ODD}, [1, 2, len(ODD) - 3]),
        EventRecord(4, 4, 1, 11, "warning", {"code": "odd", "text": ODD}),
        EventRecord(5, 5, 1, 12, "tool_result", {"text": "large " * (6000 if large else 1)}),
    ]
    await events.insert_all(s, reply, run, log)
    await replies.add_request(
        s, reply=reply, message=first, model_name=ODD, endpoint=ODD, request={"messages": [question, ODD]}
    )
    row: dict[str, Any] = {
        "user": chat.owner,
        "chat": chat.id,
        "reply": reply,
        "role": "chat",
        "model": "m",
        "model_name": ODD,
    }
    await ledger.add(s, **row, endpoint=ODD, estimated=True, cost=0.125, input_tokens=3)


def _id() -> MessageId:
    return MessageId(new_id())


def dump(connection: sqlite3.Connection) -> str:
    """The database as a script: its schema, then the rows of each table, those of the search index left to triggers."""
    made = connection.execute(
        "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid"
    ).fetchall()
    virtual = [name for name, sql in made if sql.startswith("CREATE VIRTUAL")]
    shadows = {
        f"{name}_{kind}" for name in virtual for kind in ("data", "idx", "content", "docsize", "config")
    }
    lines = [f"{sql};" for name, sql in made if name not in shadows]
    tables = ["alembic_version", "compatibility", *(table.name for table in Base.metadata.sorted_tables)]
    for table in tables:
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info('{table}')")]
        values = " || ', ' || ".join(f'quote("{column}")' for column in columns)
        for (row,) in connection.execute(f'SELECT {values} FROM "{table}"'):
            lines.append(f'INSERT INTO "{table}" VALUES ({row});')
    return "\n".join(lines) + "\n"


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = DataFolder(Path(folder))
        database = await Database.open(place, Tasks("release"))
        await database.write(fill)
        await database.close()
        with closing(connect(place.database)) as connection:
            sys.stdout.buffer.write(dump(connection).encode())


if __name__ == "__main__":
    asyncio.run(main())
