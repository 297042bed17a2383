"""The database as the rest of the house sees it: `read()` and `write(fn)`.

One connection writes, in short `BEGIN IMMEDIATE` transactions, one after another; some read-only ones read,
each session from one snapshot. A write is a task of its own: whoever waits for it may be cancelled, it may
not, for a transaction cut off in the middle keeps its lock until the busy time-out.

Below SQLite 3.51.3 two connections that write or checkpoint at once can corrupt a WAL database
(https://sqlite.org/wal.html#walresetbug); there one connection does everything. A read must therefore never
wait for a write or for another read inside its `async with`.
"""

import asyncio
import json
import logging
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

from sqlalchemy import Connection as SyncConnection, event
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.pool import AsyncAdaptedQueuePool, ConnectionPoolEntry

from app.core.errors import Closing, StorageBusy
from app.store import schema
from app.store.copy import connect
from app.store.driver import Connection
from app.store.faults import fault_of, storage_busy
from app.store.folder import DataFolder
from app.tasks import Tasks

logger = logging.getLogger(__name__)

T = TypeVar("T")
Session = AsyncSession

# How long a write waits for its turn and for locks of other processes together, in milliseconds.
PATIENCE = 5_000
READERS = 4

PRAGMAS = {
    "journal_mode": "WAL",
    "synchronous": "FULL",  # an accepted message survives a power cut
    "foreign_keys": "ON",
    "trusted_schema": "OFF",
    "busy_timeout": PATIENCE,
    "journal_size_limit": 4 * 1024 * 1024,  # what is left of the WAL after a large transaction
    "mmap_size": 0,  # makes the corruption named above worse, and a full disk a SIGBUS
    "secure_delete": "FAST",
}


def is_sound(version: tuple[int, int, int]) -> bool:
    """Whether this SQLite is free of the WAL-reset race: 3.51.3 and later, or a back-port of its fix."""
    return version >= (3, 51, 3) or (3, 50, 7) <= version < (3, 51, 0) or (3, 44, 6) <= version < (3, 45, 0)


@dataclass(frozen=True, slots=True)
class _Done(Generic[T]):
    value: T


@dataclass(frozen=True, slots=True)
class _Failed:
    error: Exception


class Database:
    """The open database of one data folder. Made by `open`; `close` waits for the writes under way."""

    def __init__(self, folder: DataFolder, tasks: Tasks, version: tuple[int, int, int]) -> None:
        self.folder = folder
        self.sqlite_version = version
        self.single = not is_sound(version)
        self._tasks = tasks
        self._turn = asyncio.Lock()
        self._writes: set[asyncio.Task[Any]] = set()
        self._closed = False
        self._writer = _engine(folder.database, "rwc", connections=1)
        self._reader = self._writer if self.single else _engine(folder.database, "ro", connections=READERS)
        self._writing = _sessions(self._writer, begin="BEGIN IMMEDIATE")
        self._reading = _sessions(self._reader, begin="BEGIN")

    @classmethod
    async def open(
        cls,
        folder: DataFolder | Path,
        tasks: Tasks,
        *,
        steps: schema.Steps = schema.STEPS,
        sqlite_version: tuple[int, int, int] = sqlite3.sqlite_version_info,
    ) -> "Database":
        """Bring the schema to the head, check it, and open. The caller holds the folder's lock.

        Raises SchemaTooNew, MigrationFailed, SchemaDamaged or StorageFault.
        """
        place = folder if isinstance(folder, DataFolder) else DataFolder(folder)
        await asyncio.to_thread(schema.bring_to_head, place, steps)
        if not is_sound(sqlite_version):
            logger.warning(
                "SQLite %s has a known fault; one connection does everything", sqlite3.sqlite_version
            )
        return cls(place, tasks, sqlite_version)

    def read(self) -> AbstractAsyncContextManager[Session]:
        """A session that sees one snapshot and can't write. Keep it short: no network and no write in it.

        Raises StorageBusy or StorageFault.
        """
        return self._read()

    async def write(self, fn: Callable[[Session], Awaitable[T]]) -> T:
        """Run `fn(session)` in a transaction of its own, which goes on to its end if the caller is cancelled.

        What `fn` raises rolls back and comes out here. Raises DiskFull, StorageBusy, StorageFault, Closing.
        """
        if self._closed:
            raise Closing
        task = self._tasks.start("write", self._attempt(fn))
        self._writes.add(task)
        task.add_done_callback(self._writes.discard)
        outcome = await asyncio.shield(task)
        if isinstance(outcome, _Failed):
            raise outcome.error
        return outcome.value

    async def close(self) -> None:
        """Refuse new writes, wait for those under way, close every connection."""
        self._closed = True
        if self._writes:
            await asyncio.wait(self._writes)
        if not self.single:
            await self._reader.dispose()
        await self._writer.dispose()

    @asynccontextmanager
    async def _read(self) -> AsyncIterator[Session]:
        session = self._reading()
        try:
            await _start(session)
            yield session
        except Exception as error:
            fault = fault_of(error, self.folder.path)
            if fault is None:
                raise
            if not isinstance(fault, StorageBusy):
                await session.invalidate()
            raise fault from error
        finally:
            await session.close()

    async def _attempt(self, fn: Callable[[Session], Awaitable[T]]) -> _Done[T] | _Failed:
        """A failure is handed over as a value: it is the caller's to show, not an error of the task."""
        try:
            return _Done(await self._transact(fn))
        except Exception as error:
            fault = fault_of(error, self.folder.path)
            if fault is None:
                return _Failed(error)
            fault.__cause__ = error
            logger.error("a write failed: %s", fault)
            return _Failed(fault)

    async def _transact(self, fn: Callable[[Session], Awaitable[T]]) -> T:
        patience = await self._take_turn()
        try:
            async with self._writing() as session:
                try:
                    await _start(session, patience)
                    value = await fn(session)
                    await session.commit()
                except Exception as error:
                    fault = fault_of(error, self.folder.path)
                    if fault is not None and not isinstance(fault, StorageBusy):
                        # A connection that met such an error is not trusted again: the next write opens one.
                        await session.invalidate()
                    raise
            return value
        finally:
            self._turn.release()

    async def _take_turn(self) -> int:
        """Wait for the writer; returns the milliseconds left for waiting for locks of other processes."""
        began = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(PATIENCE / 1000):
                await self._turn.acquire()
        except TimeoutError:
            raise storage_busy("another write held the database for too long") from None
        waited = (asyncio.get_running_loop().time() - began) * 1000
        # In steps of half a second: a change costs a statement, and in ordinary times there is none.
        return max(0, PATIENCE - int(waited) // 500 * 500)


def _engine(path: Path, mode: str, connections: int) -> AsyncEngine:
    # The driver begins nothing by itself (autocommit): `_begin` does, with the kind of transaction we want.
    connector = partial(connect, path, mode, check_same_thread=False)
    engine = create_async_engine(
        "sqlite+aiosqlite://",
        async_creator=lambda: Connection(connector),
        poolclass=AsyncAdaptedQueuePool,
        pool_size=connections,
        max_overflow=0,
        pool_timeout=PATIENCE / 1000,
        json_serializer=partial(json.dumps, separators=(",", ":")),
    )
    event.listen(engine.sync_engine, "connect", partial(_prepare, mode == "ro"))
    event.listen(engine.sync_engine, "begin", _begin)
    return engine


def _sessions(engine: AsyncEngine, begin: str) -> async_sessionmaker[Session]:
    return async_sessionmaker(engine.execution_options(begin=begin), expire_on_commit=False, autoflush=False)


async def _start(session: Session, patience: int = PATIENCE) -> None:
    """Begin the session's transaction, and give it the connection that `prepared` uses."""
    await session.connection(execution_options={"patience": patience})
    session.info["driver"] = session.sync_session.connection().connection.driver_connection


def _prepare(read_only: bool, connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
    cursor = connection.cursor()
    for name, value in PRAGMAS.items():
        if not (read_only and name == "journal_mode"):
            cursor.execute(f"PRAGMA {name} = {value}")
    cursor.close()


def _begin(connection: SyncConnection) -> None:
    """Begin as the session's options say; a pragma that they want is set only where it differs."""
    options = connection.get_execution_options()
    reading = options["begin"] == "BEGIN"
    wanted = {"busy_timeout": options.get("patience", PATIENCE), "query_only": int(reading)}
    for name, value in wanted.items():
        if connection.info.get(name) != value:
            connection.exec_driver_sql(f"PRAGMA {name} = {value}")
            connection.info[name] = value
    driver = connection.connection.dbapi_connection
    assert driver is not None
    driver.run_async(lambda raw: raw.cursor().execute(options["begin"]))
