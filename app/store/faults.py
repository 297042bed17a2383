"""What SQLite and the disk say when they fail, in the house's words."""

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy.exc import DBAPIError, TimeoutError as PoolTimeout

from app.core.errors import DiskFull, StorageBusy, StorageFault

_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
# With less than this left, a failed write is the full disk's doing, whatever SQLite calls it.
_NEXT_TO_NOTHING = 256 * 1024


def disk_full(folder: Path, detail: str) -> DiskFull:
    return DiskFull(
        "The server's disk is full, so nothing was saved. Make some space there and try again.",
        f"no space left for {folder}: {detail}",
    )


def storage_busy(detail: str) -> StorageBusy:
    return StorageBusy(
        "The database is busy with another program. Nothing was saved; try again in a few seconds.", detail
    )


def storage_fault(folder: Path, detail: str) -> StorageFault:
    return StorageFault(
        "The server could not read or write its data. Nothing was saved; "
        "if it goes on, ask whoever runs the server to look at its log.",
        f"storage failed in {folder}: {detail}",
    )


def fault_of(error: BaseException, folder: Path) -> StorageFault | None:
    """The fault that an error of the database stands for; None for one that storage is not to blame for."""
    if isinstance(error, PoolTimeout):
        return storage_busy("every reading connection is taken")
    if isinstance(error, DBAPIError):
        return fault_of(error.orig, folder) if error.orig is not None else None
    code = getattr(error, "sqlite_errorcode", None)
    return _of_code(code, str(error), folder) if isinstance(code, int) else None


def disk_fault(error: OSError, folder: Path) -> StorageFault:
    """The fault that a failed file operation stands for."""
    return disk_full(folder, str(error)) if error.errno in _NO_SPACE else storage_fault(folder, str(error))


def _of_code(code: int, text: str, folder: Path) -> StorageFault | None:
    detail = f"{text} (SQLite {code})"
    match code & 0xFF:
        case 5 | 6 | 15:  # SQLITE_BUSY, SQLITE_LOCKED, SQLITE_PROTOCOL
            return storage_busy(detail)
        case 13:  # SQLITE_FULL
            return disk_full(folder, detail)
        case 10 | 14:  # SQLITE_IOERR, SQLITE_CANTOPEN: also what a full disk gives for the shared-memory file
            full = _has_no_space(folder)
            return disk_full(folder, detail) if full else storage_fault(folder, detail)
        case 7 | 8 | 11 | 26:  # SQLITE_NOMEM, SQLITE_READONLY, SQLITE_CORRUPT, SQLITE_NOTADB
            return storage_fault(folder, detail)
    return None


def _has_no_space(folder: Path) -> bool:
    try:
        return shutil.disk_usage(folder).free < _NEXT_TO_NOTHING
    except OSError:
        return False


@contextmanager
def as_faults(folder: Path) -> Iterator[None]:
    """Errors of SQLite and of the disk come out of the block as StorageFault; all others as they are."""
    try:
        yield
    except Exception as error:
        fault = disk_fault(error, folder) if isinstance(error, OSError) else fault_of(error, folder)
        if fault is None:
            raise
        raise fault from error
