"""The database of every release opens in this version, with all that was in it."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from app.core.ids import ChatId, MessageId, UserId
from app.store import chats, messages, people, search
from app.store.copy import connect
from app.store.folder import DataFolder
from app.store.schema import STEPS
from app.store.tables import Base, Chat
from tests.store.conftest import Opened
from tests.store.release import ODD

RELEASES = sorted((Path(__file__).parents[1] / "fixtures" / "store").glob("*.sql"))


def rows(connection: sqlite3.Connection) -> dict[str, list[dict[str, Any]]]:
    """Every row of every table by its columns' names."""
    names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    found = {}
    for table in (table.name for table in Base.metadata.sorted_tables if table.name in names):
        cursor = connection.execute(f'SELECT * FROM "{table}" ORDER BY rowid')
        columns = [column[0] for column in cursor.description]
        found[table] = [dict(zip(columns, row, strict=True)) for row in cursor]
    return found


@pytest.fixture(params=RELEASES, ids=lambda path: path.stem)
def release(request: pytest.FixtureRequest, tmp_path: Path) -> DataFolder:
    """A folder as that release left it."""
    folder = DataFolder(tmp_path / "data")
    with closing(sqlite3.connect(folder.database)) as connection:
        connection.executescript(request.param.read_bytes().decode())
    return folder


def test_there_is_a_database_of_every_released_schema() -> None:
    assert RELEASES[-1].stem == STEPS.head


async def test_an_older_database_is_brought_to_the_head_with_all_that_was_in_it(
    release: DataFolder, open_database: Opened
) -> None:
    with closing(connect(release.database)) as connection:
        before = rows(connection)
    assert all(before.values()), "a table without a row proves nothing"
    async with open_database(release):
        pass
    with closing(connect(release.database)) as connection:
        after = rows(connection)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        assert connection.execute("SELECT version_num FROM alembic_version").fetchone() == (STEPS.head,)
    for table, kept in before.items():
        narrowed = [{name: row[name] for name in old} for row, old in zip(after[table], kept, strict=True)]
        assert narrowed == kept, table


async def test_what_was_written_with_an_older_version_is_read_found_and_deleted(
    release: DataFolder, open_database: Opened
) -> None:
    async with open_database(release) as db:
        async with db.read() as s:
            user = UserId((await people.users(s))[0].id)
            row = (await chats.listing(s, user))[0][0]
            branch = await messages.branch(s, await chats.owned(s, row.id, user))
            assert branch[0].text == ODD
            assert branch[1].text == ODD
            assert branch[1].siblings[0] == branch[1].id
            assert len(branch[1].siblings) == 2
            assert [message.text for message in await messages.path_to(s, MessageId(branch[-1].id))]
            for words in ("gruße", "日本", "odd"):
                assert (await search.find(s, user, words))[0], words
            ids = [ChatId(chat.id) for chat in (await s.scalars(select(Chat))).all()]
        for id in ids:
            await db.write(lambda s, id=id: _delete(s, id, user))  # type: ignore[misc]


async def _delete(s: Any, id: ChatId, user: UserId) -> None:
    await chats.delete(s, await chats.owned(s, id, user))
