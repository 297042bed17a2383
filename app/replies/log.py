"""The events of running replies on disk: one append-only file per run in DATA/live.

A file is `<reply>-<run>.log`: JSON lines, each `[first, seq, round, ts, type, data, lengths]` (one
`EventRecord`). Neighbouring deltas stand in one line, numbered `first` to `seq`, whose `lengths` say where
they were cut. The first thing that a round shows is written before followers see it; one flusher writes the
rest of all replies every quarter of a second and syncs what it wrote within a second. A last line that was
torn off is no line.
"""

import asyncio
import json
import logging
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from app.core.events import Entry, ReasoningDelta, TextDelta, ToolCalled, data_of, event_from
from app.core.ids import ReplyId, RunId
from app.replies.settings import ReplySettings
from app.store.events import EventRecord
from app.tasks import Tasks

logger = logging.getLogger(__name__)

# A line or row holds at most about so many characters of joined deltas, well below the 32 KB of `event_blob`.
JOINED = 8_000
DELTAS = (TextDelta, ReasoningDelta)
SHOWN = (TextDelta, ReasoningDelta, ToolCalled)


def joined(entries: Iterable[Entry]) -> Iterator[EventRecord]:
    """`entries` as records, neighbouring deltas of one kind and round together; `ts` is the first one's."""
    run: list[Entry] = []
    size = 0
    for entry in entries:
        if run and (size > JOINED or not _continues(run[-1], entry)):
            yield _record(run)
            run, size = [], 0
        run.append(entry)
        if isinstance(entry.event, DELTAS):
            size += len(entry.event.text)
    if run:
        yield _record(run)


def spread(records: Iterable[EventRecord]) -> Iterator[Entry]:
    """The entries that `joined` made `records` of; a joined delta has the time of its record."""
    for record in records:
        if record.lengths is None:
            yield Entry(record.seq, record.ts, record.round, event_from(record.type, record.data))
            continue
        text, at = record.data["text"], 0
        for number, length in enumerate(record.lengths, record.first):
            yield Entry(
                number, record.ts, record.round, event_from(record.type, {"text": text[at : at + length]})
            )
            at += length


def _continues(last: Entry, entry: Entry) -> bool:
    return (
        isinstance(entry.event, DELTAS)
        and type(entry.event) is type(last.event)
        and entry.round == last.round
    )


def _record(run: list[Entry]) -> EventRecord:
    first, last = run[0], run[-1]
    if first is last:
        return EventRecord(
            first.seq, first.seq, first.round, first.ts, first.event.type, data_of(first.event), None
        )
    texts = [entry.event.text for entry in run if isinstance(entry.event, DELTAS)]
    data = {"text": "".join(texts)}
    return EventRecord(
        first.seq, last.seq, first.round, first.ts, first.event.type, data, [len(t) for t in texts]
    )


class ReplyLog:
    """The file of one run. After a fault of the disk, which `fault` keeps, the same is tried again."""

    def __init__(self, path: Path, keeper: "Logs", warn: Callable[[OSError], None]) -> None:
        self.path = path
        self.fault: OSError | None = None
        self._keeper = keeper
        self._warn = warn
        self._file: int | None = None
        self._entries: list[Entry] = []
        self._unwritten = b""
        self._shown = 0
        self._closed = False

    def add(self, entry: Entry) -> None:
        """Keep `entry`: at once where it is the first thing that its round shows, else with the next flush.

        What comes before anything of its round was shown waits for that: a restart begins such a round anew.
        """
        self._entries.append(entry)
        if entry.round <= self._shown:
            self._keeper.dirty(self)
        elif isinstance(entry.event, SHOWN):
            self._shown = entry.round
            self.write()

    def write(self) -> None:
        """Write what has gathered. Never raises: what is left is tried again by the flusher."""
        if self._closed:
            return
        entries, self._entries = self._entries, []
        self._unwritten += b"".join(_line(record) for record in joined(entries))
        try:
            self._drain()
        except OSError as error:
            self._failed(error)
        else:
            self.fault = None
            self._keeper.written(self)

    def _drain(self) -> None:
        if self._file is None:
            self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        # A full disk may take a part; what is left goes on exactly there, and no line is torn in its middle.
        while self._unwritten:
            self._unwritten = self._unwritten[os.write(self._file, self._unwritten) :]

    def _failed(self, error: OSError) -> None:
        first, self.fault = self.fault is None, error
        self._keeper.dirty(self)
        if first:
            logger.warning("cannot write %s: %s", self.path.name, error)
            # Not from inside the gate, which is where a first delta is written.
            asyncio.get_running_loop().call_soon(self._warn, error)

    def close(self, *, keep: bool) -> None:
        """Write the rest and close. Without `keep` the file goes: its events are in the database."""
        if keep:
            self.write()
        self._closed = True
        self._keeper.forget(self)
        if self._file is not None:
            os.close(self._file)
            self._file = None
        if not keep:
            with suppress(OSError):
                self.path.unlink(missing_ok=True)


def _line(record: EventRecord) -> bytes:
    fields = [record.first, record.seq, record.round, record.ts, record.type, record.data, record.lengths]
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"


class Logs:
    """All files in DATA/live, and the one task that writes and syncs them."""

    def __init__(self, folder: Path, tasks: Tasks, settings: ReplySettings) -> None:
        self.folder = folder
        self._tasks = tasks
        self._settings = settings
        self._dirty: dict[ReplyLog, None] = {}
        self._unsynced: dict[ReplyLog, None] = {}
        self._flusher: asyncio.Task[None] | None = None

    def open(self, reply: ReplyId, run: RunId, warn: Callable[[OSError], None]) -> ReplyLog:
        """The file of a run, made with its first line. `warn` is told once when it cannot be written."""
        return ReplyLog(self.folder / f"{reply}-{run}.log", self, warn)

    def dirty(self, log: ReplyLog) -> None:
        """`log` has something to write."""
        if log not in self._dirty:
            self._dirty[log] = None
            self._wake()

    def written(self, log: ReplyLog) -> None:
        """`log` has something to sync."""
        self._dirty.pop(log, None)
        self._unsynced[log] = None
        self._wake()

    def forget(self, log: ReplyLog) -> None:
        self._dirty.pop(log, None)
        self._unsynced.pop(log, None)

    def _wake(self) -> None:
        if self._flusher is None or self._flusher.done():
            self._flusher = self._tasks.start("write logs", self._flush())

    async def _flush(self) -> None:
        """Goes on while there is anything to write or sync, then ends until the next entry."""
        loop = asyncio.get_running_loop()
        synced = loop.time()
        while self._dirty or self._unsynced:
            await asyncio.sleep(self._settings.flush_every)
            for log in list(self._dirty):
                log.write()
            if (
                loop.time() - synced >= self._settings.sync_every - self._settings.flush_every
                or not self._dirty
            ):
                synced = loop.time()
                await self._sync()

    async def _sync(self) -> None:
        paths = [log.path for log in self._unsynced]
        self._unsynced.clear()
        await asyncio.to_thread(sync_files, paths)

    async def close(self) -> None:
        """Write and sync everything."""
        for log in list(self._dirty):
            log.write()
        await self._sync()

    def read(self, reply: ReplyId, run: RunId) -> list[Entry]:
        """The entries of a reply as far as a file has them; none where there is no file.

        The file of `run`, or of the last run that wrote one: a start may have claimed the reply and come no
        further.
        """
        exact = self.folder / f"{reply}-{run}.log"
        paths = (
            [exact] if exact.exists() else sorted(self.of(reply), key=lambda path: path.stat().st_mtime_ns)
        )
        return list(_entries(paths[-1].read_bytes())) if paths else []

    def of(self, reply: ReplyId) -> list[Path]:
        """The files of a reply, of whatever run."""
        return list(self.folder.glob(f"{reply}-*.log"))

    def names(self) -> list[Path]:
        """The files that are there."""
        return sorted(self.folder.glob("*.log"))


def _entries(content: bytes) -> Iterator[Entry]:
    """The entries of a file, up to the first that cannot be read."""
    for record in _records(content):
        try:
            yield from list(spread([record]))
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            logger.warning("a log ends at its event %s, which cannot be read: %r", record.first, error)
            return


def _records(content: bytes) -> Iterator[EventRecord]:
    """The whole records of a file, up to the first that is torn, unreadable or out of order."""
    expected = 1
    for line in content.split(b"\n")[:-1]:
        try:
            record = EventRecord(*json.loads(line))
        except (ValueError, TypeError):
            return
        if record.first != expected:
            return
        expected = record.seq + 1
        yield record


def sync_files(paths: Iterable[Path]) -> None:
    """Sync files and their folders to disk, by name: one that was removed meanwhile does no harm."""
    paths = list(paths)
    for path in [*paths, *{path.parent for path in paths}]:
        try:
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        try:
            os.fsync(file)
        except OSError as error:
            logger.warning("cannot sync %s: %s", path.name, error)
        finally:
            os.close(file)
