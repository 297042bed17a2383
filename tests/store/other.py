"""Another process at the same database or folder."""

import asyncio
import subprocess
import sys
from pathlib import Path
from types import TracebackType

_LOCK = """
import sqlite3, sys, time
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
if sys.argv[2] == "-":
    sys.stdin.read()
else:
    time.sleep(float(sys.argv[2]))
connection.execute("ROLLBACK")
"""


class Holding:
    """A process that holds the write lock of `database`, for so many seconds or until the block ends."""

    def __init__(self, database: Path, seconds: float | None = None) -> None:
        self.arguments = [
            sys.executable,
            "-c",
            _LOCK,
            str(database),
            "-" if seconds is None else str(seconds),
        ]

    async def __aenter__(self) -> "Holding":
        self.process = await asyncio.create_subprocess_exec(
            *self.arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self.process.stdout is not None
        assert await self.process.stdout.readline() == b"held\n"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.process.communicate(b"")
