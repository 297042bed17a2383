"""The API's events of a reply as bytes, made once for all who follow it."""

from collections.abc import Sequence
from itertools import groupby
from json.encoder import encode_basestring
from typing import cast
from weakref import WeakValueDictionary

from app.core.clock import rfc3339
from app.core.events import Entry, ReasoningDelta, TextDelta, data_of
from app.core.ids import RunId
from app.replies.feed import Source
from app.replies.reply_view import view
from app.web.streams import frame

# Followers that keep up all ask for the same few spans.
_KEPT = 16


class Encoded:
    """One run of a reply. In a person's stream each type is written behind a `prefix`."""

    def __init__(self, source: Source, prefix: str) -> None:
        self.source = source
        self._prefix = prefix
        self._spans: dict[tuple[int, int], bytes] = {}
        self._state: tuple[int, bytes] = (-1, b"")

    def since(self, seq: int) -> bytes:
        """The events after number `seq`; neighbouring deltas are joined, as whoever gets several is behind."""
        entries = self.source.feed.entries
        last = len(entries)
        if last <= seq:
            return b""
        found = self._spans.get((seq, last))
        if found is None:
            found = self._encode(entries[seq:])
            if len(self._spans) >= _KEPT:
                self._spans.clear()
            self._spans[seq, last] = found
        return found

    def passing_since(self, count: int) -> bytes:
        """What has passed by after the first `count`; it has no number."""
        passed = self.source.feed.passing_since(count)
        return "".join(self._one(entry, None) for entry in passed).encode()

    def state(self) -> bytes:
        """Everything so far, as one event."""
        seq, found = self._state
        if seq != self.source.state.seq or not found:
            seq = self.source.state.seq
            found = frame(
                f"{self._prefix}state", view(self.source.state), f"{self.source.run}-{seq}"
            ).encode()
            self._state = seq, found
        return found

    def _encode(self, entries: Sequence[Entry]) -> bytes:
        if len(entries) == 1:
            entry = entries[0]
            if type(entry.event) in (TextDelta, ReasoningDelta):
                return self._delta(entries).encode()
            return self._one(entry, entry.seq).encode()
        parts: list[str] = []
        for (kind, _), group in groupby(entries, key=lambda entry: (type(entry.event), entry.round)):
            if kind in (TextDelta, ReasoningDelta):
                parts.append(self._delta(list(group)))
            else:
                parts += [self._one(entry, entry.seq) for entry in group]
        return "".join(parts).encode()

    def _delta(self, entries: Sequence[Entry]) -> str:
        last = entries[-1]
        text = "".join(cast(TextDelta | ReasoningDelta, entry.event).text for entry in entries)
        return (
            f"id: {self.source.run}-{last.seq}\nevent: {self._prefix}{last.event.type}\n"
            f'data: {{"round":{last.round},"data":{{"text":{encode_basestring(text)}}}}}\n\n'
        )

    def _one(self, entry: Entry, seq: int | None) -> str:
        id = None if seq is None else f"{self.source.run}-{seq}"
        data = {"ts": rfc3339(entry.ts), "round": entry.round, "data": data_of(entry.event)}
        return frame(f"{self._prefix}{entry.event.type}", data, id)


_shared: WeakValueDictionary[tuple[RunId, str], Encoded] = WeakValueDictionary()


def encoded(source: Source, prefix: str = "") -> Encoded:
    """The one for `source`, as long as somebody follows it."""
    found = _shared.get((source.run, prefix))
    if found is None or found.source is not source:
        found = _shared[source.run, prefix] = Encoded(source, prefix)
    return found
