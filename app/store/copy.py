"""Copies of a database that may be in use."""

import os
import sqlite3
from contextlib import closing
from functools import cache
from pathlib import Path
from urllib.parse import quote


def connect(path: Path, mode: str = "rw", check_same_thread: bool = True) -> sqlite3.Connection:
    """A plain connection in autocommit mode, which blocks; `mode` is SQLite's `ro`, `rw` or `rwc`."""
    uri = f"file:{quote(str(path))}?mode={mode}"
    return sqlite3.connect(
        uri,
        uri=True,
        isolation_level=None,
        timeout=5,
        check_same_thread=check_same_thread,
        cached_statements=256,
    )


@cache
def trusted_schema() -> str:
    """The value of that pragma: OFF, but ON where this SQLite would then refuse triggers that fill a search index.

    Older ones (3.40 does, 3.53 does not) count FTS5 among the things that a schema must not do by itself.
    """
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as trial:
        trial.executescript(
            "PRAGMA trusted_schema = OFF; CREATE TABLE t (x); CREATE VIRTUAL TABLE f USING fts5(x);"
            "CREATE TRIGGER g AFTER INSERT ON t BEGIN INSERT INTO f (x) VALUES (NEW.x); END;"
        )
        try:
            trial.execute("INSERT INTO t VALUES ('')")
        except sqlite3.OperationalError:
            return "ON"
    return "OFF"


def copy_database(source: Path, target: Path) -> None:
    """Write `source` as it is at this moment to the new file `target`, mode 0600, synced. Blocks.

    `VACUUM INTO` reads one snapshot and lets writers go on; `Connection.backup` with pages may never end on a
    busy database, and a plain copy of the file misses the WAL.
    """
    mask = os.umask(0o077)
    try:
        with closing(connect(source, "ro")) as connection:
            connection.execute("VACUUM INTO ?", (str(target),))
    except BaseException:
        target.unlink(missing_ok=True)
        raise
    finally:
        os.umask(mask)
    sync(target)
    sync(target.parent)


def sync(path: Path) -> None:
    """Bring a file or a folder's entries to the disk."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
