"""aiosqlite, but for one thing: a statement is one trip to the connection's thread, its rows included.

As it comes it makes four (a cursor, the statement, the rows, the end of the cursor), each of them a wake-up
of both threads, which is most of what a small statement costs. SQLAlchemy reads all rows at once anyway.
"""

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

import aiosqlite


class Connection(aiosqlite.Connection):
    """A connection whose cursors are `Cursor`s; `connector` opens it, in its thread."""

    def __init__(self, connector: Callable[[], sqlite3.Connection]) -> None:
        super().__init__(connector, iter_chunk_size=64)
        # A process that fails before it closes the database still ends.
        self._thread.daemon = True

    def cursor(self) -> "Cursor":  # type: ignore[override]  # theirs is awaitable, ours an async context as well
        return Cursor(self)


class Cursor:
    """What SQLAlchemy asks of an async driver's cursor (`AsyncIODBAPICursor`), with all rows at once."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.rows: list[Any] = []
        self.description: Any = None
        self.rowcount = -1
        self.lastrowid: int | None = None
        self.arraysize = 1

    async def __aenter__(self) -> "Cursor":
        return self

    async def execute(self, statement: str, parameters: Sequence[Any] = ()) -> None:
        await self._connection._execute(self._run, sqlite3.Cursor.execute, statement, parameters)  # type: ignore[no-untyped-call]

    async def executemany(self, statement: str, parameters: Sequence[Sequence[Any]]) -> None:
        await self._connection._execute(self._run, sqlite3.Cursor.executemany, statement, parameters)  # type: ignore[no-untyped-call]

    async def execute_all(self, steps: Sequence[tuple[str, Sequence[Sequence[Any]]]]) -> None:
        """Several statements in one trip, each once for every one of its parameters; the first fault ends it."""
        await self._connection._execute(self._run_all, steps)  # type: ignore[no-untyped-call]

    def _run(self, execute: Callable[..., Any], statement: str, parameters: Sequence[Any]) -> None:
        cursor = self._connection._conn.cursor()
        try:
            execute(cursor, statement, parameters)
            self.description = cursor.description
            self.rows = cursor.fetchall() if cursor.description else []
            self.rowcount, self.lastrowid = cursor.rowcount, cursor.lastrowid
        finally:
            cursor.close()

    def _run_all(self, steps: Sequence[tuple[str, Sequence[Sequence[Any]]]]) -> None:
        for statement, parameters in steps:
            self._run(sqlite3.Cursor.executemany, statement, parameters)

    async def fetchall(self) -> list[Any]:
        rows, self.rows = self.rows, []
        return rows

    async def close(self) -> None:
        self.rows = []
