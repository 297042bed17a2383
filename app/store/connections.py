"""Connections that are kept open and lent to one session at a time.

A transaction begins and ends on the driver itself (`Link.begin`, `commit`, `rollback`): SQLAlchemy, which joins it
where it is used, would take longer for that than SQLite for most of our statements.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from sqlalchemy import event
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, create_async_engine
from sqlalchemy.pool import ConnectionPoolEntry, NullPool

from app.core.errors import StorageBusy
from app.store.copy import connect
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
    "trusted_schema": "OFF",
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
        connector = partial(connect, path, mode, check_same_thread=False)
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
        event.listen(self._engine.sync_engine, "connect", partial(_prepare, mode == "ro"))
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
            broken = False
            try:
                await link.begin(kind, patience)
                yield link
            except BaseException as error:
                broken = self._breaks(error)
                raise
            finally:
                await self._end(link, broken)
        finally:
            self._turns.release()

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

    def _breaks(self, error: BaseException) -> bool:
        """Whether a connection that met `error` is not to be used again: a fault of the disk, or cut off midway."""
        fault = fault_of(error, self._path)
        return isinstance(error, asyncio.CancelledError) or not isinstance(fault, StorageBusy | None)

    async def _end(self, link: Link, broken: bool) -> None:
        if broken or self._closed:
            await link.close(at_once=broken)
            return
        if link.in_transaction:
            await link.rollback()
        self._free.append(link)


def left(patience: int, waited: float) -> int:
    """What is left of `patience` (milliseconds) after `waited` seconds, in steps of half a second.

    A step costs a statement, and in ordinary times there is none.
    """
    return max(0, patience - int(waited * 1000) // 500 * 500)


def _prepare(read_only: bool, connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
    cursor = connection.cursor()
    for name, value in PRAGMAS.items():
        if not (read_only and name == "journal_mode"):
            cursor.execute(f"PRAGMA {name} = {value}")
    cursor.close()
