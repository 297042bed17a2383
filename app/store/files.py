"""Uploaded files: a row for each, and the bytes under their SHA-256, written once and never changed."""

import asyncio
import hashlib
import os
import secrets
from collections.abc import AsyncIterable
from io import BufferedReader, BufferedWriter
from pathlib import Path

from sqlalchemy import delete, select

from app.core.clock import now_ms
from app.core.errors import NotFound, TooLong
from app.core.ids import FileId, UserId, new_id
from app.store import rows
from app.store.copy import sync
from app.store.engine import Session
from app.store.faults import as_faults
from app.store.tables import File, Part

_INCOMING = "incoming-"


async def add_file(
    s: Session, *, owner: UserId, sha256: str, name: str, type: str, size: int, id: FileId | None = None
) -> File:
    """`type` is ours, decided from the content; `size` in bytes. The bytes are stored before the row."""
    file = File(
        id=id or new_id(), owner=owner, sha256=sha256, name=name, type=type, size=size, created=now_ms()
    )
    await rows.add(s, file)
    return file


async def owned(s: Session, file_id: FileId, user: UserId) -> File:
    """The file, if it is theirs. Raises NotFound."""
    file = await s.scalar(select(File).where(File.id == file_id, File.owner == user))
    if file is None:
        raise NotFound("There is no such file, or it was deleted.")
    return file


async def load(s: Session, ids: list[FileId]) -> dict[FileId, File]:
    """These files by their id; those that are gone are left out."""
    found = await s.scalars(select(File).where(File.id.in_(rows.EACH)), {"ids": rows.each(ids)})
    return {FileId(file.id): file for file in found.all()}


async def orphans(s: Session, before_ms: int) -> list[File]:
    """Files uploaded before that moment that no message holds."""
    held = select(Part.message).where(Part.file == File.id).exists()
    return list((await s.scalars(select(File).where(File.created < before_ms, ~held))).all())


async def drop(s: Session, file: File) -> bool:
    """Remove the row; whether its bytes have become nobody's, and may be removed after the commit."""
    await s.execute(delete(File).where(File.id == file.id).execution_options(synchronize_session=False))
    s.expunge(file)
    return await s.scalar(select(File.id).where(File.sha256 == file.sha256).limit(1)) is None


async def clear_away(s: Session, store: "FileStore", before_ms: int) -> int:
    """Drop files uploaded before that moment that no message holds, and bytes that are nobody's; how many.

    Runs in a write transaction: no upload can commit its row meanwhile. One that has stored its bytes and not yet
    its row is safe, since its bytes are young.
    """
    for file in await orphans(s, before_ms):
        await drop(s, file)
    known = set((await s.scalars(select(File.sha256))).all())
    return store.remove_others(known, before_ms)


class FileStore:
    """The bytes, in one folder. Nothing here knows whose they are."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    async def put(self, chunks: AsyncIterable[bytes], limit: int | None = None) -> tuple[str, int]:
        """Store what `chunks` give; returns its SHA-256 in hex and its size in bytes once it is on the disk.

        Raises TooLong past `limit` bytes, DiskFull, StorageFault; nothing is left behind then.
        """
        incoming = self.folder / f"{_INCOMING}{secrets.token_hex(16)}"
        digest, size = hashlib.sha256(), 0
        try:
            with as_faults(self.folder):
                handle = await asyncio.to_thread(_create, incoming)
            with handle:
                async for chunk in chunks:
                    size += len(chunk)
                    if limit is not None and size > limit:
                        raise TooLong(
                            f"This file is larger than {limit // 1_000_000} MB, the most that is taken here."
                        )
                    digest.update(chunk)
                    with as_faults(self.folder):
                        await asyncio.to_thread(handle.write, chunk)
                with as_faults(self.folder):
                    await asyncio.to_thread(self._finish, handle, incoming, digest.hexdigest())
        finally:
            incoming.unlink(missing_ok=True)
        return digest.hexdigest(), size

    def open(self, sha256: str) -> BufferedReader:
        """The bytes, to be read. Raises NotFound, StorageFault. Blocks."""
        path = self.path(sha256)
        with as_faults(self.folder):
            try:
                return os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb")
            except FileNotFoundError as error:
                raise NotFound("The bytes of this file are gone.") from error

    def verify(self, sha256: str) -> bool:
        """Whether the bytes are there and unchanged. Blocks."""
        try:
            with self.open(sha256) as file:
                return hashlib.file_digest(file, "sha256").hexdigest() == sha256
        except NotFound:
            return False

    def remove(self, sha256: str) -> None:
        """Blocks."""
        self.path(sha256).unlink(missing_ok=True)

    def remove_others(self, known: set[str], before_ms: int) -> int:
        """Remove bytes older than that moment that are not among `known`; how many. Raises StorageFault.

        Blocks, shortly.
        """
        removed = 0
        with as_faults(self.folder):
            for path in self.folder.iterdir():
                if (
                    len(path.name) == 64
                    and path.name not in known
                    and path.stat().st_mtime * 1000 < before_ms
                ):
                    path.unlink(missing_ok=True)
                    removed += 1
        return removed

    def tidy(self) -> None:
        """Remove what uploads left behind when the process was killed; before the first upload. Blocks."""
        for leftover in self.folder.glob(f"{_INCOMING}*"):
            leftover.unlink(missing_ok=True)

    def path(self, sha256: str) -> Path:
        """Where the bytes lie. Raises NotFound for what is no SHA-256 in hex: it may come from outside."""
        if len(sha256) != 64 or not set(sha256) <= set("0123456789abcdef"):
            raise NotFound("There is no such file.")
        return self.folder / sha256

    def _finish(self, handle: BufferedWriter, incoming: Path, sha256: str) -> None:
        handle.flush()
        os.fsync(handle.fileno())
        os.replace(incoming, self.path(sha256))
        sync(self.folder)


def _create(path: Path) -> BufferedWriter:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags, 0o600), "wb")
