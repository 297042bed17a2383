"""Sealed values, and the wrapped keys that open them."""

from app.store import secrets
from app.store.engine import Database, Session


async def put(db: Database, owner: str, field: str, sealed: bytes) -> None:
    await db.write(
        lambda s: secrets.put(s, owner, field, origin="https://api.example:443", key_version=1, sealed=sealed)
    )


async def kept(db: Database) -> dict[tuple[str, str], bytes]:
    async with db.read() as s:
        return {(row.owner, row.field): row.sealed for row in await secrets.all(s)}


async def test_a_secret_is_kept_replaced_and_removed(db: Database) -> None:
    await put(db, "e1", "key", b"\x00\xff")
    await put(db, "e1", "key", b"new")
    await put(db, "e1", "header", b"h")
    await put(db, "e2", "key", b"k")
    async with db.read() as s:
        found = await secrets.get(s, "e1", "key")
        assert found is not None
        assert (found.sealed, found.origin, found.key_version) == (b"new", "https://api.example:443", 1)
        assert await secrets.get(s, "e1", "other") is None
    await db.write(lambda s: secrets.drop(s, "e1", "header"))
    assert set(await kept(db)) == {("e1", "key"), ("e2", "key")}
    await db.write(lambda s: secrets.drop(s, "e1"))
    assert set(await kept(db)) == {("e2", "key")}


async def test_data_keys_come_oldest_first_and_end(db: Database) -> None:
    async def rotate(s: Session) -> list[tuple[int, bytes]]:
        await secrets.add_data_key(s, 1, b"first")
        await secrets.add_data_key(s, 2, b"second")
        return [(key.version, key.wrapped) for key in await secrets.data_keys(s)]

    assert await db.write(rotate) == [(1, b"first"), (2, b"second")]
    await db.write(lambda s: secrets.drop_data_keys(s, below=2))
    async with db.read() as s:
        assert [key.version for key in await secrets.data_keys(s)] == [2]
