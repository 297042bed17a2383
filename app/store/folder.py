"""The data folder: where everything lies that outlives the process, and who may use it."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.core.errors import Refused

# Folders in which something is being made begin so.
SCRATCH = ".making-"


class FolderInUse(Refused):
    """Another process holds the folder's lock."""

    name = "folder-in-use"

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"Another Nightdesk is using the data folder {path}. "
            "Stop it first, or give this one a folder of its own."
        )


class FolderUnusable(Refused):
    """The folder can't be made, or isn't ours to write in."""

    name = "folder-unusable"

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            f"The data folder {path} can't be used: {reason}. Check its path, its owner and its permissions."
        )


class DataFolder:
    """The folder at `path`; made with mode 0700 if missing, and narrowed to it if it is wider.

    From here on the process creates files that only its user can read (umask 077). Raises FolderUnusable.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._lock: int | None = None
        os.umask(0o077)
        try:
            for folder in (self.path, self.files, self.live, self.backups):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self.path.stat().st_mode & 0o077:
                self.path.chmod(0o700)
        except OSError as error:
            raise FolderUnusable(self.path, error.strerror or str(error)) from error

    @property
    def database(self) -> Path:
        return self.path / "nightdesk.db"

    @property
    def files(self) -> Path:
        """Uploaded bytes, named by their SHA-256."""
        return self.path / "files"

    @property
    def live(self) -> Path:
        """The logs of the replies being written."""
        return self.path / "live"

    @property
    def backups(self) -> Path:
        """Copies made before a migration or a restore."""
        return self.path / "backups"

    @property
    def control(self) -> Path:
        """The Unix socket on which the running server answers other commands."""
        return self.path / "control"

    @property
    def key(self) -> Path:
        """The master key, which is in no backup."""
        return self.path / "secret.key"

    @property
    def locked(self) -> bool:
        """Whether this object holds the lock."""
        return self._lock is not None

    def lock(self) -> None:
        """Claim the folder for this process until `unlock` or its end. Raises FolderInUse."""
        if self._lock is not None:
            return
        try:
            lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise FolderUnusable(self.path, error.strerror or str(error)) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(lock)
            raise FolderInUse(self.path) from error
        self._lock = lock
        for leftover in self.path.glob(f"{SCRATCH}*"):  # of a process that was killed
            shutil.rmtree(leftover, ignore_errors=True)

    def unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Hold the lock for a while, if this object doesn't hold it already."""
        if self.locked:
            yield
            return
        self.lock()
        try:
            yield
        finally:
            self.unlock()
