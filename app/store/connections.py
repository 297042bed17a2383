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
        self.broken = False
        self._set = {"busy_timeout": PATIENCE, "query_only": 0}

    def session(self) -> AsyncSession:
        """A session in this connection's transaction; `prepared` finds the driver in its `info`."""
        return AsyncSession(
            bind=self.connection, expire_on_commit=False, autoflush=False, info={"driver": self.driver}
        )

    async def begin(self, statement: str, *, patience: int, query_only: bool) -> None:
        """`patience` in milliseconds. A pragma costs as much as a statement, so it is set where it differs only."""
        for name, value in (("busy_timeout", patience), ("query_only", int(query_only))):
            if self._set[name] != value:
                await self.driver.cursor().execute(f"PRAGMA {name} = {value}")
                self._set[name] = value
        await self.driver.cursor().execute(statement)

    async def commit(self) -> None:
        await self.driver.commit()

    async def rollback(self) -> None:
        await self.driver.rollback()


class Connections:
    """At most `count` connections to the database at `path`, opened when first needed; `mode` as in `copy.connect`."""

    def __init__(self, path: Path, mode: str, count: int) -> None:
        self._path = path
        connector = partial(connect, path, mode, check_same_thread=False)
        self._engine = create_async_engine(
            "sqlite+aiosqlite://",
            async_creator=lambda: Connection(connector),
            poolclass=NullPool,
            json_serializer=partial(json.dumps, separators=(",", ":")),
        )
        event.listen(self._engine.sync_engine, "connect", partial(_prepare, mode == "ro"))
        self._free: list[Link] = []
        self._turns = asyncio.Semaphore(count)
        self._closed = False

    @asynccontextmanager
    async def session(self, begin: str, *, query_only: bool) -> AsyncIterator[tuple[AsyncSession, Link]]:
        """A session in a transaction begun with the statement `begin`, rolled back at the end unless committed.

        Raises StorageBusy if no connection comes free, and whatever SQLite says.
        """
        patience = await self._take_turn()
        try:
            link = self._free.pop() if self._free else await self._open()
            session = link.session()
            try:
                await link.begin(begin, patience=patience, query_only=query_only)
                yield session, link
            except BaseException as error:
                link.broken = self._breaks(error)
                raise
            finally:
                await self._end(session, link)
        finally:
            self._turns.release()

    async def close(self) -> None:
        """Close those that are free, and those that are lent when they come back."""
        self._closed = True
        while self._free:
            await self._free.pop().connection.close()

    async def _take_turn(self) -> int:
        loop = asyncio.get_running_loop()
        if not self._turns.locked():
            await self._turns.acquire()
            return PATIENCE
        began = loop.time()
        try:
            async with asyncio.timeout(PATIENCE / 1000):
                await self._turns.acquire()
        except TimeoutError:
            raise storage_busy("no connection came free") from None
        # In steps of half a second: a change costs a statement, and in ordinary times there is none.
        waited = int((loop.time() - began) * 1000) // 500 * 500
        return max(0, PATIENCE - waited)

    async def _open(self) -> Link:
        connection = await self._engine.connect()
        driver = (await connection.get_raw_connection()).driver_connection
        assert isinstance(driver, Connection)
        return Link(connection, driver)

    def _breaks(self, error: BaseException) -> bool:
        """Whether a connection that met `error` is not to be used again: a fault of the disk, or cut off midway."""
        fault = fault_of(error, self._path)
        return isinstance(error, asyncio.CancelledError) or not isinstance(fault, StorageBusy | None)

    async def _end(self, session: AsyncSession, link: Link) -> None:
        if link.broken:
            # Without waiting: the connection's thread closes it after whatever it is doing, which rolls back.
            connection = link.connection.sync_connection
            assert connection is not None
            connection.invalidate()
        elif link.driver.in_transaction:
            await link.rollback()
        await session.close()
        if link.broken or self._closed:
            await link.connection.close()
        else:
            self._free.append(link)


def _prepare(read_only: bool, connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
    cursor = connection.cursor()
    for name, value in PRAGMAS.items():
        if not (read_only and name == "journal_mode"):
            cursor.execute(f"PRAGMA {name} = {value}")
    cursor.close()
