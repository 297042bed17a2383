"""Backups: of one moment, whole, and given back only whole."""

import asyncio
import io
import json
import tarfile
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from app.core.errors import Invalid, StorageFault
from app.core.ids import ChatId, ReplyId, UserId
from app.store import files, replies
from app.store.backup import BackupRefused, backup, restore
from app.store.copy import connect
from app.store.engine import Database
from app.store.files import FileStore
from app.store.folder import DataFolder, FolderInUse
from app.store.schema import SchemaTooNew
from tests.store.conftest import Opened
from tests.store.steps import add_chat, add_message, add_person, add_reply, content, count, phase_of


async def one(content: bytes) -> AsyncIterator[bytes]:
    yield content


async def upload(db: Database, owner: UserId, content: bytes) -> str:
    sha256, size = await FileStore(db.folder.files).put(one(content))
    await db.write(
        lambda s: files.add_file(s, owner=owner, sha256=sha256, name="a", type="text/plain", size=size)
    )
    return sha256


@pytest.fixture
async def used(db: Database, owner: UserId, chat_id: ChatId) -> str:
    """A database with a message, a running reply and an uploaded file; the hash of the file."""
    await add_reply(db, chat_id, await add_message(db, chat_id, "Grüße 你好"))
    return await upload(db, owner, b"uploaded bytes")


@pytest.fixture
def elsewhere(tmp_path: Path) -> DataFolder:
    return DataFolder(tmp_path / "elsewhere")


def rewritten(archive: Path, change: Callable[[dict[str, bytes]], None]) -> Path:
    """The archive with its members as `change` leaves them."""
    with tarfile.open(archive) as tar:
        members = {info.name: _bytes(tar, info) for info in tar}
    change(members)
    target = archive.with_name("rewritten.tar")
    with tarfile.open(target, "w") as tar:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return target


def _bytes(tar: tarfile.TarFile, info: tarfile.TarInfo) -> bytes:
    file = tar.extractfile(info)
    assert file is not None
    return file.read()


async def test_a_backup_restored_elsewhere_is_the_same(
    db: Database, used: str, tmp_path: Path, elsewhere: DataFolder, open_database: Opened
) -> None:
    manifest = await backup(db.folder, tmp_path / "backup.tar")
    assert [member.sha256 for member in manifest.files] == [used]
    assert (manifest.schema, manifest.absent) == ("0001", ())
    restored = await restore(elsewhere, tmp_path / "backup.tar")
    assert restored.manifest == manifest
    assert restored.before is None
    assert FileStore(elsewhere.files).verify(used)
    before, after = content(db.folder.database), content(elsewhere.database)
    assert {name: rows for name, rows in after.items() if name != "reply"} == {
        name: rows for name, rows in before.items() if name != "reply"
    }
    async with open_database(elsewhere) as copy:
        await add_message(copy, await add_chat(copy, await add_person(copy, "Eve")), "more")


async def test_a_backup_is_private_and_leaves_nothing_beside_it(
    db: Database, used: str, tmp_path: Path
) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()
    await backup(db.folder, folder / "backup.tar")
    assert [path.name for path in folder.iterdir()] == ["backup.tar"]
    assert (folder / "backup.tar").stat().st_mode & 0o077 == 0


async def test_the_master_key_is_in_no_backup(db: Database, used: str, tmp_path: Path) -> None:
    db.folder.key.write_bytes(b"the master key itself")
    await backup(db.folder, tmp_path / "backup.tar")
    assert b"the master key itself" not in (tmp_path / "backup.tar").read_bytes()


async def test_a_file_that_is_there_is_not_overwritten(db: Database, tmp_path: Path) -> None:
    (tmp_path / "backup.tar").write_text("precious")
    with pytest.raises(Invalid):
        await backup(db.folder, tmp_path / "backup.tar")
    assert (tmp_path / "backup.tar").read_text() == "precious"


async def test_a_backup_while_others_write_holds_all_that_was_answered_before(
    db: Database, owner: UserId, chat_id: ChatId, tmp_path: Path, elsewhere: DataFolder, open_database: Opened
) -> None:
    answered: list[str] = []
    some, enough = asyncio.Event(), asyncio.Event()

    async def write() -> None:
        while not enough.is_set():
            answered.append(await add_message(db, chat_id, "x" * 500))
            if len(answered) >= 30:
                some.set()

    writers = [asyncio.ensure_future(write()) for _ in range(3)]
    await some.wait()
    before = list(answered)
    await backup(db.folder, tmp_path / "backup.tar")
    enough.set()
    await asyncio.gather(*writers)
    await restore(elsewhere, tmp_path / "backup.tar")
    async with open_database(elsewhere) as copy, copy.read() as s:
        found = {id for (id,) in (await s.execute(text("SELECT id FROM message"))).all()}
    assert set(before) <= found <= set(answered)


async def test_a_reply_that_was_being_written_is_interrupted_and_keeps_its_lane_free(
    db: Database, used: str, chat_id: ChatId, tmp_path: Path, elsewhere: DataFolder, open_database: Opened
) -> None:
    async with db.read() as s:
        running = await replies.live_in(s, chat_id)
    assert running is not None
    await backup(db.folder, tmp_path / "backup.tar")
    assert await phase_of(db, running.id) == "accepted"
    await restore(elsewhere, tmp_path / "backup.tar")
    async with open_database(elsewhere) as copy:
        assert await phase_of(copy, running.id) == "interrupted"
        async with copy.read() as s:
            assert await replies.left_over(s) == []
            reply = await replies.get(s, ReplyId(running.id))
            assert reply is not None
            assert reply.ended is not None


async def test_what_was_there_before_is_kept_aside(
    db: Database, used: str, tmp_path: Path, elsewhere: DataFolder, open_database: Opened
) -> None:
    await backup(db.folder, tmp_path / "backup.tar")
    async with open_database(elsewhere) as other:
        await add_person(other, "Before")
    (elsewhere.live / "reply.log").write_text("of a reply of before")
    restored = await restore(elsewhere, tmp_path / "backup.tar")
    assert restored.before is not None
    assert (restored.before / "reply.log").read_text() == "of a reply of before"
    assert list(elsewhere.live.iterdir()) == []
    async with open_database(elsewhere) as other:
        assert await count(other, "message") == 1
    with closing(connect(restored.before / "nightdesk.db", "ro")) as connection:
        assert connection.execute("SELECT name FROM user").fetchall() == [("Before",)]


async def test_a_restore_replaces_a_database_that_is_damaged(
    db: Database, used: str, tmp_path: Path, elsewhere: DataFolder, open_database: Opened
) -> None:
    await backup(db.folder, tmp_path / "backup.tar")
    elsewhere.database.write_bytes(b"rubbish" * 1000)
    elsewhere.database.with_name("nightdesk.db-wal").write_bytes(b"more rubbish")
    await restore(elsewhere, tmp_path / "backup.tar")
    async with open_database(elsewhere) as other:
        assert await count(other, "message") == 1


async def test_a_folder_in_use_is_not_restored_into(db: Database, used: str, tmp_path: Path) -> None:
    await backup(db.folder, tmp_path / "backup.tar")
    db.folder.lock()
    with pytest.raises(FolderInUse):
        await restore(DataFolder(db.folder.path), tmp_path / "backup.tar")


async def test_a_file_whose_bytes_are_gone_is_named_and_the_rest_backed_up(
    db: Database, owner: UserId, used: str, tmp_path: Path, elsewhere: DataFolder
) -> None:
    gone = await upload(db, owner, b"will be gone")
    FileStore(db.folder.files).remove(gone)
    manifest = await backup(db.folder, tmp_path / "backup.tar")
    assert manifest.absent == (gone,)
    assert [member.sha256 for member in manifest.files] == [used]
    await restore(elsewhere, tmp_path / "backup.tar")


# --- refused, and nothing touched -------------------------------------------------------------------------


@pytest.fixture
async def archive(db: Database, used: str, tmp_path: Path) -> Path:
    await backup(db.folder, tmp_path / "backup.tar")
    return tmp_path / "backup.tar"


async def refused(folder: DataFolder, archive: Path, kind: type[Exception] = BackupRefused) -> str:
    """Checks that the archive is refused and the folder is left as it is; gives what the person is told."""
    folder.database.write_bytes(b"what was there")
    before = {path: path.read_bytes() for path in folder.path.rglob("*") if path.is_file()}
    with pytest.raises(kind) as refusal:
        await restore(folder, archive)
    after = {path: path.read_bytes() for path in folder.path.rglob("*") if path.is_file()}
    after.pop(folder.path / "lock", None)
    before.pop(folder.path / "lock", None)
    assert after == before
    return str(getattr(refusal.value, "person", ""))


def cut(archive: Path, part: float) -> Path:
    """The first `part` of the archive, in its place."""
    whole = archive.read_bytes()
    archive.write_bytes(whole[: int(len(whole) * part)])
    return archive


@pytest.mark.parametrize("part", [0.0, 0.001, 0.3, 0.6, 0.9])
async def test_a_truncated_archive_is_noticed(archive: Path, elsewhere: DataFolder, part: float) -> None:
    assert str(archive) in await refused(elsewhere, cut(archive, part))


async def test_an_archive_cut_between_two_files_is_noticed(archive: Path, elsewhere: DataFolder) -> None:
    def without_files(members: dict[str, bytes]) -> None:
        for name in [name for name in members if name.startswith("files/")]:
            del members[name]

    assert "missing" in await refused(elsewhere, rewritten(archive, without_files))


async def test_a_flipped_bit_is_noticed(archive: Path, used: str, elsewhere: DataFolder) -> None:
    for name in ("nightdesk.db", f"files/{used}"):

        def flip(members: dict[str, bytes], name: str = name) -> None:
            data = bytearray(members[name])
            data[len(data) // 2] ^= 1
            members[name] = bytes(data)

        assert name in await refused(elsewhere, rewritten(archive, flip))


def manifest_with(**changes: Any) -> Callable[[dict[str, bytes]], None]:
    def change(members: dict[str, bytes]) -> None:
        said = json.loads(members["manifest.json"])
        said.update(changes)
        members["manifest.json"] = json.dumps(said).encode()

    return change


@pytest.mark.parametrize(
    "change",
    [
        manifest_with(format=2),
        manifest_with(files=[{"sha256": "../../etc/passwd", "size": 1}]),
        manifest_with(files=None),
        manifest_with(database={"sha256": "0" * 64}),
        lambda members: members.pop("manifest.json"),
        lambda members: members.update({"manifest.json": b"{"}),
        lambda members: members.update({"manifest.json": b"[1]"}),
        lambda members: members.update({"../outside": b"x"}),
        lambda members: members.update({"files/extra": b"x"}),
    ],
)
async def test_an_archive_that_says_one_thing_and_holds_another_is_refused(
    archive: Path, elsewhere: DataFolder, tmp_path: Path, change: Callable[[dict[str, bytes]], None]
) -> None:
    await refused(elsewhere, rewritten(archive, change))
    assert not (tmp_path / "outside").exists()


async def test_links_and_devices_are_refused(archive: Path, elsewhere: DataFolder, tmp_path: Path) -> None:
    for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE):
        with tarfile.open(archive) as tar, tarfile.open(tmp_path / "odd.tar", "w") as odd:
            for info in tar:
                data = io.BytesIO(_bytes(tar, info))
                if info.name == "nightdesk.db":
                    info.type, info.linkname, info.size = kind, "/etc/passwd", 0
                odd.addfile(info, data)
        await refused(elsewhere, tmp_path / "odd.tar")


@pytest.mark.parametrize("content", [b"", b"not an archive", b"\x1f\x8b\x08\x00" + b"\0" * 600])
async def test_what_is_no_archive_is_refused(elsewhere: DataFolder, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    await refused(elsewhere, tmp_path / "file")
    await refused(elsewhere, tmp_path / "nowhere.tar")


async def test_a_backup_of_a_newer_version_is_refused(
    db: Database, used: str, tmp_path: Path, elsewhere: DataFolder
) -> None:
    await db.close()
    with closing(connect(db.folder.database)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '0999'")
    await backup(db.folder, tmp_path / "backup.tar")
    said = await refused(elsewhere, tmp_path / "backup.tar", SchemaTooNew)
    assert "newer" in said
    assert "backup.tar" in said


async def test_a_damaged_database_is_not_backed_up_as_if_it_were_whole(
    db: Database, used: str, tmp_path: Path
) -> None:
    await db.close()
    with closing(connect(db.folder.database)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("UPDATE sqlite_master SET rootpage = 999999 WHERE name = 'message_queue'")
    with pytest.raises((BackupRefused, StorageFault)):
        await backup(db.folder, tmp_path / "backup.tar")
    assert not (tmp_path / "backup.tar").exists()
