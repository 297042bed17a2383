"""Backups: one tar file with the database as of one moment, the uploaded files, and a manifest of both.

    manifest.json       what there is, each with its SHA-256; which schema and program it is of
    nightdesk.db        the database
    files/<sha256>      the bytes of each uploaded file

The master key is in none: whoever finds a backup can't read the secrets in it. It is to be kept elsewhere.
"""

import asyncio
import hashlib
import io
import json
import logging
import os
import re
import shutil
import sqlite3
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from app import __version__
from app.core.clock import now_ms, rfc3339
from app.core.errors import Invalid
from app.store import schema
from app.store.copy import connect, copy_database, sync
from app.store.faults import as_faults, storage_fault
from app.store.files import FileStore
from app.store.folder import SCRATCH, DataFolder
from app.store.tables import IN_LANE

logger = logging.getLogger(__name__)

_FORMAT = 1
_MANIFEST, _DATABASE, _FILES = "manifest.json", "nightdesk.db", "files/"
_PIECE = 1 << 20
_SHA256 = re.compile("[0-9a-f]{64}")


class BackupRefused(Invalid):
    """The archive can't be restored; nothing was touched."""

    name = "backup-refused"


@dataclass(frozen=True, slots=True)
class Member:
    """A file in the archive; `size` in bytes."""

    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """What an archive says of itself. `absent`: hashes of files whose bytes were gone or changed already."""

    made: str
    program: str
    schema: str
    database: Member
    files: tuple[Member, ...]
    absent: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Restored:
    """What was restored, and where what was there before has been put (None: there was nothing)."""

    manifest: Manifest
    before: Path | None


async def backup(folder: DataFolder, target: Path) -> Manifest:
    """Write a verified backup to the new file `target`, mode 0600. The server may go on writing meanwhile.

    Raises Invalid if `target` exists, DiskFull, StorageFault; nothing is left at `target` then.
    """
    return await asyncio.to_thread(_backup, folder, target)


async def restore(folder: DataFolder, archive: Path) -> Restored:
    """Put the backup in place of what the folder holds. Everything is verified before anything is touched.

    Replies that were being written become interrupted. Raises FolderInUse while a server runs on the folder,
    BackupRefused, SchemaTooNew, DiskFull, StorageFault.
    """
    return await asyncio.to_thread(_restore, folder, archive)


def _backup(folder: DataFolder, target: Path) -> Manifest:
    target = target.absolute()
    if target.exists():
        raise Invalid(f"{target} is already there. Choose another name.", field="file")
    with as_faults(target.parent), _scratch(target.parent) as scratch:
        copy = scratch / _DATABASE
        copy_database(folder.database, copy)
        manifest = _describe(folder, copy)
        archive = scratch / "archive.tar"
        _pack(archive, manifest, copy, FileStore(folder.files))
        _unpack(archive, None)
        sync(archive)
        os.link(archive, target)  # unlike a rename, refuses to replace what has appeared there meanwhile
        sync(target.parent)
    return manifest


def _describe(folder: DataFolder, copy: Path) -> Manifest:
    found = schema.find(copy, folder.path)
    if found is None:
        raise storage_fault(folder.path, "there is no database to back up")
    store = FileStore(folder.files)
    with closing(connect(copy, "ro")) as connection:
        _refuse_corrupt(connection)
        known = [
            sha256 for (sha256,) in connection.execute("SELECT DISTINCT sha256 FROM file ORDER BY sha256")
        ]
    absent = tuple(sha256 for sha256 in known if not store.verify(sha256))
    if absent:
        logger.warning("%d uploaded files are gone or changed, and not in the backup", len(absent))
    there = [sha256 for sha256 in known if sha256 not in set(absent)]
    files = tuple(Member(sha256, store.path(sha256).stat().st_size) for sha256 in there)
    database = Member(_hash_of(copy), copy.stat().st_size)
    return Manifest(rfc3339(now_ms()), __version__, found.revision, database, files, absent)


def _pack(archive: Path, manifest: Manifest, copy: Path, store: FileStore) -> None:
    with tarfile.open(archive, "w", format=tarfile.PAX_FORMAT) as tar:
        text = json.dumps({"format": _FORMAT, **asdict(manifest)}, indent=1).encode()
        _add(tar, _MANIFEST, len(text), io.BytesIO(text))
        with copy.open("rb") as file:
            _add(tar, _DATABASE, manifest.database.size, file)
        for member in manifest.files:
            with store.open(member.sha256) as file:
                _add(tar, _FILES + member.sha256, member.size, file)


def _add(tar: tarfile.TarFile, name: str, size: int, file: IO[bytes]) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.mtime = size, 0o600, now_ms() // 1000
    tar.addfile(info, file)


def _unpack(archive: Path, into: Path | None) -> Manifest:
    """Check every byte of the archive, and write its files to the folder `into` if one is given."""
    try:
        with archive.open("rb") as file, tarfile.open(fileobj=file, mode="r:") as tar:
            return _read(tar, into)
    except (tarfile.TarError, EOFError, ValueError, KeyError, TypeError) as error:
        raise BackupRefused(
            f"{archive} is not a whole backup of Nightdesk ({error}). Nothing was changed; try another copy."
        ) from error
    except FileNotFoundError as error:
        raise BackupRefused(f"There is no backup at {archive}.") from error


def _read(tar: tarfile.TarFile, into: Path | None) -> Manifest:
    first = tar.next()
    text = tar.extractfile(first) if first is not None and first.name == _MANIFEST else None
    if text is None:
        raise ValueError("its manifest is missing")
    manifest = _manifest(json.load(text))
    expected = {_DATABASE: manifest.database} | {_FILES + member.sha256: member for member in manifest.files}
    for info in tar:
        if info.name == _MANIFEST and info.offset == 0:
            continue
        member = expected.pop(info.name, None)
        content = tar.extractfile(info) if info.isreg() else None
        if member is None or content is None or info.size != member.size:
            raise ValueError(f"it holds {info.name!r}, which its manifest does not know so")
        if _copy(content, into / info.name if into else None) != member.sha256:
            raise ValueError(f"{info.name} is damaged")
    if expected:
        raise ValueError(f"{len(expected)} of its files are missing, {min(expected)} for one")
    return manifest


def _manifest(said: dict[str, Any]) -> Manifest:
    if said["format"] != _FORMAT:
        raise ValueError(f"it is of the unknown format {said['format']}")
    files = tuple(Member(str(member["sha256"]), int(member["size"])) for member in said["files"])
    database = Member(str(said["database"]["sha256"]), int(said["database"]["size"]))
    if not all(_SHA256.fullmatch(member.sha256) for member in files):
        raise ValueError("its manifest names a file in a way of its own")
    return Manifest(
        str(said["made"]), str(said["program"]), str(said["schema"]), database, files, tuple(said["absent"])
    )


def _copy(content: IO[bytes], target: Path | None) -> str:
    """The SHA-256 of `content`, written to `target` on the way."""
    digest = hashlib.sha256()
    with open(target, "xb") if target else nullcontext() as file:
        while piece := content.read(_PIECE):
            digest.update(piece)
            if file is not None:
                file.write(piece)
        if file is not None:
            file.flush()
            os.fsync(file.fileno())
    return digest.hexdigest()


def _restore(folder: DataFolder, archive: Path) -> Restored:
    with folder.claimed(), as_faults(folder.path), _scratch(folder.path) as scratch:
        (scratch / _FILES).mkdir()
        manifest = _unpack(archive, scratch)
        _make_ready(scratch / _DATABASE, archive)
        return Restored(manifest, _switch(folder, scratch))


def _make_ready(copy: Path, archive: Path) -> None:
    """Check the database of a backup, and let nothing in it start by itself."""
    found = schema.find(copy, archive)
    if found is None:
        raise BackupRefused(f"The database in {archive} is empty. Nothing was changed.")
    schema.refuse_newer(found, schema.STEPS, archive)
    with closing(connect(copy)) as connection:
        _refuse_corrupt(connection)
        connection.execute(
            f"UPDATE reply SET phase = 'interrupted', reason = 'restored', ended = ? WHERE {IN_LANE}",
            (now_ms(),),
        )
    sync(copy)


def _refuse_corrupt(connection: sqlite3.Connection) -> None:
    (said,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    if said != "ok":
        raise BackupRefused(f"The database is damaged ({said}).")


def _switch(folder: DataFolder, scratch: Path) -> Path | None:
    """Put what is in `scratch` in place. Killed anywhere, it leaves the old database or the new one whole."""
    for file in (scratch / _FILES).iterdir():
        os.replace(file, folder.files / file.name)
    sync(folder.files)
    before = _keep(folder)
    os.replace(scratch / _DATABASE, folder.database)
    sync(folder.path)
    for log in folder.live.iterdir():  # of replies that are not of this database, or are interrupted in it
        log.unlink() if before is None else os.replace(log, before / log.name)
    return before


def _keep(folder: DataFolder) -> Path | None:
    """Keep the database that is there, under another name, too; from then on it has no WAL beside it."""
    if not folder.database.exists():
        return None
    before = folder.backups / f"before-restore-{datetime.now(UTC):%Y%m%dT%H%M%S.%f}"
    before.mkdir()
    try:
        with closing(connect(folder.database)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.DatabaseError as error:  # a damaged database is one reason to restore
        logger.warning("the database that is replaced could not be read: %s", error)
    os.link(folder.database, before / folder.database.name)
    for suffix in ("-wal", "-shm"):
        beside = folder.database.with_name(folder.database.name + suffix)
        if beside.exists():
            os.replace(beside, before / beside.name)
    sync(before)
    return before


@contextmanager
def _scratch(parent: Path) -> Iterator[Path]:
    """A folder for half-made things, gone at the end; `DataFolder.lock` removes what a killed one left."""
    path = Path(tempfile.mkdtemp(prefix=SCRATCH, dir=parent))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _hash_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
