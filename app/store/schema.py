"""Which schema a database has, and the way to ours: backup, migrations, check; or a refusal with its reason.

All of it blocks and runs in a thread before anything else is open.
"""

import logging
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, create_engine, event
from sqlalchemy.pool import NullPool

from app import __version__
from app.core.errors import Refused, StorageFault
from app.store.copy import connect, copy_database, sync, trusted_schema
from app.store.faults import as_faults
from app.store.folder import DataFolder
from app.store.tables import Base

if TYPE_CHECKING:
    from alembic.config import Config

logger = logging.getLogger(__name__)

FOLDER = Path(__file__).parent / "migrations"

# What is in the database beside the tables of `tables.py`.
SEARCH = ("search_entry", "search_text", "search", "search_unspaced", "search_term")
TRIGGERS = (
    "audit_no_update",
    "audit_no_delete",
    "search_part_added",
    "search_part_changed",
    "search_part_removed",
    "search_title_added",
    "search_title_changed",
    "search_chat_removed",
)


@dataclass(frozen=True, slots=True)
class Steps:
    """The migrations: the last revision, and the folders that hold them."""

    head: str
    versions: tuple[Path, ...]


# The head stands here, and a test holds it to the files, so that most starts need not import Alembic.
STEPS = Steps("0001", (FOLDER / "versions",))


class SchemaTooNew(Refused):
    """The database belongs to a newer Nightdesk."""

    name = "schema-too-new"


class SchemaDamaged(StorageFault):
    """The file is no database of Nightdesk, or something is missing in it."""


class MigrationFailed(StorageFault):
    """A migration failed; the database is as it was before."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a database says of itself."""

    revision: str
    oldest_program: str


def bring_to_head(folder: DataFolder, steps: Steps = STEPS) -> None:
    """Make or migrate the database and check it.

    Raises SchemaTooNew, SchemaDamaged, MigrationFailed, StorageFault.
    """
    found = find(folder.database, folder.path)
    if found is not None:
        refuse_newer(found, steps, folder.path)
    if found is None or found.revision != steps.head:
        _change(folder, found, steps)
    with as_faults(folder.path), closing(connect(folder.database)) as connection:
        check(connection, folder.path)


def find(database: Path, folder: Path) -> Found | None:
    """What schema `database` has; None if there is nothing in it yet. Raises SchemaDamaged, StorageFault."""
    if not database.exists() or database.stat().st_size == 0:
        return None
    with as_faults(folder), closing(connect(database)) as connection:
        names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        if not names:
            return None
        if not {"alembic_version", "compatibility"} <= names:
            raise _damaged(folder, f"{database} is not a database of Nightdesk")
        row = connection.execute(
            "SELECT version_num, oldest_program FROM alembic_version, compatibility"
        ).fetchone()
    if row is None:
        raise _damaged(folder, f"{database} does not say which version it is of")
    return Found(*row)


def refuse_newer(found: Found, steps: Steps, folder: Path) -> None:
    """Raises SchemaTooNew if this program doesn't know the schema, or is too old for it by its own word."""
    known = found.revision == steps.head or found.revision in _revisions(steps)
    if known and _number(found.oldest_program) <= _number(__version__):
        return
    raise SchemaTooNew(
        f"The data in {folder} was written by a newer Nightdesk (schema {found.revision}, for version "
        f"{found.oldest_program} or later); this is version {__version__}. Start a newer version, "
        "or restore a backup made with this one."
    )


def check(connection: sqlite3.Connection, folder: Path) -> None:
    """Raises SchemaDamaged, naming it, if a table, column, search table or trigger that we use is missing."""
    rows = connection.execute(
        "SELECT m.name, c.name FROM sqlite_master AS m "
        "LEFT JOIN pragma_table_info(m.name) AS c ON m.type = 'table' "
        "WHERE m.type IN ('table', 'view', 'trigger')"
    ).fetchall()
    there = {name for name, _ in rows} | {f"{table}.{column}" for table, column in rows}
    columns = [
        f"{table.name}.{column.name}" for table in Base.metadata.sorted_tables for column in table.columns
    ]
    missing = [name for name in (*columns, *SEARCH, *TRIGGERS) if name not in there]
    if missing:
        raise _damaged(folder, f"the database lacks {', '.join(missing[:5])}")


def _change(folder: DataFolder, found: Found | None, steps: Steps) -> None:
    """Migrate; whatever goes wrong, the database is afterwards what it was."""
    with as_faults(folder.path):
        copy = _keep_copy(folder, found, steps) if found is not None else None
    try:
        _migrate(folder.database, steps)
    except Exception as error:
        with as_faults(folder.path):
            _put_back(folder, copy)
        raise MigrationFailed(
            f"The data in {folder.path} could not be brought up to date for this version of Nightdesk "
            f"({_reason(error)}). It is as it was before: the earlier version can still use it.",
            f"migration from {found.revision if found else 'nothing'} to {steps.head} failed: {error!r}",
        ) from error
    if found is not None:
        logger.info("migrated from %s to %s; the copy from before is %s", found.revision, steps.head, copy)


def _reason(error: Exception) -> str:
    original = getattr(error, "orig", None) or error
    return str(original).splitlines()[0] if str(original) else type(original).__name__


def _keep_copy(folder: DataFolder, found: Found, steps: Steps) -> Path:
    now = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%f")
    copy = folder.backups / f"schema-{found.revision}-before-{steps.head}-{now}.db"
    copy_database(folder.database, copy)
    return copy


def _put_back(folder: DataFolder, copy: Path | None) -> None:
    # The copy is moved, not copied again: that needs no space, and a full disk is a likely reason to be here.
    for suffix in ("-wal", "-shm"):
        folder.database.with_name(folder.database.name + suffix).unlink(missing_ok=True)
    if copy is None:
        folder.database.unlink(missing_ok=True)
    else:
        os.replace(copy, folder.database)
    sync(folder.path)


def _migrate(database: Path, steps: Steps) -> None:
    # Alembic costs a tenth of a second, and most starts have nothing to migrate.
    from alembic import command

    with _migrating(database) as connection:
        config = _config(steps)
        config.attributes["connection"] = connection
        command.upgrade(config, steps.head)
        if broken := connection.exec_driver_sql("PRAGMA foreign_key_check").fetchall():
            raise ValueError(f"{len(broken)} rows point to rows that are not there, first {tuple(broken[0])}")


@contextmanager
def _migrating(database: Path) -> Iterator[Connection]:
    """A connection whose transactions hold changes of the schema, too; foreign keys are off meanwhile."""
    engine = create_engine("sqlite+pysqlite://", creator=lambda: connect(database, "rwc"), poolclass=NullPool)
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    try:
        with engine.connect() as connection:
            driver = connection.connection.dbapi_connection
            assert driver is not None
            cursor = driver.cursor()
            for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = OFF"):
                cursor.execute(f"PRAGMA {pragma}")
            cursor.execute(f"PRAGMA trusted_schema = {trusted_schema()}")
            cursor.close()
            yield connection
    finally:
        engine.dispose()


def _config(steps: Steps) -> "Config":
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    config.set_main_option("path_separator", "newline")
    config.set_main_option(
        "version_locations", "\n".join(str(path) for path in steps.versions).replace("%", "%%")
    )
    return config


def _revisions(steps: Steps) -> set[str]:
    from alembic.script import ScriptDirectory

    return {script.revision for script in ScriptDirectory.from_config(_config(steps)).walk_revisions()}


def _number(version: str) -> tuple[int, ...]:
    """`1.10.2` as numbers; what follows the first part that is none (`1.2.dev3`) is left out."""
    digits = takewhile(str.isdigit, version.split("."))
    return tuple(int(part) for part in digits)


def _damaged(folder: Path, what: str) -> SchemaDamaged:
    return SchemaDamaged(
        f"The database in {folder} can't be used: {what}. Restore a backup, or start with another folder."
    )
