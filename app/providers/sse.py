"""Server-sent events from raw bytes: lines, fields, events.

Follows https://html.spec.whatwg.org/multipage/server-sent-events.html, with what real endpoints need on top:
an event left open at the end of the stream counts, a field named `error` is an event (llama.cpp), and lines
that are no event stream at all are given out, so that a JSON or HTML body can be told from an empty one.

Lines are split here, because `str.splitlines` also breaks at U+2028 and U+0085, which may stand unescaped in
JSON, and most HTTP clients split with it.
"""

from typing import NamedTuple

# Generated images come as one line of some MB in base64 (tests/fixtures/wire: a line of 200 kB).
LIMIT = 16 * 1024 * 1024

_BOM = b"\xef\xbb\xbf"
# A stream may be cut in the middle of these; elsewhere such a line would be no event stream.
_FIELDS = ("data:", "event:", "id:", "retry:", "error:")


class Event(NamedTuple):
    """One event: its `event` field, "" without one, and its data lines joined by newlines.

    With `name` None it is a line that belongs to no event stream, as it came.
    """

    name: str | None
    data: str


class EventTooLong(Exception):
    """A line or an event is longer than the limit."""


class EventReader:
    """Bytes in, whole events out, whatever the cuts between the pieces."""

    def __init__(self, limit: int = LIMIT) -> None:
        self.limit = limit
        self._pieces: list[bytes] = []  # of a line that has not ended; joined once, so a long line costs O(n)
        self._held = 0  # bytes in _pieces
        self._size = 0  # characters in _data
        self._name = ""
        self._data: list[str] = []
        self._after_cr = False
        self._begun = False

    def feed(self, data: bytes) -> list[Event]:
        """The events that `data` completes. Raises EventTooLong."""
        if b"\r" in data or self._after_cr:
            data = self._lf_only(data)
        end = data.rfind(b"\n") + 1
        if not end:
            self._hold(data)
            return []
        lines = data[:end]
        if self._pieces:
            lines = b"".join([*self._pieces, lines])
            self._pieces.clear()
            self._held = 0
        if end < len(data):
            self._hold(data[end:])
        if not self._begun:
            self._begun = True
            lines = lines.removeprefix(_BOM)
        # A line end is never part of a longer UTF-8 sequence: whole lines can be decoded by themselves.
        return self._read(lines.decode("utf-8", "replace"))

    def close(self) -> list[Event]:
        """The events that were left open when the stream ended."""
        rest = b"".join(self._pieces)
        self._pieces.clear()
        if not self._begun:
            rest = rest.removeprefix(_BOM)
        events: list[Event] = []
        line = rest.decode("utf-8", "replace")
        if line and not any(field.startswith(line) for field in _FIELDS):
            self._line(line, events)
        self._dispatch(events)
        return events

    def _lf_only(self, data: bytes) -> bytes:
        """`data` with CRLF and CR as LF. A CR at the end counts at once; an LF that follows is dropped."""
        if self._after_cr and data[:1] == b"\n":
            data = data[1:]
        elif not data:
            return data
        self._after_cr = data[-1:] == b"\r"
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _hold(self, piece: bytes) -> None:
        self._held += len(piece)
        if self._held > self.limit:
            raise EventTooLong
        self._pieces.append(piece)

    def _read(self, text: str) -> list[Event]:
        """The events in `text`, which ends in a line end.

        Nearly always it is `data: {...}` and a blank line, once or more; those take the short way.
        """
        events: list[Event] = []
        blocks = text.split("\n\n")
        last = blocks.pop()
        for block in blocks:
            if block.startswith("data: ") and "\n" not in block and not self._data and not self._name:
                events.append(Event("", block[6:]))
                continue
            for line in block.split("\n"):
                self._line(line, events)
            self._dispatch(events)
        if last:
            for line in last[:-1].split("\n"):
                self._line(line, events)
        return events

    def _line(self, line: str, events: list[Event]) -> None:
        if not line:
            self._dispatch(events)
            return
        field, colon, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            self._add(value, events)
        elif field == "event":
            self._name = value
        elif field == "error" and colon:
            self._dispatch(events)
            events.append(Event("error", value))
        elif field not in ("", "id", "retry"):
            events.append(Event(None, line))

    def _add(self, value: str, events: list[Event]) -> None:
        if self._data and _stands_alone(self._data[-1], value):
            self._dispatch(events)
        self._size += len(value)
        if self._size > self.limit:
            raise EventTooLong
        self._data.append(value)

    def _dispatch(self, events: list[Event]) -> None:
        if self._data:
            events.append(Event(self._name, "\n".join(self._data)))
            self._data.clear()
            self._size = 0
        self._name = ""


def _stands_alone(before: str, value: str) -> bool:
    """Whether two data lines without a blank line between are two events, as some servers send them.

    In no JSON text does a line that ends in `}` come before one that begins with `{`.
    """
    return before.endswith(("}", "[DONE]")) and value.startswith(("{", "[DONE]"))
