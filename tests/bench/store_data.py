"""A store as somebody has it after years: chats of all lengths, long answers, branches, everyday words.

python -m tests.bench.store_data        make one in a temporary folder and print what reading it costs
"""

import asyncio
import random
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import insert

from app.core.clock import now_ms
from app.core.ids import ChatId, MessageId, ReplyId, UserId, new_id, new_run
from app.core.messages import TextPart
from app.store import chats, idempotency, messages, people, replies, search
from app.store.engine import Database, Session
from app.store.folder import DataFolder
from app.store.tables import Chat, Message, Part, Reply
from app.tasks import Tasks

MINUTE = 60_000
_SYLLABLES = [a + b for a in "bdfgklmnprst" for b in "aeiou"]


@dataclass(frozen=True)
class Generated:
    """Whose it is, the chat of `big_chat` messages, a word that is in most messages, and one in very few."""

    owner: UserId
    big_chat: ChatId
    common: str
    rare: str


async def generate(
    database: Database,
    chats: int = 1000,
    messages: int = 20000,
    big_chat: int = 500,
    *,
    owner: UserId | None = None,
    seed: int = 1,
) -> Generated:
    """Fill `database`: the same for the same `seed` but for ids and times. Adds a person if `owner` is None."""
    if owner is None:
        owner = UserId((await database.write(_add_owner)).id)
    maker = _Maker(random.Random(seed), owner)
    lengths = maker.lengths(chats - 1, messages - big_chat)
    oldest = now_ms() - (messages + chats) * MINUTE
    big = maker.chat(big_chat, oldest)
    for length in lengths:
        maker.chat(length, maker.last)
    for rows in maker.batches():
        await database.write(rows)
    return Generated(owner, big, maker.words[0], maker.words[-1])


async def _add_owner(s: Session) -> Any:
    return await people.add_user(s, name="Generated", name_folded="generated", role="member")


class _Maker:
    """Collects rows; `last` is the time of the newest message, in ms."""

    def __init__(self, chance: random.Random, owner: UserId) -> None:
        self.chance = chance
        self.owner = owner
        self.last = 0
        self.words = list(dict.fromkeys("".join(chance.choices(_SYLLABLES, k=3)) for _ in range(6000)))
        # The n-th word comes 1/n as often as the first, as in any language.
        self.weights = [1 / (rank + 1) for rank in range(len(self.words))]
        self.rows: dict[type[Any], list[dict[str, Any]]] = {Chat: [], Message: [], Part: [], Reply: []}

    def lengths(self, chats: int, messages: int) -> list[int]:
        """Lengths of that many chats, which add up to `messages`: many short ones, a few long ones."""
        shares = [self.chance.paretovariate(1.5) for _ in range(chats)]
        lengths = [max(2, int(messages * share / sum(shares))) for share in shares]
        lengths[0] += max(0, messages - sum(lengths))
        return lengths

    def text(self, words: int) -> str:
        chosen = self.chance.choices(self.words, self.weights, k=words)
        sentences = (" ".join(chosen[start : start + 12]) + "." for start in range(0, words, 12))
        return " ".join(sentences)

    def chat(self, length: int, at: int) -> ChatId:
        chat = ChatId(new_id())
        leaf: str | None = None
        question = ""
        for position in range(1, length + 1):
            at += MINUTE
            asks = position % 2 == 1
            reply = None if asks else self._reply(chat, question, at)
            leaf = self._message(chat, leaf, position, at, reply, self.chance.randint(5, 60 if asks else 250))
            question = leaf if asks else question
            if reply and self.chance.random() < 0.02:  # answered a second time
                self._message(chat, question, length + position, at, reply, 80)
        self.last = at
        self.rows[Chat].append(
            {
                "id": chat,
                "owner": self.owner,
                "kind": "chat",
                "title": self.text(5),
                "title_from": "model",
                "leaf": leaf,
                "created": at - length * MINUTE,
                "active": at,
                "next_position": 2 * length + 1,
                "unread": self.chance.random() < 0.01,
                "pinned": self.chance.random() < 0.005,
                "folder": self.chance.choice([None, None, None, "Work", "Home"]),
            }
        )
        return chat

    def _message(
        self, chat: str, parent: str | None, position: int, at: int, reply: str | None, words: int
    ) -> str:
        id = MessageId(new_id())
        answered = {"model": "m", "model_name": "generated-1", "endpoint": "e", "api": "openai-chat"}
        row: dict[str, Any] = dict.fromkeys((*answered, "stop_reason", "usage", "tools_offered", "sampling"))
        if reply:
            row.update(answered, stop_reason="end_turn", usage={"input_tokens": 900, "output_tokens": words})
        row.update(id=id, chat=chat, parent=parent, role="assistant" if reply else "user", reply=reply)
        self.rows[Message].append({**row, "position": position, "created": at})
        self.rows[Part].append({"message": id, "place": 0, "type": "text", "text": self.text(words)})
        return id

    def _reply(self, chat: str, question: str, at: int) -> str:
        id = new_id()
        row = {
            "id": id,
            "chat": chat,
            "input": question,
            "after": question,
            "phase": "complete",
            "run": new_run(),
        }
        self.rows[Reply].append({**row, "stop_reason": "end_turn", "created": at, "started": at, "ended": at})
        return id

    def batches(self, size: int = 2000) -> list[Callable[[Session], Awaitable[None]]]:
        """The rows as writes of `size` rows each, chats before messages before parts."""

        def batch(table: type[Any], rows: list[dict[str, Any]]) -> Callable[[Session], Awaitable[None]]:
            async def write(s: Session) -> None:
                await s.execute(insert(table.__table__), rows)

            return write

        return [
            batch(table, rows[start : start + size])
            for table, rows in self.rows.items()
            for start in range(0, len(rows), size)
        ]


async def _times(read: Callable[[], Awaitable[Any]], repeat: int = 60) -> str:
    taken = []
    for _ in range(repeat):
        began = time.perf_counter()
        await read()
        taken.append((time.perf_counter() - began) * 1000)
    return f"{statistics.median(taken):6.2f} ms median, {statistics.quantiles(taken, n=20)[-1]:6.2f} ms 95th"


async def measure() -> None:
    with tempfile.TemporaryDirectory() as folder:
        database = await Database.open(DataFolder(Path(folder)), Tasks("bench"))
        began = time.perf_counter()
        made = await generate(database)
        longer = await generate(database, chats=2, messages=5002, big_chat=5000, owner=made.owner, seed=2)
        version = ".".join(map(str, database.sqlite_version))
        print(f"SQLite {version}, made in {time.perf_counter() - began:.1f} s")
        for name, read in _reads(database, made, longer).items():
            print(f"{name:42}", await _times(read))
        await database.close()


def _reads(database: Database, made: Generated, longer: Generated) -> dict[str, Callable[[], Awaitable[Any]]]:
    async def sidebar() -> None:
        async with database.read() as s:
            await chats.listing(s, made.owner)

    def opened(chat: ChatId) -> Callable[[], Awaitable[None]]:
        async def read() -> None:
            async with database.read() as s:
                await messages.branch(s, await chats.owned(s, chat, made.owner))

        return read

    def path(chat: ChatId) -> Callable[[], Awaitable[None]]:
        async def read() -> None:
            async with database.read() as s:
                row = await chats.owned(s, chat, made.owner)
                assert row.leaf is not None
                await messages.path_to(s, MessageId(row.leaf))

        return read

    def found(words: str) -> Callable[[], Awaitable[None]]:
        async def read() -> None:
            async with database.read() as s:
                await search.find(s, made.owner, words)

        return read

    async def accepted() -> None:
        await database.write(lambda s: _accept(s, made))

    return {
        "sidebar, 100 rows": sidebar,
        "open the 500-message chat, 50 messages": opened(made.big_chat),
        "open the 5,000-message chat, 50 messages": opened(longer.big_chat),
        "the whole path of the 500-message chat": path(made.big_chat),
        "the whole path of the 5,000-message chat": path(longer.big_chat),
        "search: a common word": found(made.common),
        "search: a rare word": found(made.rare),
        "search: two words": found(f"{made.common} {made.rare}"),
        "search: three letters": found(made.common[:3]),
        "search: one letter": found(made.common[:1]),
        "search: nothing there": found("nothinglikeit"),
        "accept a message": accepted,
    }


async def _accept(s: Session, made: Generated) -> None:
    """What accepting costs the store at least; the outcome is there to free the lane for the next one."""
    key, id, run = new_id(), MessageId(new_id()), new_run()
    assert await idempotency.seen(s, made.owner, key) is None
    chat = await chats.owned(s, made.big_chat, made.owner)
    assert await replies.live_in(s, made.big_chat) is None
    parts = (TextPart("How far is the moon?"),)
    await messages.insert(s, chat, id=id, parent=MessageId(chat.leaf or ""), role="user", parts=parts)
    reply = await replies.create(s, chat=made.big_chat, input=id, after=id, run=run, model=None, sampling={})
    await idempotency.record(s, made.owner, key, "0" * 64, "message", id)
    await replies.outcome(s, ReplyId(reply.id), run, "complete")


if __name__ == "__main__":
    asyncio.run(measure())
