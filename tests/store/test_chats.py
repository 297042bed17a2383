"""Chats: private, listed in order, titled by the strongest voice, and gone without a trace when deleted."""

import pytest
from sqlalchemy import text

from app.core.clock import now_ms
from app.core.errors import Invalid, KeyReused, NotFound
from app.core.ids import ChatId, MessageId, ReplyId, UserId, new_id
from app.core.messages import FilePart, TextPart
from app.store import chats, drafts, events, files, idempotency, ledger, replies
from app.store.chats import ChatRow, TitleFrom
from app.store.engine import Database, Session
from app.store.events import EventRecord
from tests.store.steps import add_chat, add_message, add_person, add_reply, count, phase_of


async def listed(db: Database, user: UserId, **how: object) -> list[ChatRow]:
    async with db.read() as s:
        found, _ = await chats.listing(s, user, **how)  # type: ignore[arg-type]
    return found


async def ids(db: Database, user: UserId, **how: object) -> list[ChatId]:
    return [row.id for row in await listed(db, user, **how)]


async def update(db: Database, user: UserId, chat_id: ChatId, **fields: object) -> None:
    async def write(s: Session) -> None:
        await chats.update(s, await chats.owned(s, chat_id, user), **fields)

    await db.write(write)


async def touch(db: Database, chat_id: ChatId, active: int) -> None:
    await db.write(lambda s: s.execute(text(f"UPDATE chat SET active = {active} WHERE id = '{chat_id}'")))


async def test_a_strangers_chat_does_not_exist(db: Database, owner: UserId, chat_id: ChatId) -> None:
    stranger = await add_person(db, "Eve")
    async with db.read() as s:
        assert (await chats.owned(s, chat_id, owner)).id == chat_id
        for user, id in ((stranger, chat_id), (owner, ChatId(new_id()))):
            with pytest.raises(NotFound):
                await chats.owned(s, id, user)
            with pytest.raises(NotFound):
                await chats.row(s, id, user)
    assert await ids(db, stranger) == []


async def test_an_id_that_is_taken_is_refused(db: Database, owner: UserId, chat_id: ChatId) -> None:
    with pytest.raises(KeyReused):
        await add_chat(db, owner, id=chat_id)


async def test_the_list_is_by_last_activity_with_pinned_chats_before_all(db: Database, owner: UserId) -> None:
    made = [await add_chat(db, owner) for _ in range(5)]
    for place, id in enumerate(made):
        await touch(db, id, 1000 - place)
    await update(db, owner, made[3], pinned=True)
    assert await ids(db, owner) == [made[3], made[0], made[1], made[2], made[4]]
    assert await ids(db, owner, pinned_first=False) == made
    assert await ids(db, owner, pinned=True) == [made[3]]
    assert await ids(db, owner, pinned=False) == [made[0], made[1], made[2], made[4]]


@pytest.mark.parametrize("pinned_first", [True, False])
async def test_pages_of_the_list_hold_each_chat_once(db: Database, owner: UserId, pinned_first: bool) -> None:
    made = [await add_chat(db, owner) for _ in range(11)]
    for place, id in enumerate(made):
        await touch(db, id, 1000 + place // 4)  # several at the same moment
        if place % 3 == 0:
            await update(db, owner, id, pinned=True)
    seen: list[ChatId] = []
    cursor = None
    while True:
        async with db.read() as s:
            page, cursor = await chats.listing(s, owner, cursor=cursor, limit=3, pinned_first=pinned_first)
        seen += [row.id for row in page]
        if cursor is None:
            break
    assert seen == await ids(db, owner, pinned_first=pinned_first)
    assert sorted(seen) == sorted(made)


@pytest.mark.parametrize(
    "cursor", ["", "1", "x.y.z", "1.2.3", "0.5." + "-" * 35, "9.1." + "a" * 36, "1.5.\0"]
)
async def test_a_cursor_that_is_not_ours_is_refused(db: Database, owner: UserId, cursor: str) -> None:
    async with db.read() as s:
        with pytest.raises(Invalid):
            await chats.listing(s, owner, cursor=cursor)


async def test_the_list_knows_folders_archive_and_marks(db: Database, owner: UserId) -> None:
    work, old, fresh = [await add_chat(db, owner, title=name) for name in ("work", "old", "fresh")]
    await update(db, owner, work, folder="Work")
    await update(db, owner, old, archived=True)
    await update(db, owner, fresh, unread=True)
    reply = await add_reply(db, work, await add_message(db, work))
    await db.write(lambda s: replies.move(s, ReplyId(reply.id), reply.run, "running"))  # type: ignore[arg-type]
    await db.write(lambda s: replies.move(s, ReplyId(reply.id), reply.run, "waiting"))  # type: ignore[arg-type]

    (row,) = await listed(db, owner, folder="Work")
    assert (row.title, row.running_reply, row.waiting) == ("work", reply.id, True)
    assert await ids(db, owner, archived=True) == [old]
    (row,) = [row for row in await listed(db, owner) if row.id == fresh]
    assert (row.unread, row.running_reply, row.waiting) == (True, None, False)
    async with db.read() as s:
        assert await chats.row(s, fresh, owner) == row
        assert await chats.folders(s, owner) == ["Work"]
        assert await chats.unread(s, owner) == [fresh]
        assert await chats.lanes(s, owner) == [(work, reply.id, "waiting")]


async def test_temporary_chats_are_never_listed_and_end_after_their_time(db: Database, owner: UserId) -> None:
    gone, running = [await add_chat(db, owner, temporary=True) for _ in range(2)]
    kept = await add_chat(db, owner)
    reply = await add_reply(db, running, await add_message(db, running))
    assert await ids(db, owner) == [kept]
    assert await db.write(lambda s: chats.expire_temporary(s, now_ms() - 10_000)) == []
    assert await db.write(lambda s: chats.expire_temporary(s, now_ms() + 1)) == [gone]
    assert await phase_of(db, reply.id) == "accepted"


ORDER: list[TitleFrom] = ["none", "opening", "model", "person"]


@pytest.mark.parametrize("there", ORDER)
@pytest.mark.parametrize("new", ORDER)
async def test_a_title_yields_only_to_one_as_strong(
    db: Database, owner: UserId, chat_id: ChatId, there: TitleFrom, new: TitleFrom
) -> None:
    await db.write(lambda s: chats.set_title(s, chat_id, "first", there))
    won = await db.write(lambda s: chats.set_title(s, chat_id, "second", new))
    assert won == (ORDER.index(new) >= ORDER.index(there))
    assert (await listed(db, owner))[0].title == ("second" if won else "first")


async def test_a_title_given_by_hand_is_never_overwritten(
    db: Database, owner: UserId, chat_id: ChatId
) -> None:
    await update(db, owner, chat_id, title="Mine")
    assert not await db.write(lambda s: chats.set_title(s, chat_id, "Model's", "model"))
    assert not await db.write(lambda s: chats.set_title(s, ChatId(new_id()), "No chat", "model"))


async def test_a_field_that_is_not_there_cannot_be_changed(
    db: Database, owner: UserId, chat_id: ChatId
) -> None:
    with pytest.raises(Invalid) as refusal:
        await update(db, owner, chat_id, owner="somebody else")
    assert refusal.value.field == "owner"


async def test_deleting_a_chat_removes_all_that_hangs_on_it_and_keeps_the_rest(
    db: Database, owner: UserId
) -> None:
    chat, other = await add_chat(db, owner, title="Gone"), await add_chat(db, owner, title="Kept")
    file = await db.write(
        lambda s: files.add_file(s, owner=owner, sha256="0" * 64, name="a", type="image/png", size=1)
    )
    parts = (TextPart("look"), FilePart("image", file.id, "a"))  # type: ignore[arg-type]
    for place in (chat, other):
        question = await add_message(db, place, parts=parts)
        reply = await add_reply(db, place, question)
        await add_message(db, place, "answer", parent=question, role="assistant", reply=reply.id)
        await add_message(db, place, "next", queued=True)
        await db.write(lambda s, place=place: drafts.put(s, owner, place, "draft"))  # type: ignore[misc]
        await log(db, ReplyId(reply.id), reply.run)
        await spend(db, owner, place, reply.id)
        await db.write(lambda s, id=question: idempotency.record(s, owner, id, "f", "message", id))  # type: ignore[misc]

    async def remove(s: Session) -> None:
        await chats.delete(s, await chats.owned(s, chat, owner))

    await db.write(remove)
    for table, left in {"chat": 1, "message": 3, "part": 4, "reply": 1, "event": 2, "event_blob": 1}.items():
        assert await count(db, table) == left, table
    assert await count(db, "sent_request") == 1
    assert await count(db, "draft") == 1
    assert await count(db, "search_entry") == 4
    assert await count(db, "usage") == 2
    assert await count(db, "file") == 1
    async with db.read() as s:
        assert (await s.execute(text("PRAGMA foreign_key_check"))).all() == []


async def log(db: Database, reply: ReplyId, run: object) -> None:
    records = [
        EventRecord(1, 1, 1, 5, "text", {"text": "short"}),
        EventRecord(2, 2, 1, 6, "text", {"text": "x" * 40_000}),
    ]

    async def write(s: Session) -> None:
        await events.insert_all(s, reply, run, records)  # type: ignore[arg-type]
        await replies.add_request(
            s,
            reply=reply,
            message=MessageId(new_id()),
            model_name="m",
            endpoint="e",
            request={"messages": []},
        )

    await db.write(write)


async def spend(db: Database, user: UserId, chat: ChatId, reply: str) -> None:
    row = {"user": user, "chat": chat, "reply": reply, "role": "chat", "model": "m", "model_name": "m"}
    await db.write(lambda s: ledger.add(s, **row, endpoint="e", estimated=False))


async def test_a_reply_whose_chat_is_gone_ends_without_error(
    db: Database, owner: UserId, chat_id: ChatId
) -> None:
    reply = await add_reply(db, chat_id, await add_message(db, chat_id))
    id, run = ReplyId(reply.id), reply.run

    async def remove(s: Session) -> None:
        await chats.delete(s, await chats.owned(s, chat_id, owner))

    await db.write(remove)

    async def finish(s: Session) -> tuple[bool, bool]:
        moved = await replies.move(s, id, run, "running")  # type: ignore[arg-type]
        ended = await replies.outcome(s, id, run, "stopped", reason="deleted")  # type: ignore[arg-type]
        await events.insert_all(s, id, run, [EventRecord(1, 1, 1, 1, "text", {"text": "x" * 40_000})])  # type: ignore[arg-type]
        assert await chats.find(s, chat_id) is None
        return moved, ended

    assert await db.write(finish) == (False, False)
    assert await count(db, "event") == 0
    assert await count(db, "event_blob") == 0


async def test_deleting_a_person_takes_their_chats_along(
    db: Database, owner: UserId, chat_id: ChatId
) -> None:
    await add_reply(db, chat_id, await add_message(db, chat_id, "hello"))
    await db.write(lambda s: s.execute(text(f"DELETE FROM user WHERE id = '{owner}'")))
    for table in ("chat", "message", "part", "reply", "search_entry"):
        assert await count(db, table) == 0
