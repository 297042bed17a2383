"""From nothing, from an older schema and from a newer one: made, brought to the head, or refused with a reason."""

import logging
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine

from app import __version__
from app.core.errors import StorageFault
from app.store import schema
from app.store.copy import connect
from app.store.engine import Database
from app.store.folder import DataFolder
from app.store.schema import MigrationFailed, SchemaDamaged, SchemaTooNew, Steps
from app.store.tables import Base
from app.tasks import Tasks
from tests.store.conftest import Opened
from tests.store.steps import add_chat, add_message, add_person, content, count

ROOT = Path(__file__).parents[2]


def describe(connection: sqlite3.Connection) -> dict[str, Any]:
    """Tables with their columns, foreign keys and indexes, whatever the words they were made with."""
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    found = {}
    for table in tables:
        indexes = connection.execute(f"PRAGMA index_list('{table}')").fetchall()
        columns = {
            name: connection.execute(f"PRAGMA index_xinfo('{name}')").fetchall() for _, name, *_ in indexes
        }
        found[table] = {
            "columns": sorted(row[1:] for row in connection.execute(f"PRAGMA table_info('{table}')")),
            "checks": re.findall(r"CHECK \(.*?\)\)", _source(connection, table)),
            "foreign keys": sorted(
                row[2:] for row in connection.execute(f"PRAGMA foreign_key_list('{table}')")
            ),
            "indexes": sorted(
                (row[2:], [part[2:4] for part in columns[row[1]]], _condition(connection, row[1]))
                for row in indexes
            ),
        }
    return found


def _condition(connection: sqlite3.Connection, index: str) -> str:
    return _source(connection, index).partition(" WHERE ")[2]


def _source(connection: sqlite3.Connection, name: str) -> str:
    row = connection.execute("SELECT sql FROM sqlite_master WHERE name = ?", (name,)).fetchone()
    return row[0] or "" if row else ""


def test_the_migrations_make_just_the_tables_that_the_program_uses(
    tmp_path: Path, fresh_database: Path
) -> None:
    engine = create_engine("sqlite+pysqlite://", creator=lambda: connect(tmp_path / "orm.db", "rwc"))
    Base.metadata.create_all(engine)
    engine.dispose()
    with closing(connect(tmp_path / "orm.db")) as orm, closing(connect(fresh_database)) as migrated:
        wanted, made = describe(orm), describe(migrated)
    assert {name: made[name] for name in wanted} == wanted
    beside = {name for name in set(made) - set(wanted) if not name.startswith(("search", "sqlite_"))}
    assert beside == {"alembic_version", "compatibility"}


def test_the_head_that_the_program_knows_is_the_last_migration() -> None:
    script = ScriptDirectory(
        str(schema.FOLDER), version_locations=[str(path) for path in schema.STEPS.versions]
    )
    assert script.get_heads() == [schema.STEPS.head]
    assert all(hasattr(step.module, "OLDEST_PROGRAM") for step in script.walk_revisions())


def test_opening_a_current_database_does_not_import_alembic(folder: DataFolder) -> None:
    program = (
        "import sys; from pathlib import Path; from app.store import schema; from app.store.folder import DataFolder;"
        f"schema.bring_to_head(DataFolder(Path({str(folder.path)!r}))); sys.exit('alembic' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False).returncode == 0


def test_a_new_database_is_for_its_user_alone_and_needs_no_backup(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path / "data")
    schema.bring_to_head(folder)
    assert folder.database.stat().st_mode & 0o077 == 0
    assert list(folder.backups.iterdir()) == []
    schema.bring_to_head(folder)


def test_an_empty_file_is_no_obstacle(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path / "data")
    folder.database.touch()
    schema.bring_to_head(folder)
    assert schema.find(folder.database, folder.path) == schema.Found("0001", "0.1.0")


# --- refusals ---------------------------------------------------------------------------------------------


def put(folder: DataFolder, statement: str) -> None:
    with closing(connect(folder.database)) as connection:
        connection.execute(statement)


def test_a_newer_schema_is_refused_and_left_as_it_is(folder: DataFolder) -> None:
    put(folder, "UPDATE alembic_version SET version_num = '0999'")
    put(folder, "UPDATE compatibility SET oldest_program = '7.2.0'")
    before = folder.database.read_bytes()
    with pytest.raises(SchemaTooNew) as refusal:
        schema.bring_to_head(folder)
    for word in (str(folder.path), "0999", "7.2.0", __version__, "newer"):
        assert word in refusal.value.person
    assert folder.database.read_bytes() == before


def test_a_known_schema_that_asks_for_a_newer_program_is_refused(folder: DataFolder) -> None:
    put(folder, "UPDATE compatibility SET oldest_program = '0.10.0'")
    with pytest.raises(SchemaTooNew, match=r"0\.10\.0"):
        schema.bring_to_head(folder)


async def test_a_database_that_is_refused_keeps_nothing_open(
    folder: DataFolder, open_database: Opened
) -> None:
    put(folder, "UPDATE alembic_version SET version_num = '0999'")
    with pytest.raises(SchemaTooNew):
        await Database.open(folder, Tasks("test"))
    put(folder, "UPDATE alembic_version SET version_num = '0001'")
    async with open_database(folder) as db:
        await add_person(db, "Ada")


def test_a_file_of_something_else_is_refused(folder: DataFolder) -> None:
    folder.database.write_bytes(b"not a database, but long enough to look at it" * 40)
    with pytest.raises(StorageFault) as fault:
        schema.bring_to_head(folder)
    assert "not a database" in str(fault.value)


def test_a_database_of_another_program_is_refused(folder: DataFolder) -> None:
    folder.database.unlink()
    put_new = sqlite3.connect(folder.database)
    put_new.execute("CREATE TABLE recipes (name TEXT)")
    put_new.close()
    with pytest.raises(SchemaDamaged, match="not a database of Nightdesk"):
        schema.bring_to_head(folder)


@pytest.mark.parametrize(
    ("damage", "lacking"),
    [
        ("DROP TABLE draft", "draft.user"),
        ("ALTER TABLE chat RENAME COLUMN leaf TO twig", "chat.leaf"),
        ("DROP TRIGGER audit_no_delete", "audit_no_delete"),
        ("DROP TRIGGER search_part_removed", "search_part_removed"),
    ],
)
def test_what_a_database_lacks_is_named(folder: DataFolder, damage: str, lacking: str) -> None:
    put(folder, damage)
    with pytest.raises(SchemaDamaged, match=lacking):
        schema.bring_to_head(folder)


# --- migrating --------------------------------------------------------------------------------------------

_GOOD = """
from alembic import op
revision, down_revision = "0002", "0001"
OLDEST_PROGRAM = "0.1.0"
def upgrade():
    op.execute("CREATE TABLE mark (name TEXT PRIMARY KEY)")
    op.execute("INSERT INTO mark SELECT id FROM chat")
"""

_BAD = """
from alembic import op
revision, down_revision = "0003", "0002"
OLDEST_PROGRAM = "0.1.0"
def upgrade():
    op.execute("DELETE FROM message")
    op.execute("INSERT INTO no_such_table VALUES (1)")
"""

_ORPHANING = """
from alembic import op
revision, down_revision = "0002", "0001"
OLDEST_PROGRAM = "0.1.0"
def upgrade():
    op.execute("UPDATE message SET chat = 'nowhere'")
"""


def later(tmp_path: Path, head: str, *sources: str) -> Steps:
    """The migrations of the program with more of them behind."""
    versions = tmp_path / "later % versions"
    versions.mkdir()
    for number, source in enumerate(sources):
        (versions / f"step{number}.py").write_text(source)
    return Steps(head, (*schema.STEPS.versions, versions))


@pytest.fixture
async def used(folder: DataFolder, open_database: Opened) -> DataFolder:
    """A folder whose database has a chat with a message."""
    async with open_database(folder) as db:
        await add_message(db, await add_chat(db, await add_person(db, "Ada")), "kept")
    return folder


def test_a_migration_keeps_what_is_there_and_leaves_a_copy_from_before(
    used: DataFolder, tmp_path: Path
) -> None:
    before = content(used.database)
    schema.bring_to_head(used, later(tmp_path, "0002", _GOOD))
    assert schema.find(used.database, used.path) == schema.Found("0002", "0.1.0")
    with closing(connect(used.database)) as connection:
        assert connection.execute("SELECT count(*) FROM mark").fetchone() == (1,)
    (copy,) = used.backups.iterdir()
    assert "0001" in copy.name
    assert copy.stat().st_mode & 0o077 == 0
    assert content(copy) == before


def test_a_migration_runs_once(used: DataFolder, tmp_path: Path) -> None:
    steps = later(tmp_path, "0002", _GOOD)
    schema.bring_to_head(used, steps)
    schema.bring_to_head(used, steps)
    assert len(list(used.backups.iterdir())) == 1


@pytest.mark.parametrize(("head", "sources"), [("0003", (_GOOD, _BAD)), ("0002", (_ORPHANING,))])
def test_a_failed_migration_puts_back_what_was_there_and_says_why(
    used: DataFolder, tmp_path: Path, head: str, sources: tuple[str, ...]
) -> None:
    before = content(used.database)
    with pytest.raises(MigrationFailed) as failure:
        schema.bring_to_head(used, later(tmp_path, head, *sources))
    assert str(used.path) in failure.value.person
    assert "no_such_table" in failure.value.person or "rows point" in failure.value.person
    assert content(used.database) == before
    assert sorted(path.name for path in used.path.glob("nightdesk.db*")) == ["nightdesk.db"]


async def test_after_a_failed_migration_the_program_of_before_goes_on(
    used: DataFolder, tmp_path: Path, open_database: Opened
) -> None:
    with pytest.raises(MigrationFailed):
        schema.bring_to_head(used, later(tmp_path, "0003", _GOOD, _BAD))
    async with open_database(used) as db:
        assert await count(db, "message") == 1


def test_what_the_wal_holds_after_a_crash_is_in_the_copy_and_is_migrated(
    used: DataFolder, tmp_path: Path
) -> None:
    program = (
        "import os, sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None);"
        "c.execute('PRAGMA wal_autocheckpoint = 0');"
        "c.execute(\"INSERT INTO setting VALUES ('late', '1')\"); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", program, str(used.database)], check=True)
    assert used.database.with_name("nightdesk.db-wal").stat().st_size > 0
    schema.bring_to_head(used, later(tmp_path, "0002", _GOOD))
    (copy,) = used.backups.iterdir()
    for database in (copy, used.database):
        with closing(connect(database)) as connection:
            assert connection.execute("SELECT name FROM setting").fetchall() == [("late",)]


def test_a_process_killed_in_a_migration_leaves_the_schema_of_before_or_after(
    used: DataFolder, tmp_path: Path
) -> None:
    dying = _GOOD + "\n    import os; os._exit(9)\n"
    steps = later(tmp_path, "0002", dying)
    program = (
        "import sys; from pathlib import Path; from app.store import schema; from app.store.folder import DataFolder;"
        f"schema.bring_to_head(DataFolder(Path(sys.argv[1])), schema.Steps('0002', {steps.versions!r}))"
    )
    program = "from pathlib import PosixPath;" + program
    done = subprocess.run([sys.executable, "-c", program, str(used.path)], cwd=ROOT, check=False)
    assert done.returncode == 9
    assert schema.find(used.database, used.path) == schema.Found("0001", "0.1.0")
    (steps.versions[-1] / "step0.py").write_text(_GOOD)
    shutil.rmtree(steps.versions[-1] / "__pycache__", ignore_errors=True)
    schema.bring_to_head(used, steps)
    assert schema.find(used.database, used.path) == schema.Found("0002", "0.1.0")


def test_migrating_says_so_in_the_log(
    used: DataFolder, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "app.store.schema"):
        schema.bring_to_head(used, later(tmp_path, "0002", _GOOD))
    assert "from 0001 to 0002" in caplog.text
