"""The promises of `Database`: one writer, snapshots for readers, writes that end whole whoever waits for them."""

import asyncio
import random
import time
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from app.core.errors import Closing, NotFound, StorageBusy, StorageFault
from app.core.ids import UserId, new_id
from app.store import people, settings
from app.store.copy import trusted_schema
from app.store.engine import Database, Session, is_sound
from app.store.folder import DataFolder
from app.tasks import Tasks
from tests.store.conftest import Opened
from tests.store.other import Holding
from tests.store.steps import add_person, count


async def add_one(s: Session) -> int:
    """Reads a number, lets others run, and writes the next: what two writers at once would lose."""
    value = (await settings.read_all(s)).get("number", 0)
    await asyncio.sleep(0)
    await settings.put(s, "number", value + 1)
    return int(value + 1)


async def number(db: Database) -> int:
    async with db.read() as s:
        return int((await settings.read_all(s)).get("number", 0))


async def test_what_was_written_is_read(db: Database) -> None:
    await db.write(lambda s: settings.put(s, "colour", {"name": "teal", "parts": [1, None, 0.5]}))
    async with db.read() as s:
        assert await settings.read_all(s) == {"colour": {"name": "teal", "parts": [1, None, 0.5]}}


async def test_a_write_gives_back_what_its_function_gives(db: Database) -> None:
    assert await db.write(add_one) == 1


async def test_a_write_that_raises_leaves_nothing(db: Database) -> None:
    async def refuse(s: Session) -> None:
        await add_one(s)
        raise NotFound("nothing here")

    with pytest.raises(NotFound):
        await db.write(refuse)
    assert await number(db) == 0


async def test_a_changed_row_is_written_without_being_asked(db: Database, owner: UserId) -> None:
    async def rename(s: Session) -> None:
        user = await people.user(s, owner)
        assert user is not None
        user.name = "Grace"

    await db.write(rename)
    async with db.read() as s:
        user = await people.user(s, owner)
        assert user is not None
        assert user.name == "Grace"


async def test_four_hundred_read_then_write_transactions_at_once_lose_nothing(db: Database) -> None:
    assert sorted(await asyncio.gather(*(db.write(add_one) for _ in range(400)))) == list(range(1, 401))
    assert await number(db) == 400


async def test_a_write_that_fails_undoes_none_of_those_it_shares_a_transaction_with(db: Database) -> None:
    async def refuse(s: Session) -> int:
        await add_one(s)
        await s.execute(text("INSERT INTO setting (name, value) VALUES ('half', '1')"))
        raise NotFound("nothing here")

    jobs = [db.write(refuse if place % 3 == 0 else add_one) for place in range(60)]
    outcomes = await asyncio.gather(*jobs, return_exceptions=True)
    assert [isinstance(outcome, NotFound) for outcome in outcomes] == [place % 3 == 0 for place in range(60)]
    assert await number(db) == 40
    assert await count(db, "setting") == 1


async def test_a_violated_constraint_is_told_apart_from_a_fault_of_storage(db: Database) -> None:
    await add_person(db, "Ada")
    with pytest.raises(IntegrityError):
        await add_person(db, "ADA")


async def test_a_reading_session_cannot_write(db: Database) -> None:
    with pytest.raises(StorageFault):
        async with db.read() as s:
            await settings.put(s, "number", 1)
    assert await number(db) == 0


async def test_a_reading_session_sees_one_moment(db: Database) -> None:
    async with db.read() as s:
        assert await settings.read_all(s) == {}
        if not db.single:  # else the write would wait for this session
            await db.write(add_one)
        assert await settings.read_all(s) == {}


async def test_a_write_inside_a_write_is_a_mistake_that_is_told_at_once(db: Database) -> None:
    async def inner(s: Session) -> int:
        return await db.write(add_one)

    with pytest.raises(RuntimeError, match="inside a write"):
        await db.write(inner)
    assert await db.write(add_one) == 1


async def test_a_cancelled_caller_does_not_stop_the_write(db: Database) -> None:
    began, go_on = asyncio.Event(), asyncio.Event()

    async def slow(s: Session) -> None:
        await add_one(s)
        began.set()
        await go_on.wait()

    caller = asyncio.ensure_future(db.write(slow))
    await began.wait()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    go_on.set()
    assert await db.write(add_one) == 2


async def test_a_storm_of_cancels_stalls_no_write(db: Database) -> None:
    chance = random.Random(7)

    async def cancelled_somewhere() -> None:
        caller = asyncio.ensure_future(db.write(add_one))
        await asyncio.sleep(chance.random() * 0.004)
        caller.cancel()
        await asyncio.gather(caller, return_exceptions=True)

    slowest = 0.0
    for _ in range(300):
        await cancelled_somewhere()
        began = time.monotonic()
        await db.write(add_one)
        slowest = max(slowest, time.monotonic() - began)
    assert await number(db) == 600
    # A transaction cut off in the middle would hold its lock for the busy time-out of 5 s.
    assert slowest < 2.5


async def test_a_storm_of_cancelled_reads_leaves_every_connection_usable(db: Database) -> None:
    chance = random.Random(8)

    async def read() -> None:
        async with db.read() as s:
            for _ in range(5):
                await s.execute(text("SELECT count(*) FROM sqlite_master"))

    for _ in range(150):
        readers = [asyncio.ensure_future(read()) for _ in range(6)]
        await asyncio.sleep(chance.random() * 0.004)
        for reader in readers:
            reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)
    await asyncio.gather(*(read() for _ in range(20)))
    assert await db.write(add_one) == 1


async def test_more_readers_than_connections_wait_for_one_another(db: Database) -> None:
    async def read() -> int:
        async with db.read() as s:
            await asyncio.sleep(0.001)
            return int(await s.scalar(text("SELECT 1")) or 0)

    assert sum(await asyncio.gather(*(read() for _ in range(50)))) == 50


async def test_closing_waits_for_the_writes_under_way_and_refuses_new_ones(folder: DataFolder) -> None:
    tasks = Tasks("test")
    db = await Database.open(folder, tasks)
    began, go_on = asyncio.Event(), asyncio.Event()

    async def slow(s: Session) -> str:
        began.set()
        await go_on.wait()
        await settings.put(s, "kept", True)
        return "done"

    writing = asyncio.ensure_future(db.write(slow))
    await began.wait()
    closing = asyncio.ensure_future(db.close())
    await asyncio.sleep(0)
    with pytest.raises(Closing):
        await db.write(add_one)
    go_on.set()
    await closing
    assert await writing == "done"
    assert len(tasks) == 0


async def test_a_write_whose_task_is_cancelled_tells_its_caller(folder: DataFolder) -> None:
    tasks = Tasks("test")
    db = await Database.open(folder, tasks)
    began = asyncio.Event()

    async def endless(s: Session) -> None:
        await add_one(s)
        began.set()
        await asyncio.Event().wait()

    callers = [asyncio.ensure_future(db.write(fn)) for fn in (endless, add_one)]
    await began.wait()
    await tasks.close()
    for caller in callers:
        with pytest.raises(Closing):
            await caller
    assert await number(db) == 0
    await db.close()


async def test_a_short_lock_of_another_process_is_waited_for(db: Database, folder: DataFolder) -> None:
    async with Holding(folder.database, seconds=1.0):
        assert await db.write(add_one) == 1


async def test_a_long_lock_of_another_process_is_told_in_time_and_reading_goes_on(
    db: Database, folder: DataFolder
) -> None:
    async with Holding(folder.database):
        began = time.monotonic()
        writes = [asyncio.ensure_future(db.write(add_one)) for _ in range(5)]
        if not db.single:  # else reading waits for the connection that waits for the lock
            assert await number(db) == 0
        outcomes = await asyncio.gather(*writes, return_exceptions=True)
        assert time.monotonic() - began < 7
    assert all(isinstance(outcome, StorageBusy) for outcome in outcomes)
    assert "try again" in str(getattr(outcomes[0], "person", ""))
    assert await db.write(add_one) == 1


@pytest.mark.parametrize(
    ("version", "sound"),
    [
        ((3, 40, 1), False),
        ((3, 44, 5), False),
        ((3, 44, 6), True),
        ((3, 45, 0), False),
        ((3, 50, 6), False),
        ((3, 50, 7), True),
        ((3, 51, 2), False),
        ((3, 51, 3), True),
        ((3, 53, 0), True),
        ((4, 0, 0), True),
    ],
)
def test_which_versions_of_sqlite_are_sound(version: tuple[int, int, int], sound: bool) -> None:
    assert is_sound(version) is sound


async def test_with_an_unsound_sqlite_one_connection_does_everything(folder: DataFolder) -> None:
    tasks = Tasks("test")
    db = await Database.open(folder, tasks, sqlite_version=(3, 40, 1))

    async def read() -> int:
        return await number(db)

    await asyncio.gather(*(job for _ in range(30) for job in (db.write(add_one), read())))
    assert await number(db) == 30
    assert db.single
    assert len(_open_files(folder.database)) == 1
    with pytest.raises(StorageFault):
        async with db.read() as s:
            await settings.put(s, "number", 99)
    assert await number(db) == 30
    await db.close()


def _open_files(path: Path) -> list[str]:
    return [str(file) for file in Path("/proc/self/fd").iterdir() if _points_to(file, path)]


def _points_to(link: Path, path: Path) -> bool:
    try:
        return link.readlink() == path
    except FileNotFoundError:
        return False


async def test_every_connection_has_the_pragmas_of_the_house(db: Database) -> None:
    async def pragmas(s: Session) -> dict[str, object]:
        names = ("journal_mode", "synchronous", "foreign_keys", "trusted_schema", "busy_timeout", "mmap_size")
        return {name: await s.scalar(text(f"PRAGMA {name}")) for name in names}

    house = {
        "journal_mode": "wal",
        "synchronous": 2,
        "foreign_keys": 1,
        "trusted_schema": int(trusted_schema() == "ON"),
        "busy_timeout": 5000,
        "mmap_size": 0,
    }
    assert await db.write(pragmas) == house
    async with db.read() as s:
        assert await pragmas(s) == house


async def test_what_was_answered_is_there_when_the_database_is_opened_again(
    folder: DataFolder, open_database: Opened
) -> None:
    async with open_database(folder) as db:
        await asyncio.gather(*(db.write(add_one) for _ in range(20)))
    assert not folder.database.with_name("nightdesk.db-wal").exists()
    async with open_database(folder) as db:
        assert await number(db) == 20


async def test_the_wal_stays_small_under_writes_with_readers(db: Database, folder: DataFolder) -> None:
    async def write(s: Session) -> None:
        await settings.put(s, new_id(), "x" * 2000)

    async def read() -> None:
        async with db.read() as s:
            await settings.read_all(s)

    for _ in range(40):
        await asyncio.gather(*(db.write(write) for _ in range(25)), read(), read())
    wal = folder.database.with_name("nightdesk.db-wal")
    assert wal.stat().st_size <= 16 * 1024 * 1024
