import base64
import os
import stat
from functools import partial

import pytest
from sqlalchemy import Update, update

from app.accounts import vault as vaults
from app.accounts.vault import SecretUnreadable, Vault, WrongKey
from app.core.errors import StorageFault
from app.store import secrets
from app.store.engine import Database, Session
from app.store.folder import DataFolder
from app.store.tables import Secret

ORIGIN = "https://api.example.com:443"
CANARY = "sk-canary-4f1d-ümlaut"


@pytest.fixture
async def vault(db: Database, folder: DataFolder) -> Vault:
    return await Vault.unlock(db, folder)


async def seal(db: Database, vault: Vault, owner: str, plain: str = CANARY, origin: str = ORIGIN) -> None:
    await db.write(lambda s: vault.seal(s, owner, "key", origin, plain))


async def _run(change: Update, s: Session) -> None:
    await s.execute(change)


async def opened(db: Database, vault: Vault, owner: str, origin: str = ORIGIN) -> str | None:
    async with db.read() as s:
        return await vault.open(s, owner, "key", origin)


async def test_a_secret_comes_back_for_the_origin_it_was_given_for(db: Database, vault: Vault):
    await seal(db, vault, "one")
    assert await opened(db, vault, "one") == CANARY
    assert await opened(db, vault, "two") is None


@pytest.mark.parametrize(
    "other", ["https://evil.example.com:443", "http://api.example.com:443", "https://api.example.com:444", ""]
)
async def test_a_secret_is_not_sent_anywhere_else(db: Database, vault: Vault, other: str):
    """A changed base URL would have carried the stored key to a stranger."""
    await seal(db, vault, "one")
    assert await opened(db, vault, "one", other) is None


async def test_a_row_that_claims_another_origin_does_not_open(db: Database, vault: Vault):
    await seal(db, vault, "one")
    await db.write(lambda s: s.execute(update(Secret).values(origin="https://evil.example.com:443")))
    with pytest.raises(SecretUnreadable):
        await opened(db, vault, "one", "https://evil.example.com:443")


async def test_secrets_that_were_swapped_between_rows_do_not_open(db: Database, vault: Vault):
    await seal(db, vault, "one", "first")
    await seal(db, vault, "two", "second")
    async with db.read() as s:
        one, two = await secrets.get(s, "one", "key"), await secrets.get(s, "two", "key")
    assert one is not None
    assert two is not None
    for owner, sealed in (("one", two.sealed), ("two", one.sealed)):
        change = update(Secret).where(Secret.owner == owner).values(sealed=sealed)
        await db.write(partial(_run, change))
    for owner in ("one", "two"):
        with pytest.raises(SecretUnreadable):
            await opened(db, vault, owner)


@pytest.mark.parametrize("broken", [b"", b"\x01", b"\x02" + bytes(60), b"\x01" + bytes(60)])
async def test_a_damaged_secret_is_a_storage_fault_with_a_way_out(db: Database, vault: Vault, broken: bytes):
    await seal(db, vault, "one")
    await db.write(lambda s: s.execute(update(Secret).values(sealed=broken)))
    with pytest.raises(StorageFault, match="one") as fault:
        await opened(db, vault, "one")
    assert "Enter it again" in fault.value.person


async def test_no_secret_and_no_key_lies_in_the_database(db: Database, folder: DataFolder, vault: Vault):
    await seal(db, vault, "one")
    master, data_key = vault._master, next(iter(vault._keys.values()))
    await db.close()
    stored = b"".join(path.read_bytes() for path in folder.path.glob("nightdesk.db*"))
    for secret in (CANARY.encode(), master, data_key, base64.b64encode(master)):
        assert secret not in stored


async def test_the_key_file_is_made_once_and_read_by_its_owner_alone(db: Database, folder: DataFolder):
    vault = await Vault.unlock(db, folder)
    assert stat.S_IMODE(folder.key.stat().st_mode) == 0o600
    await seal(db, vault, "one")
    assert await opened(db, await Vault.unlock(db, folder), "one") == CANARY


async def test_a_key_file_that_others_could_read_is_narrowed(db: Database, folder: DataFolder, vault: Vault):
    folder.key.chmod(0o644)
    await Vault.unlock(db, folder)
    assert stat.S_IMODE(folder.key.stat().st_mode) == 0o600


async def test_another_key_is_refused_with_the_way_to_mend_it(db: Database, folder: DataFolder, vault: Vault):
    folder.key.write_bytes(base64.b64encode(os.urandom(32)))
    with pytest.raises(WrongKey, match=r"Put back the file") as refused:
        await Vault.unlock(db, folder)
    assert str(folder.key) in refused.value.person


async def test_a_missing_key_file_is_never_replaced_by_a_new_key(
    db: Database, folder: DataFolder, vault: Vault
):
    folder.key.unlink()
    with pytest.raises(WrongKey):
        await Vault.unlock(db, folder)
    assert not folder.key.exists()


@pytest.mark.parametrize("damage", [b"", b"not base64!", b"c2hvcnQ=", b"\xff\xfe"])
async def test_a_damaged_key_file_is_named(db: Database, folder: DataFolder, vault: Vault, damage: bytes):
    folder.key.write_bytes(damage)
    with pytest.raises(WrongKey, match=r"secret\.key"):
        await Vault.unlock(db, folder)


async def test_a_key_may_be_handed_in_and_no_file_is_made(db: Database, folder: DataFolder):
    given = base64.b64encode(os.urandom(32)).decode()
    await seal(db, await Vault.unlock(db, folder, given), "one")
    assert await opened(db, await Vault.unlock(db, folder, given), "one") == CANARY
    assert not folder.key.exists()
    with pytest.raises(WrongKey, match="NIGHTDESK_SECRET_KEY"):
        await Vault.unlock(db, folder, base64.b64encode(os.urandom(32)).decode())


@pytest.mark.parametrize(
    "weak", ["", "secret", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", "x" * 44, "ä"]
)
async def test_a_weak_key_is_refused(db: Database, folder: DataFolder, weak: str):
    with pytest.raises(WrongKey, match="openssl rand"):
        await Vault.unlock(db, folder, weak)


async def test_two_fresh_folders_have_two_keys(db: Database, folder: DataFolder, vault: Vault):
    other = DataFolder(folder.path.parent / "other")
    assert vaults._from_file(other.key, {}) != vault._master


# --- rotation ---------------------------------------------------------------------------------------------


async def test_rotation_seals_everything_under_new_keys(db: Database, folder: DataFolder, vault: Vault):
    for owner in ("one", "two"):
        await seal(db, vault, owner)
    before = folder.key.read_bytes()
    assert await vault.rotate() == 2
    assert folder.key.read_bytes() != before
    async with db.read() as s:
        assert [key.version for key in await secrets.data_keys(s)] == [2]
    for fresh in (vault, await Vault.unlock(db, folder)):
        assert await opened(db, fresh, "one") == CANARY
    await vault.rotate()
    assert await opened(db, vault, "two") == CANARY


async def test_a_rotation_cut_off_before_it_was_stored_leaves_all_as_it_was(
    db: Database, folder: DataFolder, vault: Vault
):
    await seal(db, vault, "one")
    await seal(db, vault, "two")
    await db.write(lambda s: s.execute(update(Secret).where(Secret.owner == "two").values(sealed=b"broken")))
    with pytest.raises(SecretUnreadable):
        await vault.rotate()
    assert vaults._next(folder.key).exists()
    fresh = await Vault.unlock(db, folder)
    assert await opened(db, fresh, "one") == CANARY
    assert not vaults._next(folder.key).exists()


async def test_a_rotation_cut_off_after_it_was_stored_is_finished_at_the_next_start(
    db: Database, folder: DataFolder, vault: Vault
):
    await seal(db, vault, "one")
    before = folder.key.read_bytes()
    await vault.rotate()
    vaults._next(folder.key).write_bytes(folder.key.read_bytes())
    folder.key.write_bytes(before)
    assert await opened(db, await Vault.unlock(db, folder), "one") == CANARY
    assert not vaults._next(folder.key).exists()


async def test_rotation_leaves_a_handed_in_key_alone(db: Database, folder: DataFolder):
    given = base64.b64encode(os.urandom(32)).decode()
    vault = await Vault.unlock(db, folder, given)
    await seal(db, vault, "one")
    await vault.rotate()
    assert await opened(db, await Vault.unlock(db, folder, given), "one") == CANARY


async def test_what_is_derived_stays_the_same_and_differs_by_purpose(
    db: Database, folder: DataFolder, vault: Vault
):
    assert vault.derive("a") == (await Vault.unlock(db, folder)).derive("a")
    assert vault.derive("a") != vault.derive("b")
