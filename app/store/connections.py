"""Connections that are kept open and lent to one session at a time.

A transaction begins and ends on the driver itself (`Link.begin`, `commit`, `rollback`): SQLAlchemy, which joins it
where it is used, would take longer for that than SQLite for most of our statements.
"""

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, create_async_engine
from sqlalchemy.pool import NullPool

from app.core.errors import DiskFull, StorageBusy
from app.store.copy import connect, trusted_schema
from app.store.driver import Connection
from app.store.faults import fault_of, storage_busy

# How long a session waits for a connection and for locks of other processes together, in milliseconds.
PATIENCE = 5_000

READING = "BEGIN"
WRITING = "BEGIN IMMEDIATE"

PRAGMAS = {
    "journal_mode": "WAL",
    "synchronous": "FULL",  # an accepted message survives a power cut
    "foreign_keys": "ON",
    "busy_timeout": PATIENCE,
    "journal_size_limit": 4 * 1024 * 1024,  # what is left of the WAL after a large transaction
    "mmap_size": 0,  # mapped, a failing disk would be a SIGBUS
    "secure_delete": "FAST",
}


class Link:
    """One open connection: as SQLAlchemy sees it, and as it is."""

    def __init__(self, connection: AsyncConnection, driver: Connection) -> None:
        self.connection = connection
        self.driver = driver
        self.faults = 0  # in a row
        self._set = {"busy_timeout": PATIENCE, "query_only": 0}

    @property
    def in_transaction(self) -> bool:
        return self.driver.in_transaction

    async def run(self, statement: str) -> None:
        await self.driver.cursor().execute(statement)

    async def begin(self, kind: str, patience: int) -> None:
        """`patience` in milliseconds. A pragma costs as much as a statement, so it is set where it differs only."""
        query_only = int(kind == READING)
        for name, value in (("busy_timeout", patience), ("query_only", query_only)):
            if self._set[name] != value:
                await self.run(f"PRAGMA {name} = {value}")
                self._set[name] = value
        await self.run(kind)

    async def commit(self) -> None:
        await self.driver.commit()

    async def rollback(self) -> None:
        await self.driver.rollback()

    async def end(self) -> bool:
        """Roll back what has not been committed. Whether the connection can be used again.

        A cancelled statement goes on in the connection's thread; the rollback queues behind it, and whatever comes
        next behind the rollback, so it does no harm if this is cancelled, too.
        """
        if self.connection.invalidated:  # SQLAlchemy gave it up when the statement was cancelled
            return False
        try:
            await self.rollback()
        except sqlite3.Error:
            return False
        return not self.in_transaction

    @asynccontextmanager
    async def session(self) -> AsyncIterator[AsyncSession]:
        """A session in this connection's transaction, which it neither commits nor rolls back.

        `prepared` finds the driver in its `info`.
        """
        info = {"driver": self.driver}
        session = AsyncSession(self.connection, expire_on_commit=False, autoflush=False, info=info)
        try:
            yield session
        finally:
            await session.close()

    async def close(self, at_once: bool = False) -> None:
        """`at_once`: without waiting; the connection's thread closes it after what it is doing, which rolls back."""
        connection = self.connection.sync_connection
        if at_once and connection is not None:
            connection.invalidate()
        await self.connection.close()


class Connections:
    """At most `count` connections to the database at `path`, opened when first needed; `mode` as in `copy.connect`."""

    def __init__(self, path: Path, mode: str, count: int) -> None:
        connector = partial(_connect, path, mode)
        self._path = path
        self._engine = create_async_engine(
            "sqlite+aiosqlite://",
            async_creator=lambda: Connection(connector),
            poolclass=NullPool,
            # Transactions are ours: what SQLAlchemy calls one neither begins nor ends anything.
            isolation_level="AUTOCOMMIT",
            skip_autocommit_rollback=True,
            json_serializer=partial(json.dumps, separators=(",", ":")),
        )
        self._free: list[Link] = []
        self._turns = asyncio.Semaphore(count)
        self._closed = False

    @asynccontextmanager
    async def transaction(self, kind: str, patience: int = PATIENCE) -> AsyncIterator[Link]:
        """A connection in a transaction of the `kind` READING or WRITING, rolled back at the end unless committed.

        Waits for `patience` milliseconds at most, for a connection and for other processes together.
        Raises StorageBusy if no connection comes free, and what SQLite says.
        """
        patience = await self._take_turn(patience)
        try:
            link = self._free.pop() if self._free else await self._open()
            error: BaseException | None = None
            try:
                await link.begin(kind, patience)
                yield link
            except BaseException as raised:
                error = raised
                raise
            finally:
                await self._take_back(link, error)
        finally:
            self._turns.release()

    async def open(self) -> None:
        """Have one connection ready that has read: it keeps reading possible while the disk is full."""
        async with self.transaction(READING) as link:
            await link.run("SELECT count(*) FROM sqlite_master")

    async def close(self) -> None:
        """Close those that are free, and those that are lent when they come back."""
        self._closed = True
        while self._free:
            await self._free.pop().close()

    async def _take_turn(self, patience: int) -> int:
        """Wait for a connection; returns the milliseconds of patience that are left."""
        loop = asyncio.get_running_loop()
        if not self._turns.locked():
            await self._turns.acquire()
            return patience
        began = loop.time()
        try:
            async with asyncio.timeout(patience / 1000):
                await self._turns.acquire()
        except TimeoutError:
            raise storage_busy("no connection came free") from None
        return left(patience, loop.time() - began)

    async def _open(self) -> Link:
        connection = await self._engine.connect()
        driver = (await connection.get_raw_connection()).driver_connection
        assert isinstance(driver, Connection)
        return Link(connection, driver)

    async def _take_back(self, link: Link, error: BaseException | None) -> None:
        """Keep the connection for the next one, or close it if after `error` it is not to be trusted.

        A single fault of the disk does a connection no harm, and while the disk is full another one might not even
        open; after two in a row it may be the connection's own, as with a file system that went and came back.
        """
        fault = fault_of(error, self._path) if error else None
        link.faults = link.faults + 1 if fault and not isinstance(fault, StorageBusy | DiskFull) else 0
        usable = link.faults < 2
        try:
            if error is not None or link.in_transaction:
                usable = await link.end() and usable
        finally:
            if usable and not self._closed:
                self._free.append(link)
            else:
                await link.close(at_once=not usable)


def left(patience: int, waited: float) -> int:
    """What is left of `patience` (milliseconds) after `waited` seconds, in steps of half a second.

    A step costs a statement, and in ordinary times there is none.
    """
    return max(0, patience - int(waited * 1000) // 500 * 500)


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    """Runs in the thread that the connection is then used in."""
    connection = connect(path, mode, check_same_thread=False)
    try:
        connection.execute(f"PRAGMA trusted_schema = {trusted_schema()}")
        for name, value in PRAGMAS.items():
            if not (mode == "ro" and name == "journal_mode"):
                connection.execute(f"PRAGMA {name} = {value}")
    except BaseException:
        connection.close()
        raise
    return connection
