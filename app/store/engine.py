"""The database as the rest of the house sees it: `read()` and `write(fn)`.

One connection writes, in short `BEGIN IMMEDIATE` transactions, one after another; some read-only ones read,
each session from one snapshot. A write is a task of its own: whoever waits for it may be cancelled, it may
not, for a transaction cut off in the middle keeps its lock until the busy time-out.

Below SQLite 3.51.3 two connections that write or checkpoint at once can corrupt a WAL database
(https://sqlite.org/wal.html#walresetbug); there one connection does everything. A read must therefore never
wait for a write or for another read inside its `async with`.
"""

import asyncio
import logging
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from sqlalchemy.ext.asyncio import AsyncSession

from app.core.errors import Closing
from app.store import schema
from app.store.connections import Connections
from app.store.faults import fault_of
from app.store.folder import DataFolder
from app.tasks import Tasks

logger = logging.getLogger(__name__)

T = TypeVar("T")
Session = AsyncSession

READERS = 4


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
        self._writes: set[asyncio.Task[Any]] = set()
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
        await self._readers.close()
        await self._writer.close()

    @asynccontextmanager
    async def _read(self) -> AsyncIterator[Session]:
        try:
            async with self._readers.session("BEGIN", query_only=True) as (session, _):
                yield session
        except Exception as error:
            fault = fault_of(error, self.folder.path)
            if fault is None:
                raise
            raise fault from error

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
        async with self._writer.session("BEGIN IMMEDIATE", query_only=False) as (session, link):
            value = await fn(session)
            if session.dirty or session.new or session.deleted:
                await session.flush()
            await link.commit()
        return value
