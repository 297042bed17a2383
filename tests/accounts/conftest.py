"""A data folder, its database, and accounts on them."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from app.accounts.access import Person, Role
from app.accounts.passwords import Passwords
from app.accounts.people import People
from app.accounts.rates import Rates
from app.accounts.sessions import Sessions, SignedIn
from app.store import audit
from app.store.engine import Database
from app.store.folder import DataFolder
from app.store.tables import Audit, User
from app.tasks import Tasks

PASSWORD = "four quiet lamps at dusk"


class Clock:
    """Seconds that pass when told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Door:
    """Everything about accounts, on one data folder."""

    db: Database
    folder: DataFolder
    tasks: Tasks
    clock: Clock
    rates: Rates
    sessions: Sessions
    people: People

    async def add(self, name: str = "ada", role: Role = "member", password: str = PASSWORD) -> User:
        return await self.people.add_user(name, password, role)

    async def sign_in(
        self, name: str = "ada", password: str = PASSWORD, address: str = "192.0.2.1"
    ) -> SignedIn:
        return await self.sessions.sign_in(name, password, address, "Firefox/1")

    async def signed_in(self, name: str = "ada", role: Role = "member") -> Person:
        """The person that a request of theirs would carry."""
        await self.add(name, role)
        found = await self.sessions.by_token((await self.sign_in(name)).token)
        assert found is not None
        return found

    async def log(self) -> list[Audit]:
        """The audit log, newest first."""
        async with self.db.read() as s:
            rows, _ = await audit.audit(s, limit=500)
        return rows


def open_door(db: Database, folder: DataFolder, tasks: Tasks) -> Door:
    """Accounts as after a start on this database."""
    clock = Clock()
    rates, passwords = Rates(clock=clock), Passwords()
    sessions = Sessions(db, tasks, passwords, rates)
    return Door(db, folder, tasks, clock, rates, sessions, People(db, folder, sessions, passwords, rates))


@pytest.fixture
def folder(tmp_path: Path) -> DataFolder:
    return DataFolder(tmp_path / "data")


@pytest.fixture
async def tasks() -> AsyncIterator[Tasks]:
    made = Tasks("test")
    yield made
    await made.close(grace=5)


@pytest.fixture
async def db(folder: DataFolder, tasks: Tasks) -> AsyncIterator[Database]:
    opened = await Database.open(folder, tasks)
    yield opened
    await opened.close()


@pytest.fixture
def door(db: Database, folder: DataFolder, tasks: Tasks) -> Door:
    return open_door(db, folder, tasks)
