"""What happens when the disk is full, as a process of its own: python -m tests.store.full_disk FOLDER room|growth

With `room`, FOLDER lies on a small disk, which a big file fills. With `growth`, the process may let no file grow,
which needs no rights. Prints one line of JSON; a broken promise is a traceback and a status other than 0.
"""

import asyncio
import json
import os
import resource
import sys
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path
from typing import Any

from sqlalchemy import text

from app.core.errors import DiskFull, StorageFault
from app.core.ids import ChatId
from app.store import chats, schema
from app.store.backup import backup
from app.store.engine import Database
from app.store.files import FileStore
from app.store.folder import DataFolder
from app.tasks import Tasks
from tests.store.steps import add_message, add_person, count


class Disk:
    """A disk that can be filled and freed."""

    def __init__(self, folder: Path, by_growth: bool) -> None:
        self.filler = folder / "filler"
        self.by_growth = by_growth
        self.expected: type[StorageFault] = StorageFault if by_growth else DiskFull

    def fill(self) -> None:
        if self.by_growth:
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
            return
        with self.filler.open("ab", buffering=0) as file:
            try:
                while True:
                    file.write(b"\0" * 4096)
            except OSError:
                pass

    def free(self) -> None:
        if self.by_growth:
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        else:
            self.filler.unlink()

    async def refuses(self, work: Awaitable[Any]) -> str:
        """Checks that `work` fails for want of room; gives what the person is told."""
        try:
            await work
        except self.expected as fault:
            return fault.person
        raise AssertionError("this should have been refused")


async def main(folder: DataFolder, disk: Disk) -> dict[str, Any]:
    tasks = Tasks("full disk")
    db = await Database.open(folder, tasks)
    owner = await add_person(db, "Ada")
    chat = ChatId((await db.write(lambda s: chats.create(s, owner))).id)

    disk.fill()
    answered = await write_until_refused(db, chat, disk)
    said = await disk.refuses(add_message(db, chat, "x" * 100_000))
    assert await count(db, "message") == answered, (
        "a message that was refused is there, or an answered one isn't"
    )
    await disk.refuses(FileStore(folder.files).put(upload()))
    assert not list(folder.files.iterdir()), "half an upload was left"
    await disk.refuses(backup(folder, folder.path / "backup.tar"))
    assert not list(folder.path.glob("backup.tar*")), "half a backup was left"
    assert not list(folder.path.glob(".making-*")), "what a backup was made of was left"

    disk.free()
    for _ in range(3):
        await add_message(db, chat, "y" * 100_000)
    async with db.read() as s:
        assert await s.scalar(text("PRAGMA integrity_check")) == "ok"
    assert await count(db, "message") == answered + 3
    await db.close()
    told = await migrate_without_room(folder, disk)
    return {"answered": answered, "said": said, "migration": told}


async def write_until_refused(db: Database, chat: ChatId, disk: Disk) -> int:
    """How many messages were still taken: the WAL has room from before."""
    for answered in range(1000):
        try:
            await add_message(db, chat, "x" * 50_000)
        except disk.expected:
            return answered
    raise AssertionError("the disk was never full")


async def upload() -> AsyncIterator[bytes]:
    for _ in range(64):
        yield b"\1" * 65_536


async def migrate_without_room(folder: DataFolder, disk: Disk) -> str:
    steps = schema.Steps("later", (*schema.STEPS.versions, later_step(folder.path)))
    before = folder.database.read_bytes()
    disk.fill()
    try:
        schema.bring_to_head(folder, steps)
    except StorageFault as fault:
        assert folder.database.read_bytes() == before, "the database was changed"
        assert not list(folder.backups.iterdir()), "half a copy was left"
        return fault.person
    raise AssertionError("the migration should have been refused")


def later_step(folder: Path) -> Path:
    versions = folder / "versions"
    versions.mkdir()
    step = "revision = 'later'\ndown_revision = '0001'\nOLDEST_PROGRAM = '0.1.0'\ndef upgrade(): pass\n"
    (versions / "later.py").write_text(step)
    return versions


if __name__ == "__main__":
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    sys.dont_write_bytecode = True
    place = Path(sys.argv[1])
    print(json.dumps(asyncio.run(main(DataFolder(place), Disk(place, sys.argv[2] == "growth")))))
