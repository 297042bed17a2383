"""Markdown that is still being written, cut into blocks that will not change any more.

A `Splitter` looks at whole lines, one after the other, so what it settles depends on the text alone and not on
the pieces in which it came: a page drawn fresh and one that was followed are the same by construction.

- A cut lies before a top-level block whose preceding line is blank, and around a fenced code block.
- Within the last top-level list, an item is settled when the next has begun.
- What stays uncut for more than `LIMIT` characters or `LINES` lines is shown as plain text, line by line, until a
  blank line ends it; a longer code block loses nothing but colours that span lines.
- A link definition that comes late makes the settled blocks that use its label be drawn again.
- Footnotes are numbered at the end.

Work is proportional to the length of the text: a block is parsed when a line may end it, and drawn once.
"""

import re
import zlib
from collections import ChainMap
from dataclasses import dataclass, field
from typing import Any, Literal

from app.web import code, unfinished
from app.web.blocks import Block, code_line, draw, labels_of, notes_of, outline, plain_line
from app.web.drawing import Notes
from app.web.maths import FENCE, begins_block

LIMIT = 16 * 1024
# So many lines without a cut cost as much: each may be a heading or a row of a table.
LINES = 400
# How often a block is drawn again for late definitions while the text is being written; the rest waits for the end.
_REDRAWN = 3

_ITEM = re.compile(r" {0,3}(?:[-+*]|\d{1,9}[.)])(?:(?P<gap> {1,4})(?=\S)|[ \t]|$)")

# An open block is drawn behind the settled ones. Where it goes on in the last of them (the next item of a list), its
# parts stand in such an element, which is only a frame for them.
JOINS = "<div data-joins>", "</div>"


@dataclass(frozen=True, slots=True)
class Added:
    """New settled blocks. `html` may begin with a `JOINS` frame, whose parts go to the end of the last block.

    `blocks` is how many blocks there are now, `parts` how many parts the last one has if it may still grow, else
    None. `loose`: the list to which the framed parts go is loose.
    """

    html: str
    blocks: int
    parts: int | None
    loose: bool


@dataclass(frozen=True, slots=True)
class Redrawn:
    """The settled block number `block` (from 0) has another HTML."""

    block: int
    html: str


Change = Added | Redrawn


@dataclass(slots=True)
class _Place:
    """Which parts of which block a piece of text was drawn as."""

    block: int
    first: int
    count: int


@dataclass(slots=True)
class _Piece:
    """Text that was settled at once."""

    text: str
    places: list[_Place]
    drawn: int = 1
    stale: bool = False


@dataclass(slots=True)
class _Code:
    """A top-level code block that is still open; `lines` are drawn already."""

    language: str
    indent: int
    closing: re.Pattern[str]
    mark: str
    lines: list[str] = field(default_factory=list)

    @classmethod
    def begun_by(cls, match: re.Match[str]) -> "_Code":
        mark = match["ticks"] or match["tildes"]
        closing = re.compile(rf" {{0,3}}{mark[0]}{{{len(mark)},}}[ \t]*$")
        return cls(code.label_of(match["info"] or match["other"] or ""), match.start(1), closing, mark[0])

    def draw(self, line: str) -> str:
        """`line` without the indent that the opening fence has."""
        indent = min(self.indent, len(line) - len(line.lstrip(" ")))
        return code_line(line[indent:], self.language)

    def draw_partial(self, line: str) -> str:
        # What may become the closing fence is not shown.
        return "" if not line.strip(f" {self.mark}") else self.draw(line)


class Splitter:
    """Feed it text as it comes: `blocks` are settled, `tail()` is what is still open."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        # Whether the last block may still grow: a list by items, long code and plain text by lines.
        self.grows = False
        self._references: dict[str, Any] = {}
        self._state: Literal["blocks", "code", "long code", "plain"] = "blocks"
        # Whole lines since the last cut; what follows says things about them.
        self._chunk: list[str] = []
        self._size = 0
        self._within = 0  # lines indented so far belong to the item with which the chunk begins
        self._formula: str | None = None  # what closes the displayed formula with which it begins
        self._blank = False  # the last line was blank
        self._code: _Code | None = None
        self._partial: list[str] = []
        self._partial_size = 0
        self._return = ""
        self._crc = 0
        self._pieces: list[_Piece] = []
        self._waiting: dict[str, list[_Piece]] = {}
        self._added: list[Added] = []
        self._redrawn: dict[int, None] = {}

    def feed(self, text: str) -> list[Change]:
        """Take in more text; what settled or was drawn again by it."""
        text = self._plain_breaks(text)
        self._crc = zlib.crc32(text.encode("utf-8", "surrogatepass"), self._crc)
        first, *lines = text.split("\n")
        self._partial.append(first)
        self._partial_size += len(first)
        if lines:
            last = lines.pop()
            for line in ["".join(self._partial), *lines]:
                self._take(self._shortened(line), "\n")
            self._partial, self._partial_size = [last], len(last)
        if self._partial_size > LIMIT:
            last = self._shortened("".join(self._partial))
            self._partial, self._partial_size = [last], len(last)
        return self._changes()

    def end(self) -> list[Change]:
        """No more comes: settle what is open, number the footnotes."""
        if partial := "".join(self._partial):
            self._take(partial, "")
        self._partial, self._partial_size, self._return = [], 0, ""
        if self._chunk:
            self._settle(self._chunk)
        self._chunk, self._state, self.grows = [], "blocks", False
        for piece in self._pieces:
            if piece.stale:
                self._redraw(piece)
        self._number_notes()
        self._pieces, self._waiting = [], {}
        return self._changes()

    def tail(self) -> str:
        """What is open, drawn; empty if nothing is. Where it goes on in the last block, it begins with `JOINS`."""
        parts, rest = self._open()
        return rest if parts is None else f"{JOINS[0]}{parts}{JOINS[1]}{rest}"

    def html(self) -> str:
        """Everything, the open block in its place."""
        settled = [block.html for block in self.blocks]
        parts, rest = self._open()
        if parts is not None:
            last = self.blocks[-1]
            settled[-1] = Block(last.kind, last.opening, [*last.parts, parts], last.closing, last.loose).html
        return "".join(settled) + rest

    @property
    def parts(self) -> int | None:
        """How many parts the last block has, if it may still grow."""
        return len(self.blocks[-1].parts) if self.grows else None

    # --- lines

    def _plain_breaks(self, text: str) -> str:
        """`text` with every line break a `\n`; a `\r` at its end waits for what follows."""
        text = self._return + text
        self._return = "\r" if text.endswith("\r") else ""
        text = text[: len(text) - len(self._return)]
        return text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "\ufffd")

    def _shortened(self, line: str) -> str:
        """Take in the beginning of a line that is too long; the last `LIMIT` characters at most are left."""
        while len(line) > LIMIT:
            self._take_overlong(line[:LIMIT])
            line = line[LIMIT:]
        return line

    def _take(self, line: str, end: str) -> None:
        """One whole line; `end` is its break, empty for the last line of all."""
        blank = not line.strip(" \t")
        if self._state == "blocks":
            self._take_block(line + end, blank)
        elif self._state != "plain":
            self._take_code(line, end)
        elif self._blank and not blank and _indent(line) < 4:
            self._state, self.grows = "blocks", False
            self._begin(line + end)
        else:
            self._grow(plain_line(line + end))
        self._blank = blank

    def _take_block(self, line: str, blank: bool) -> None:
        if not self._chunk:
            if not blank:
                self._begin(line)
            return
        ends = not blank and self._may_end(line)
        if self._formula and (blank or FENCE.match(line) or line.rstrip().endswith(self._formula)):
            self._formula = None
        self._chunk.append(line)
        self._size += len(line)
        if ends:
            self._cut()
        if self._state == "blocks" and (self._size > LIMIT or len(self._chunk) > LINES):
            self._begin_plain()

    def _begin(self, line: str) -> None:
        """A new chunk, of which `line` begins a block."""
        self._chunk, self._size, self._within = [line], len(line), 0
        if match := FENCE.match(line):
            self._state, self._code = "code", _Code.begun_by(match)
            return
        self._formula = begins_block(line)
        if match := _ITEM.match(line):
            self._within = match.end() if match["gap"] else 0

    def _may_end(self, line: str) -> bool:
        """Whether it is worth a look if `line`, which is not blank, begins a block or an item."""
        if self._formula or (self._within and _indent(line) >= self._within):
            return FENCE.match(line) is not None and not self._within
        return self._blank or _ITEM.match(line) is not None or FENCE.match(line) is not None

    def _cut(self) -> None:
        """Settle what the last line has brought to an end."""
        tops = outline("".join(self._chunk))
        at, grows = 0, False
        if tops[-1].kind == "list" and len(tops[-1].items) > 1:
            at, grows = tops[-1].items[-1], True
        elif tops[-1].kind == "fence" and tops[-1].start == len(self._chunk) - 1:
            at = tops[-1].start
        else:
            at = max(
                (top.start for top in tops if top.start and self._chunk[top.start - 1].isspace()), default=0
            )
        if at:
            lines, rest = self._chunk[:at], self._chunk[at:]
            self._settle(lines, grows=grows)
            self._chunk, self._size = [], 0
            for line in rest:
                self._take(line.removesuffix("\n"), line[-1:] if line.endswith("\n") else "")

    # --- code, and what is too long

    def _take_code(self, line: str, end: str) -> None:
        assert self._code is not None
        if self._code.closing.match(line):
            if self._state == "code":
                self._settle([*self._chunk, line + end])
            self._chunk, self._state, self.grows = [], "blocks", False
        elif self._state == "long code":
            self._grow(_code_part(self._code.draw(line + end)))
        else:
            self._chunk.append(line + end)
            self._size += len(line) + 1
            self._code.lines.append(self._code.draw(line + end))
            if self._size > LIMIT:
                self._begin_long_code()

    def _take_overlong(self, piece: str) -> None:
        """The next `LIMIT` characters of a line that is longer than that."""
        if self._state == "blocks":
            self._begin_plain()
        elif self._state == "code":
            self._begin_long_code()
        if self._state == "plain":
            self._grow(plain_line(piece))
        elif self._code:
            self._grow(_code_part(self._code.draw(piece)))
        self._blank = False

    def _begin_plain(self) -> None:
        lines, self._chunk, self._state = self._chunk, [], "plain"
        self._begin_growing('<p class="plain" dir="auto">', [plain_line(line) for line in lines], "</p>")

    def _begin_long_code(self) -> None:
        assert self._code is not None
        self._chunk, self._state = [], "long code"
        opening, closing = code.frame(self._code.language)
        self._begin_growing(opening, [_code_part(line) for line in self._code.lines], closing)

    def _begin_growing(self, opening: str, parts: list[str], closing: str) -> None:
        self.blocks.append(Block("other", opening, parts, closing))
        self.grows = True
        self._add(self.blocks[-1].html)

    def _grow(self, part: str) -> None:
        self.blocks[-1].parts.append(part)
        self._add(f"{JOINS[0]}{part}{JOINS[1]}")

    # --- drawing

    def _open(self) -> tuple[str | None, str]:
        """What is open: parts that join the last block, if any do, and what stands behind it."""
        partial = "".join(self._partial)
        if self._state == "code" and self._code:
            opening, closing = code.frame(self._code.language)
            return None, f"{opening}{''.join(self._code.lines)}{self._code.draw_partial(partial)}{closing}"
        if self._state == "long code" and self._code:
            line = self._code.draw_partial(partial)
            return (_code_part(line) if line else None), ""
        if self._state == "plain":
            return (plain_line(partial) if partial else None), ""
        text = unfinished.presentable("".join(self._chunk), partial)
        drawn = draw(text, ChainMap({}, self._references), live=True) if text else []
        joined = "".join(drawn.pop(0).parts) if drawn and self._joins(drawn[0]) else None
        return joined, "".join(block.html for block in drawn)

    def _joins(self, block: Block) -> bool:
        return self.grows and block.kind == "list" and self.blocks[-1].closing == block.closing

    def _settle(self, lines: list[str], *, grows: bool = False) -> None:
        """Draw `lines` for good. `grows`: the list at their end may get more items."""
        piece = _Piece("".join(lines), [])
        known = len(self._references)
        drawn = draw(piece.text, self._references)
        joined: Block | None = None
        framed = ""
        if drawn and self._joins(drawn[0]):
            item, joined = drawn.pop(0), self.blocks[-1]
            piece.places.append(_Place(len(self.blocks) - 1, len(joined.parts), len(item.parts)))
            joined.parts += item.parts
            joined.loose = joined.loose or item.loose
            framed = f"{JOINS[0]}{''.join(item.parts)}{JOINS[1]}"
        for block in drawn:
            piece.places.append(_Place(len(self.blocks), 0, len(block.parts)))
            self.blocks.append(block)
        self.grows = grows and bool(self.blocks) and self.blocks[-1].kind == "list"
        if self.grows and lines[-1].isspace():
            self.blocks[-1].loose = True
        html = framed + "".join(block.html for block in drawn)
        self._add(html, loose=joined is not None and joined.loose)
        self._remember(piece, list(self._references)[known:])

    def _remember(self, piece: _Piece, defined: list[str]) -> None:
        """Draw again what waits for the labels that `piece` has `defined`; note which ones it waits for itself."""
        self._pieces.append(piece)
        for label in defined:
            for waiting in self._waiting.pop(label, ()):
                if waiting.drawn > _REDRAWN:
                    waiting.stale = True
                else:
                    self._redraw(waiting)
        if "[" in piece.text:
            for label in labels_of(piece.text) - self._references.keys():
                self._waiting.setdefault(label, []).append(piece)

    def _redraw(self, piece: _Piece, notes: Notes | None = None) -> None:
        piece.drawn += 1
        for place, block in zip(piece.places, draw(piece.text, self._references, notes), strict=True):
            parts = self.blocks[place.block].parts
            if parts[place.first : place.first + place.count] != block.parts:
                parts[place.first : place.first + place.count] = block.parts
                self._redrawn[place.block] = None

    def _number_notes(self) -> None:
        """Give the footnotes their numbers, in the order in which the text first points at them."""
        pieces = [piece for piece in self._pieces if "[^" in piece.text]
        defined = frozenset(label for piece in pieces for label in notes_of(piece.text))
        if not defined:
            return
        first = Notes(defined, f"{self._crc:08x}")
        for piece in pieces:
            draw(piece.text, self._references, first)
        numbered = Notes(defined, first.mark, first.numbers)
        for piece in pieces:
            self._redraw(piece, numbered)

    def _add(self, html: str, *, loose: bool = False) -> None:
        self._added.append(Added(html, len(self.blocks), self.parts, loose))

    def _changes(self) -> list[Change]:
        redrawn = [Redrawn(number, self.blocks[number].html) for number in self._redrawn]
        changes: list[Change] = [*self._added, *redrawn]
        self._added, self._redrawn = [], {}
        return changes


def _indent(line: str) -> int:
    """How far `line` is indented, in columns."""
    spaces = line[: len(line) - len(line.lstrip(" \t"))]
    return len(spaces.expandtabs(4))


def _code_part(line: str) -> str:
    return f'<span class="line">{line}</span>'
