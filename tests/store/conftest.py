"""A database of one's own for every test; the schema is made once and copied."""

import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from app.core.ids import ChatId, UserId
from app.store import chats, schema
from app.store.engine import Database
from app.store.folder import DataFolder
from app.tasks import Tasks
from tests.store.steps import add_person

Opened = Callable[[DataFolder], AbstractAsyncContextManager[Database]]


@pytest.fixture(scope="session")
def fresh_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database of the current schema with nothing in it."""
    folder = DataFolder(tmp_path_factory.mktemp("fresh"))
    schema.bring_to_head(folder)
    return folder.database


@pytest.fixture
def folder(tmp_path: Path, fresh_database: Path) -> DataFolder:
    """A data folder with an empty database."""
    folder = DataFolder(tmp_path / "data")
    shutil.copyfile(fresh_database, folder.database)
    return folder


@asynccontextmanager
async def opened(folder: DataFolder) -> AsyncIterator[Database]:
    tasks = Tasks("test")
    database = await Database.open(folder, tasks)
    try:
        yield database
    finally:
        await database.close()
        await tasks.close()


@pytest.fixture
def open_database() -> Opened:
    """Opens the database of a folder for a while."""
    return opened


@pytest.fixture
async def db(folder: DataFolder) -> AsyncIterator[Database]:
    async with opened(folder) as database:
        yield database


@pytest.fixture
async def owner(db: Database) -> UserId:
    """A person."""
    return await add_person(db, "Ada")


@pytest.fixture
async def chat_id(db: Database, owner: UserId) -> ChatId:
    """A chat of that person with nothing in it."""
    return ChatId((await db.write(lambda s: chats.create(s, owner))).id)
