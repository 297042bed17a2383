"""The log of an ended reply comes back as it was, however large."""

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from app.core.ids import ChatId, ReplyId, RunId, new_id, new_run
from app.store import events
from app.store.engine import Database
from app.store.events import LARGE, EventRecord
from tests.store.steps import add_message, add_reply, count


@pytest.fixture
async def reply(db: Database, chat_id: ChatId) -> tuple[ReplyId, RunId]:
    """A reply and its run."""
    row = await add_reply(db, chat_id, await add_message(db, chat_id))
    return ReplyId(row.id), RunId(row.run)


async def keep(db: Database, reply: ReplyId, run: RunId, *records: EventRecord) -> None:
    await db.write(lambda s: events.insert_all(s, reply, run, records))


def record(seq: int, type: str = "text", ts: int = 5, **data: object) -> EventRecord:
    return EventRecord(seq, seq, 1, ts, type, data)


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(datas=st.lists(st.dictionaries(st.text(), _JSON, max_size=4), max_size=6))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_a_log_comes_back_as_it_was(
    db: Database, reply: tuple[ReplyId, RunId], datas: list[dict[str, object]]
) -> None:
    run = new_run()
    log = [
        EventRecord(n * 2 + 1, n * 2 + 2, n, 1000 + n, "text", data, [1, n]) for n, data in enumerate(datas)
    ]
    await keep(db, reply[0], run, *log)
    async with db.read() as s:
        assert await events.read(s, reply[0], run) == (run, log)


@pytest.mark.parametrize("size", [LARGE - 100, LARGE, 300_000])
async def test_large_payloads_lie_apart_and_come_back_whole(
    db: Database, reply: tuple[ReplyId, RunId], size: int
) -> None:
    log = [record(1, text="small"), record(2, text="x" * size), record(3, text="small again")]
    await keep(db, *reply, *log)
    assert await count(db, "event_blob") == (size >= LARGE)
    async with db.read() as s:
        assert await events.read(s, reply[0]) == (reply[1], log)


async def test_the_newest_run_is_read_unless_one_is_named(db: Database, reply: tuple[ReplyId, RunId]) -> None:
    older, newer = new_run(), new_run()
    await keep(db, reply[0], newer, record(1, ts=20, text="newer"))
    await keep(db, reply[0], older, record(1, ts=10, text="older"), record(2, ts=11, text="older still"))
    async with db.read() as s:
        assert (await events.read(s, reply[0]))[0] == newer
        assert [entry.data["text"] for entry in (await events.read(s, reply[0], older))[1]] == [
            "older",
            "older still",
        ]


async def test_a_reply_without_a_log_has_none(db: Database, reply: tuple[ReplyId, RunId]) -> None:
    async with db.read() as s:
        assert await events.read(s, reply[0]) == (None, [])
        assert await events.read(s, ReplyId(new_id())) == (None, [])


async def test_a_log_that_is_stored_twice_is_there_once(db: Database, reply: tuple[ReplyId, RunId]) -> None:
    log = [record(1, text="x" * LARGE), record(2, text="b")]
    await keep(db, *reply, *log)
    await keep(db, *reply, *log)
    async with db.read() as s:
        assert await events.read(s, reply[0]) == (reply[1], log)


async def test_the_log_of_a_reply_that_is_gone_is_dropped(db: Database) -> None:
    await keep(db, ReplyId(new_id()), new_run(), record(1, text="late"))
    assert await count(db, "event") == 0


async def test_the_warnings_of_replies_are_found_at_once(db: Database, reply: tuple[ReplyId, RunId]) -> None:
    older, newer = new_run(), new_run()
    await keep(db, reply[0], older, record(1, "warning", 10, code="old", text="Old."))
    await keep(
        db,
        reply[0],
        newer,
        record(1, ts=20, text="hello"),
        record(2, "warning", 21, code="cut", text="Cut."),
        record(3, "warning", 22, code="late", text="Late."),
    )
    async with db.read() as s:
        assert await events.warnings(s, [reply[0], ReplyId(new_id())]) == {reply[0]: ["Cut.", "Late."]}
        assert await events.warnings(s, []) == {}
