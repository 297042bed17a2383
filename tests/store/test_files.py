"""Uploaded bytes: kept under their hash, whole or not at all; and whose they are."""

import hashlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from app.core.clock import now_ms
from app.core.errors import NotFound, StorageFault, TooLong
from app.core.ids import ChatId, FileId, UserId, new_id
from app.core.messages import FilePart
from app.store import files
from app.store.engine import Database, Session
from app.store.files import FileStore
from app.store.tables import File
from tests.store.steps import add_message, add_person


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    folder = tmp_path / "files"
    folder.mkdir()
    return FileStore(folder)


async def pieces(*content: bytes) -> AsyncIterator[bytes]:
    for piece in content:
        yield piece


def names(store: FileStore) -> list[str]:
    return sorted(path.name for path in store.folder.iterdir())


async def test_bytes_are_kept_under_their_hash(store: FileStore) -> None:
    sha256, size = await store.put(pieces(b"one ", b"", b"two"))
    assert (sha256, size) == (hashlib.sha256(b"one two").hexdigest(), 7)
    with store.open(sha256) as file:
        assert file.read() == b"one two"
    assert store.verify(sha256)
    assert store.path(sha256).stat().st_mode & 0o077 == 0


async def test_the_same_bytes_lie_there_once(store: FileStore) -> None:
    assert await store.put(pieces(b"same")) == await store.put(pieces(b"sa", b"me"))
    assert len(names(store)) == 1


async def test_an_empty_file_is_a_file(store: FileStore) -> None:
    sha256, size = await store.put(pieces())
    assert size == 0
    assert store.verify(sha256)


async def test_too_much_is_refused_as_it_comes_and_leaves_nothing(store: FileStore) -> None:
    with pytest.raises(TooLong):
        await store.put(pieces(*[b"x" * 1000] * 10), limit=5000)
    assert names(store) == []
    assert (await store.put(pieces(b"x" * 5000), limit=5000))[1] == 5000


async def test_an_upload_cut_off_leaves_nothing(store: FileStore) -> None:
    async def cut_off() -> AsyncIterator[bytes]:
        yield b"half"
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        await store.put(cut_off())
    assert names(store) == []


async def test_what_a_killed_upload_left_is_tidied_away(store: FileStore) -> None:
    sha256, _ = await store.put(pieces(b"whole"))
    (store.folder / "incoming-1234").write_bytes(b"half")
    store.tidy()
    assert names(store) == [sha256]


async def test_changed_bytes_are_noticed(store: FileStore) -> None:
    sha256, _ = await store.put(pieces(b"whole"))
    store.path(sha256).write_bytes(b"wh0le")
    assert not store.verify(sha256)
    store.remove(sha256)
    assert not store.verify(sha256)
    with pytest.raises(NotFound):
        store.open(sha256)


@pytest.mark.parametrize(
    "name", ["", "..", "../secret.key", "/etc/passwd", "A" * 64, "0" * 63, "0" * 64 + "/"]
)
def test_only_a_hash_is_a_name(store: FileStore, name: str) -> None:
    with pytest.raises(NotFound):
        store.open(name)


def test_a_link_is_not_followed(store: FileStore, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (store.folder / ("0" * 64)).symlink_to(tmp_path / "secret")
    with pytest.raises(StorageFault):
        store.open("0" * 64)


# --- rows -------------------------------------------------------------------------------------------------


async def add(db: Database, owner: UserId, sha256: str) -> File:
    return await db.write(
        lambda s: files.add_file(s, owner=owner, sha256=sha256, name="a.png", type="image/png", size=3)
    )


async def test_a_strangers_file_does_not_exist(db: Database, owner: UserId) -> None:
    file = await add(db, owner, "0" * 64)
    stranger = await add_person(db, "Eve")
    async with db.read() as s:
        assert (await files.owned(s, FileId(file.id), owner)).name == "a.png"
        with pytest.raises(NotFound):
            await files.owned(s, FileId(file.id), stranger)
        assert set(await files.load(s, [FileId(file.id), FileId(new_id())])) == {file.id}


async def test_a_file_that_no_message_holds_is_an_orphan_after_a_while(
    db: Database, owner: UserId, chat_id: ChatId
) -> None:
    held, loose = await add(db, owner, "0" * 64), await add(db, owner, "1" * 64)
    await add_message(db, chat_id, parts=(FilePart("image", FileId(held.id)),))
    async with db.read() as s:
        assert await files.orphans(s, now_ms() - 60_000) == []
        assert [file.id for file in await files.orphans(s, now_ms() + 1)] == [loose.id]


async def test_bytes_are_nobodys_when_the_last_row_that_names_them_goes(db: Database, owner: UserId) -> None:
    first, second = await add(db, owner, "0" * 64), await add(db, owner, "0" * 64)

    async def drop(s: Session, id: str) -> bool:
        return await files.drop(s, await files.owned(s, FileId(id), owner))

    assert not await db.write(lambda s: drop(s, first.id))
    assert await db.write(lambda s: drop(s, second.id))


async def test_old_files_that_nobody_holds_go_and_young_ones_stay(
    db: Database, owner: UserId, store: FileStore
) -> None:
    tomorrow = now_ms() + 24 * 60 * 60 * 1000
    kept, _ = await store.put(pieces(b"held by its row"))
    await add(db, owner, kept)
    lost, _ = await store.put(pieces(b"of an upload that was refused"))
    assert await db.write(lambda s: files.clear_away(s, store, now_ms() - 1000)) == 0
    assert names(store) == sorted([kept, lost])
    assert await db.write(lambda s: files.clear_away(s, store, tomorrow)) == 2
    assert names(store) == []


async def test_what_cannot_be_cleared_away_is_a_fault_of_storage(db: Database, store: FileStore) -> None:
    (store.folder / ("0" * 64)).mkdir()
    with pytest.raises(StorageFault):
        await db.write(lambda s: files.clear_away(s, store, now_ms() + 60_000))
