"""The database as the rest of the house sees it: `read()` and `write(fn)`.

One connection writes, in short `BEGIN IMMEDIATE` transactions; some read-only ones read, each session from one
snapshot. Writes are run by a task of their own, one after another: whoever waits for one may be cancelled, it
may not, for a transaction cut off in the middle keeps its lock until the busy time-out. Writes that come while
one is under way share the next transaction and its trip to the disk; each is answered after that commit.

Below SQLite 3.51.3 two connections that write or checkpoint at once can corrupt a WAL database
(https://sqlite.org/wal.html#walresetbug); there one connection does everything. A read must therefore never
wait for a write or for another read inside its `async with`.
"""

import asyncio
import logging
import sqlite3
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

from sqlalchemy.ext.asyncio import AsyncSession

from app.core.errors import Closing
from app.store import schema
from app.store.connections import PATIENCE, READING, WRITING, Connections, Link, left
from app.store.faults import as_faults, fault_of
from app.store.folder import DataFolder
from app.store.prepared import write_changes
from app.tasks import Tasks

logger = logging.getLogger(__name__)

T = TypeVar("T")
Session = AsyncSession

READERS = 4
# How long a transaction takes in further writes, in seconds: the first of them waits for its commit that long.
TOGETHER = 0.02


def is_sound(version: tuple[int, int, int]) -> bool:
    """Whether this SQLite is free of the WAL-reset race: 3.51.3 and later, or a back-port of its fix."""
    return version >= (3, 51, 3) or (3, 50, 7) <= version < (3, 51, 0) or (3, 44, 6) <= version < (3, 45, 0)


@dataclass(frozen=True, slots=True)
class _Done(Generic[T]):
    value: T


@dataclass(frozen=True, slots=True)
class _Failed:
    error: Exception


@dataclass(frozen=True, slots=True)
class _Write:
    """A write that waits or runs. Its outcome is a value: the caller, who is to show it, may be gone."""

    fn: Callable[[Session], Awaitable[Any]]
    outcome: asyncio.Future[_Done[Any] | _Failed]
    since: float

    def end(self, outcome: _Done[Any] | _Failed) -> None:
        if not self.outcome.done():
            self.outcome.set_result(outcome)


class Database:
    """The open database of one data folder. Made by `open`; `close` waits for the writes under way."""

    def __init__(self, folder: DataFolder, tasks: Tasks, version: tuple[int, int, int]) -> None:
        self.folder = folder
        self.sqlite_version = version
        self.single = not is_sound(version)
        self._tasks = tasks
        self._waiting: deque[_Write] = deque()
        self._writing: asyncio.Task[None] | None = None
        self._closed = False
        self._writer = Connections(folder.database, "rw", count=1)
        self._readers = self._writer if self.single else Connections(folder.database, "ro", READERS)

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
        database = cls(place, tasks, sqlite_version)
        with as_faults(place.path):
            await database._writer.open()
            await database._readers.open()
        return database

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
        if self._writing is not None and self._writing is asyncio.current_task():
            raise RuntimeError("a write inside a write would wait for itself")
        loop = asyncio.get_running_loop()
        write = _Write(fn, loop.create_future(), loop.time())
        self._waiting.append(write)
        if self._writing is None:
            self._writing = self._tasks.start("writes", self._write_all())
        outcome = await asyncio.shield(write.outcome)
        if isinstance(outcome, _Failed):
            raise outcome.error
        return cast(T, outcome.value)

    async def close(self) -> None:
        """Refuse new writes, wait for those under way, close every connection."""
        self._closed = True
        if self._writing is not None:
            await asyncio.wait([self._writing])
        await self._readers.close()
        await self._writer.close()

    @asynccontextmanager
    async def _read(self) -> AsyncIterator[Session]:
        try:
            async with self._readers.transaction(READING) as link, link.session() as session:
                yield session
        except Exception as error:
            fault = fault_of(error, self.folder.path)
            if fault is None:
                raise
            raise fault from error

    async def _write_all(self) -> None:
        under_way: list[_Write] = []
        try:
            while self._waiting:
                under_way.clear()
                await self._write_some(under_way)
        finally:
            self._writing = None
            # Something is left only if this task was cancelled.
            for write in (*under_way, *self._waiting):
                write.end(_Failed(Closing()))
            self._waiting.clear()

    async def _write_some(self, under_way: list[_Write]) -> None:
        """Some of the writes that wait, in one transaction. If that fails they all do."""
        loop = asyncio.get_running_loop()
        oldest = self._waiting[0]
        until = loop.time() + TOGETHER
        outcomes = []
        try:
            patience = left(PATIENCE, loop.time() - oldest.since)
            async with self._writer.transaction(WRITING, patience) as link:
                while self._waiting and (not under_way or loop.time() < until):
                    under_way.append(self._waiting.popleft())
                    outcomes.append(await self._run(under_way[-1], link, first=len(under_way) == 1))
                    if not link.in_transaction:
                        break
                else:
                    await link.commit()
        except Exception as error:
            fault = fault_of(error, self.folder.path) or error
            logger.error("a write failed: %s", fault, exc_info=None if fault is not error else error)
            fault.__cause__ = error if fault is not error else None
            if not under_way:
                under_way.append(self._waiting.popleft())
            outcomes = [_Failed(fault)] * len(under_way)
        for write, outcome in zip(under_way, outcomes, strict=True):
            write.end(outcome)

    async def _run(self, write: _Write, link: Link, first: bool) -> _Done[Any] | _Failed:
        """Run one write; if it refuses, nothing of it is left. Raises what storage is to blame for."""
        if not first:
            await link.run("SAVEPOINT one")
        try:
            async with link.session() as session:
                value = await write.fn(session)
                await write_changes(session)
            if not first:
                await link.run("RELEASE one")
        except Exception as error:
            if fault_of(error, self.folder.path) is not None:
                raise
            if first:
                await link.rollback()
            else:
                await link.run("ROLLBACK TO one")
                await link.run("RELEASE one")
            return _Failed(error)
        return _Done(value)
