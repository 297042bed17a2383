"""Messages: a tree whose branches are read from the leaf upwards, and a queue beside it."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from app.core.errors import KeyReused, NotFound
from app.core.ids import ChatId, FileId, MessageId, UserId, new_id
from app.core.messages import FilePart, Message, Part, ReasoningPart, TextPart, ToolResultPart, ToolUsePart
from app.store import chats, files, messages
from app.store.engine import Database, Session
from app.store.messages import StoredMessage
from app.store.tables import Message as Row
from tests.store.steps import (
    add_chat,
    add_message,
    add_person,
    add_reply,
    add_thread,
    leaf_of,
    message_of,
)


async def branch_of(
    db: Database, chat_id: ChatId, *, before: int | None = None, limit: int = 50
) -> list[StoredMessage]:
    async with db.read() as s:
        chat = await chats.find(s, chat_id)
        assert chat is not None
        return await messages.branch(s, chat, before=before, limit=limit)


async def path_to(db: Database, id: MessageId) -> list[StoredMessage]:
    async with db.read() as s:
        return await messages.path_to(s, id)


async def queue_of(db: Database, chat_id: ChatId) -> list[str]:
    async with db.read() as s:
        return [message.text for message in await messages.queued(s, chat_id)]


# --- one message ------------------------------------------------------------------------------------------


async def test_every_kind_of_part_comes_back_as_it_was(db: Database, owner: UserId, chat_id: ChatId) -> None:
    file = await db.write(
        lambda s: files.add_file(s, owner=owner, sha256="0" * 64, name="a.png", type="image/png", size=1)
    )
    parts: tuple[Part, ...] = (
        TextPart("Grüße, 你好 👋\u202eabc e\u0301 \r\n\t"),
        ReasoningPart("why", 120, {"signature": "s", "list": [1, None]}),
        ReasoningPart("", 0, None),
        ToolUsePart("call-1", "look", '{"a": 1,  "a": 2}', {"a": 2}),
        ToolUsePart("call-2", "look", "not json", None),
        ToolUsePart("call-3", "look", "{}", {}),
        ToolResultPart("call-1", "ok", "found", 12),
        FilePart("image", FileId(file.id), "a.png"),
        FilePart("document", FileId(file.id), ""),
        TextPart(""),
    )
    id = await add_message(db, chat_id, parts=parts, role="assistant")
    (message,) = await branch_of(db, chat_id)
    assert message.parts == parts
    assert message.neutral() == Message("assistant", parts, id)


async def test_what_can_not_be_stored_is_replaced_not_refused(db: Database, chat_id: ChatId) -> None:
    parts = (TextPart("nul \0 and \ud800"), ToolUsePart("c", "n", '{"x":"\udfff"}', {"x": "\udfff"}))
    await add_message(db, chat_id, parts=parts, role="assistant")
    (message,) = await branch_of(db, chat_id)
    assert message.text == "nul \ufffd and \ufffd"
    assert message.neutral().calls[0].arguments == '{"x":"\ufffd"}'


async def test_what_an_assistant_says_of_itself_is_kept(db: Database, chat_id: ChatId) -> None:
    said: dict[str, Any] = {
        "model": "m1",
        "model_name": "gpt",
        "endpoint": "Home",
        "api": "openai-chat",
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 3, "estimated": True},
        "tools_offered": {"names": ["look"]},
    }
    await add_message(db, chat_id, role="assistant", **said)
    (message,) = await branch_of(db, chat_id)
    assert {name: getattr(message, name) for name in said} == said


async def test_the_value_of_a_message_just_stored_is_the_one_that_is_read_later(
    db: Database, chat_id: ChatId
) -> None:
    id = MessageId(new_id())

    async def write(s: Session) -> StoredMessage:
        chat = await chats.find(s, chat_id)
        assert chat is not None
        parts = (TextPart("hello"),)
        row = await messages.insert(s, chat, id=id, parent=None, role="user", parts=parts)
        await chats.set_leaf(s, chat, id)
        return messages.stored(row, parts, (id,))

    made = await db.write(write)
    assert await branch_of(db, chat_id) == [made]


async def test_an_id_that_is_taken_is_refused_and_leaves_nothing(
    db: Database, owner: UserId, chat_id: ChatId
) -> None:
    taken = await add_message(db, chat_id, "first")
    other = await add_chat(db, owner)

    async def write(s: Session) -> None:
        chat = await chats.find(s, other)
        assert chat is not None
        await messages.insert(s, chat, id=taken, parent=None, role="user", parts=[TextPart("second")])

    with pytest.raises(KeyReused):
        await db.write(write)
    assert [message.text for message in await branch_of(db, chat_id)] == ["first"]
    assert await branch_of(db, other) == []


async def test_a_message_for_a_chat_that_was_deleted_is_refused(
    db: Database, owner: UserId, chat_id: ChatId
) -> None:
    async with db.read() as s:
        chat = await chats.owned(s, chat_id, owner)

    async def remove(s: Session) -> None:
        await chats.delete(s, await chats.owned(s, chat_id, owner))

    await db.write(remove)
    with pytest.raises(NotFound):
        await db.write(
            lambda s: messages.insert(
                s, chat, id=MessageId(new_id()), parent=None, role="user", parts=[TextPart("late")]
            )
        )


async def test_a_strangers_message_does_not_exist(db: Database, owner: UserId, chat_id: ChatId) -> None:
    id = await add_message(db, chat_id)
    stranger = await add_person(db, "Eve")
    async with db.read() as s:
        assert (await messages.owned(s, id, owner)).id == id
        with pytest.raises(NotFound):
            await messages.owned(s, id, stranger)


async def test_positions_count_up_in_a_chat_and_make_it_active(
    db: Database, owner: UserId, chat_id: ChatId
) -> None:
    other = await add_chat(db, owner)
    ids = [await add_message(db, place, str(place)) for place in (chat_id, other, chat_id)]
    rows = [await message_of(db, id) for id in ids]
    assert [row.position for row in rows if row] == [1, 1, 2]
    async with db.read() as s:
        chat = await chats.owned(s, chat_id, owner)
        assert rows[-1] is not None
        assert (chat.next_position, chat.active) == (3, rows[-1].created)


# --- branches ---------------------------------------------------------------------------------------------


async def test_a_long_branch_is_read_page_by_page(db: Database, chat_id: ChatId) -> None:
    ids = await add_thread(db, chat_id, 23)
    page = await branch_of(db, chat_id, limit=10)
    read = [message.id for message in page]
    while page:
        page = await branch_of(db, chat_id, before=page[0].position, limit=10)
        read = [message.id for message in page] + read
    assert read == ids
    assert [message.text for message in await path_to(db, ids[4])] == [f"number {n}" for n in range(5)]


async def test_a_chat_without_messages_has_an_empty_branch(db: Database, chat_id: ChatId) -> None:
    assert await branch_of(db, chat_id) == []
    assert await branch_of(db, chat_id, before=7) == []
    assert await path_to(db, MessageId(new_id())) == []


async def test_a_path_never_leaves_its_chat(db: Database, owner: UserId, chat_id: ChatId) -> None:
    foreign = await add_message(db, await add_chat(db, owner), "foreign")
    own = await add_message(db, chat_id, "own", parent=foreign)
    assert [message.text for message in await path_to(db, own)] == ["own"]


@dataclass
class Tree:
    """What a chat should hold: each message's parent, in order of position."""

    parents: dict[MessageId, MessageId | None] = field(default_factory=dict)

    def path(self, id: MessageId | None) -> list[MessageId]:
        return [] if id is None else [*self.path(self.parents[id]), id]

    def children(self, parent: MessageId | None) -> list[MessageId]:
        return [id for id, above in self.parents.items() if above == parent]

    def newest_below(self, id: MessageId) -> MessageId:
        return [other for other in self.parents if id in self.path(other)][-1]


async def plant(db: Database, chat_id: ChatId, choices: list[int]) -> Tree:
    """Stores a message for each of `choices`, below the one (or at the root) that the number picks."""
    tree = Tree()

    async def write(s: Session) -> None:
        chat = await chats.find(s, chat_id)
        assert chat is not None
        for choice in choices:
            places: list[MessageId | None] = [None, *tree.parents]
            parent = places[choice % len(places)]
            id = MessageId(new_id())
            await messages.insert(s, chat, id=id, parent=parent, role="user", parts=[TextPart(id)])
            tree.parents[id] = parent

    await db.write(write)
    return tree


@given(
    choices=st.lists(st.integers(0, 10_000), min_size=1, max_size=25),
    limit=st.integers(1, 12),
    pick=st.integers(0, 10_000),
)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_branches_paths_and_siblings_are_those_of_the_tree(
    db: Database, owner: UserId, choices: list[int], limit: int, pick: int
) -> None:
    chat_id = await add_chat(db, owner)
    tree = await plant(db, chat_id, choices)
    chosen = list(tree.parents)[pick % len(tree.parents)]
    async with db.read() as s:
        leaf = await messages.deepest_leaf(s, chosen)
        assert leaf == tree.newest_below(chosen)
        assert await messages.children(s, chosen) == tree.children(chosen)
        path = await messages.path_to(s, chosen)
        assert [message.id for message in path] == tree.path(chosen)
        assert [message.text for message in path] == tree.path(chosen)

    async def choose(s: Session) -> list[StoredMessage]:
        chat = await chats.owned(s, chat_id, owner)
        await chats.set_leaf(s, chat, leaf)
        return await messages.branch(s, chat, limit=limit)

    last = await db.write(choose)
    assert [message.id for message in last] == tree.path(leaf)[-limit:]
    for message in last:
        assert list(message.siblings) == tree.children(tree.parents[message.id])
    before = await branch_of(db, chat_id, before=last[0].position, limit=limit)
    assert [message.id for message in before] == tree.path(leaf)[:-limit][-limit:]


async def test_switching_to_a_sibling_leads_to_where_its_branch_was_last_written(
    db: Database, chat_id: ChatId
) -> None:
    first, answer = await add_thread(db, chat_id, 2)
    await add_message(db, chat_id, "older", parent=answer)
    newer = await add_message(db, chat_id, "newer", parent=answer)
    other = await add_message(db, chat_id, "another answer", parent=first, role="assistant")
    assert await leaf_of(db, chat_id) == other
    async with db.read() as s:
        assert await messages.deepest_leaf(s, answer) == newer
        assert await messages.deepest_leaf(s, other) == other


async def test_switching_back_leads_to_a_message_that_had_waited(db: Database, chat_id: ChatId) -> None:
    """It is older than the answer that it follows, but comes after it."""
    first = await add_message(db, chat_id)
    waiting = await add_message(db, chat_id, "waits", queued=True)
    answer = await add_message(db, chat_id, "answer", parent=first, role="assistant")

    async def take(s: Session) -> None:
        row = await messages.next_queued(s, chat_id)
        assert row is not None
        await messages.unqueue(s, row, answer)

    await db.write(take)
    async with db.read() as s:
        assert await messages.deepest_leaf(s, first) == waiting


async def test_the_messages_of_a_reply_come_in_order(db: Database, chat_id: ChatId) -> None:
    question = await add_message(db, chat_id)
    reply = await add_reply(db, chat_id, question)
    ids: list[MessageId] = []
    for word in ("one", "two", "three"):
        parent = ids[-1] if ids else question
        ids.append(await add_message(db, chat_id, word, parent=parent, role="assistant", reply=reply.id))
    async with db.read() as s:
        found = await messages.of_reply(s, reply.id)  # type: ignore[arg-type]
        assert [message.id for message in found] == ids
        assert [message.id for message in await messages.load(s, [ids[2], ids[0]])] == [ids[0], ids[2]]


# --- the queue --------------------------------------------------------------------------------------------


async def test_what_waits_is_in_no_branch_until_it_is_taken_in(
    db: Database, owner: UserId, chat_id: ChatId
) -> None:
    first = await add_message(db, chat_id, "first")
    picked: dict[str, Any] = {"model": "m2", "sampling": {"temperature": 0.5}}
    waiting = await add_message(db, chat_id, "waiting", queued=True, **picked)
    await add_message(db, chat_id, "behind it", queued=True)
    assert await queue_of(db, chat_id) == ["waiting", "behind it"]
    (shown,) = await branch_of(db, chat_id)
    assert shown.siblings == (first,)
    async with db.read() as s:
        queued = (await messages.queued(s, chat_id))[0]
        assert (queued.model, queued.sampling) == ("m2", {"temperature": 0.5})
        assert [message.text for message in await messages.queues(s, owner)] == ["waiting", "behind it"]

    async def take_in(s: Session) -> MessageId | None:
        message = await messages.next_queued(s, chat_id)
        assert message is not None
        await messages.unqueue(s, message, first)
        after = await messages.next_queued(s, chat_id)
        assert after is not None
        assert after.id != message.id
        await chats.set_leaf(s, await chats.owned(s, chat_id, owner), MessageId(message.id))
        return MessageId(message.id)

    assert await db.write(take_in) == waiting
    assert [message.text for message in await branch_of(db, chat_id)] == ["first", "waiting"]
    assert await queue_of(db, chat_id) == ["behind it"]


async def test_what_waits_can_be_changed_and_removed_and_what_was_taken_in_can_not(
    db: Database, chat_id: ChatId
) -> None:
    sent = await add_message(db, chat_id, "sent")
    waiting = await add_message(db, chat_id, "waiting", queued=True)
    await db.write(lambda s: messages.replace_parts(s, waiting, (TextPart("changed"), TextPart("!"))))
    assert await queue_of(db, chat_id) == ["changed!"]

    async def remove(s: Session, id: MessageId) -> bool:
        message = await s.get(Row, id)
        assert message is not None
        return await messages.delete_queued(s, message)

    assert await db.write(lambda s: remove(s, waiting))
    assert not await db.write(lambda s: remove(s, sent))
    assert await queue_of(db, chat_id) == []
    assert len(await branch_of(db, chat_id)) == 1
