"""Secrets at rest: an envelope of two keys.

The master key lies outside the database, in the file `secret.key` of the data folder (mode 0600, in no
backup) or handed in by the settings. It wraps data keys, which the database holds; a data key seals the
secrets. Cipher is AES-256-GCM. What is bound to a sealed value, and must be the same to open it, is its place
(owner and field), the origin it may be sent to, and the version of its key: a value copied to another row, or
asked for on behalf of another address, does not open.

    wrapped or sealed   version byte (1) | nonce (12 bytes) | cipher text and tag
"""

import base64
import binascii
import hashlib
import hmac
import json
import logging
import os
from contextlib import suppress
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from app.accounts import audit
from app.accounts.access import Person
from app.core.errors import Refused, StorageFault
from app.store import secrets
from app.store.engine import Database, Session
from app.store.folder import DataFolder

logger = logging.getLogger(__name__)

_VERSION = b"\x01"
_NONCE = 12
_KEY = 32


class WrongKey(Refused):
    """The master key does not open what is stored. The text names the fix."""

    name = "wrong-key"


class SecretUnreadable(StorageFault):
    """One stored secret does not open: it was changed, or moved from another place."""


class Vault:
    """Seals and opens. Made by `unlock`."""

    def __init__(self, db: Database, folder: DataFolder, master: bytes, from_file: bool) -> None:
        self._db = db
        self._folder = folder
        self._master = master
        self._from_file = from_file
        self._keys: dict[int, bytes] = {}

    @classmethod
    async def unlock(cls, db: Database, folder: DataFolder, given: str | None = None) -> "Vault":
        """The vault of `folder`; `given` is the setting `secret_key`, else the key file is read or made.

        Raises WrongKey.
        """
        async with db.read() as s:
            wrapped = {row.version: row.wrapped for row in await secrets.data_keys(s)}
        master = _given(given) if given is not None else _from_file(folder.key, wrapped)
        vault = cls(db, folder, master, from_file=given is None)
        if wrapped:
            vault._keys = {version: vault._unwrap(version, data) for version, data in wrapped.items()}
        else:
            await db.write(vault._begin)
        return vault

    async def _begin(self, s: Session) -> None:
        key = os.urandom(_KEY)
        await secrets.add_data_key(s, 1, _wrap(self._master, 1, key))
        self._keys = {1: key}

    def _unwrap(self, version: int, data: bytes) -> bytes:
        try:
            return _open(self._master, data, _key_context(version))
        except InvalidTag as error:
            raise WrongKey(_how_to_mend(self._folder.key, self._from_file)) from error

    def derive(self, purpose: str) -> str:
        """A token that stays the same as long as the master key does, and tells nothing of it."""
        found = hmac.new(self._master, b"nightdesk derived|" + purpose.encode(), hashlib.sha256).digest()
        return base64.urlsafe_b64encode(found).rstrip(b"=").decode()

    async def seal(self, s: Session, owner: str, field: str, origin: str, plaintext: str) -> None:
        """Keep a secret of the row `owner`, to be sent to `origin` alone ("" where it is sent nowhere)."""
        version = max(self._keys)
        context = _context(owner, field, origin, version)
        sealed = _seal(self._keys[version], plaintext.encode(), context)
        await secrets.put(s, owner, field, origin=origin, key_version=version, sealed=sealed)

    async def open(self, s: Session, owner: str, field: str, origin: str) -> str | None:
        """The secret; None if there is none, or none for this origin. Raises SecretUnreadable."""
        row = await secrets.get(s, owner, field)
        if row is None or row.origin != origin:
            return None
        return self._opened(owner, field, origin, row.key_version, row.sealed)

    def _opened(self, owner: str, field: str, origin: str, version: int, sealed: bytes) -> str:
        try:
            return _open(self._keys[version], sealed, _context(owner, field, origin, version)).decode()
        except (InvalidTag, KeyError) as error:
            raise SecretUnreadable(
                "A stored key can’t be read: it was changed outside Nightdesk. Enter it again.",
                f"the secret '{field}' of {owner} does not open",
            ) from error

    async def rotate(self, by: Person | None = None) -> int:
        """Seal everything under a new data key, and that under a new master key if it is ours to change.

        One transaction: an end in the middle leaves all as it was. Returns how many secrets there are.
        """
        master = self._master
        if self._from_file:
            # The next key is on disk before anything is sealed under it; whichever of the two files opens the
            # database at the next start is the right one.
            master = os.urandom(_KEY)
            _write_key(_next(self._folder.key), master)
        version, key = max(self._keys) + 1, os.urandom(_KEY)

        async def reseal(s: Session) -> int:
            rows = await secrets.all(s)
            for row in rows:
                plain = self._opened(row.owner, row.field, row.origin, row.key_version, row.sealed)
                sealed = _seal(key, plain.encode(), _context(row.owner, row.field, row.origin, version))
                await secrets.put(
                    s, row.owner, row.field, origin=row.origin, key_version=version, sealed=sealed
                )
            await secrets.add_data_key(s, version, _wrap(master, version, key))
            await secrets.drop_data_keys(s, below=version)
            await audit.note(s, "secrets sealed anew", by, detail={"secrets": len(rows)})
            return len(rows)

        count = await self._db.write(reseal)
        self._master, self._keys = master, {version: key}
        if self._from_file:
            _take_next(self._folder.key)
        return count


def _seal(key: bytes, plain: bytes, context: bytes) -> bytes:
    nonce = os.urandom(_NONCE)
    return _VERSION + nonce + AESGCM(key).encrypt(nonce, plain, context)


def _open(key: bytes, data: bytes, context: bytes) -> bytes:
    """Raises InvalidTag, also for what is too short or of another version."""
    if data[:1] != _VERSION or len(data) < 1 + _NONCE + 16:
        raise InvalidTag
    return AESGCM(key).decrypt(data[1 : 1 + _NONCE], data[1 + _NONCE :], context)


def _wrap(master: bytes, version: int, key: bytes) -> bytes:
    return _seal(master, key, _key_context(version))


def _context(owner: str, field: str, origin: str, version: int) -> bytes:
    # As JSON, so that no two places can be written alike.
    return json.dumps(["secret", owner, field, origin, version]).encode()


def _key_context(version: int) -> bytes:
    return json.dumps(["data key", version]).encode()


# The master key


def _given(text: str) -> bytes:
    try:
        key = base64.b64decode(text.strip().replace("-", "+").replace("_", "/"), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != _KEY or len(set(key)) < 8:
        raise WrongKey(
            "NIGHTDESK_SECRET_KEY is no key: it takes base64 of 32 random bytes. "
            "`openssl rand -base64 32` makes one."
        )
    return key


def _from_file(path: Path, wrapped: dict[int, bytes]) -> bytes:
    """The key in `path`, made where nothing is sealed yet. Raises WrongKey."""
    found = _read_key(path)
    following = _read_key(_next(path))
    if following is not None:  # a rotation was cut off: before its transaction, or after it
        if wrapped and (found is None or not _fits(found, wrapped)) and _fits(following, wrapped):
            _take_next(path)
            return following
        _next(path).unlink()
    if found is None:
        if wrapped:
            raise WrongKey(_how_to_mend(path, from_file=True))
        found = os.urandom(_KEY)
        _write_key(path, found)
    return found


def _fits(master: bytes, wrapped: dict[int, bytes]) -> bool:
    with suppress(InvalidTag):
        for version, data in wrapped.items():
            _open(master, data, _key_context(version))
        return True
    return False


def _read_key(path: Path) -> bytes | None:
    try:
        text = path.read_text("ascii")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise WrongKey(f"The key file {path} can’t be read: {error}.") from error
    if path.stat().st_mode & 0o077:
        logger.warning("%s could be read by others; now only its owner can", path)
        path.chmod(0o600)
    try:
        key = base64.b64decode(text.strip(), validate=True)
    except binascii.Error:
        key = b""
    if len(key) != _KEY:
        raise WrongKey(f"The key file {path} is damaged. Put back a copy of it.")
    return key


def _write_key(path: Path, key: bytes) -> None:
    """Write a new key file that only its owner can read, and have it on disk before going on."""
    with suppress(FileNotFoundError):
        path.unlink()
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(file, "wb") as out:
        out.write(base64.b64encode(key) + b"\n")
        out.flush()
        os.fsync(out.fileno())
    _sync_folder(path)


def _next(path: Path) -> Path:
    return path.with_name(path.name + ".next")


def _take_next(path: Path) -> None:
    _next(path).replace(path)
    _sync_folder(path)


def _sync_folder(path: Path) -> None:
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _how_to_mend(path: Path, from_file: bool) -> str:
    if from_file:
        return (
            f"The secrets stored here were sealed with another key than the one in {path}. "
            "Put back the file from before, or set NIGHTDESK_SECRET_KEY to the key that was used."
        )
    return (
        "The secrets stored here were sealed with another key than NIGHTDESK_SECRET_KEY holds. "
        f"Set it to the key from before, or unset it if the key in {path} was used."
    )
