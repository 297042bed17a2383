"""A running reply as HTML that grows: its segments, and a log of what has happened to them.

A page that is drawn and the frames that followers get come from one `Draft`, so both agree on every block. What is
in the log never changes any more; the open block behind it (`tail`) is drawn anew as often as somebody wants to
see it.
"""

from bisect import bisect_right
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Literal
from weakref import WeakValueDictionary

from app.core.events import ToolProgress
from app.core.ids import ReplyId, RunId
from app.core.messages import Outcome
from app.core.state import Call, ReplyState, Round, Segment
from app.web import markdown
from app.web.splitter import Added, Redrawn, Splitter

# How many drafts are kept for whoever comes next: between a page and the stream that it opens, say.
_KEPT = 64


@dataclass(frozen=True, slots=True)
class Opened:
    """A segment has begun."""

    segment: "Writing | Calling"


@dataclass(frozen=True, slots=True)
class Grown:
    """A segment's settled blocks changed."""

    segment: "Writing"
    change: Added | Redrawn


@dataclass(frozen=True, slots=True)
class Closed:
    """A segment of text or reasoning is complete; the reasoning took so many `ms`."""

    segment: "Writing"


@dataclass(frozen=True, slots=True)
class Called:
    """A call has news: how far it is, or its outcome."""

    segment: "Calling"


Step = Opened | Grown | Closed | Called


@dataclass(slots=True, eq=False)
class Writing:
    """A segment of text or reasoning. `said` is its source."""

    id: str
    kind: Literal["text", "reasoning"]
    said: Segment
    splitter: Splitter = field(default_factory=Splitter)
    closed: bool = False
    # How much of `said.deltas` was taken: a count, the first of them (it is replaced when they are joined), and the
    # number of characters, for when they were.
    _count: int = 0
    _first: str = ""
    _characters: int = 0

    def new_text(self) -> str:
        """What has come since the last time; costs what came, not what is there."""
        deltas = self.said.deltas
        if self._count <= len(deltas) and (not self._count or deltas[0] is self._first):
            new = "".join(deltas[self._count :])
        else:
            new = self.said.text[self._characters :]
            deltas = self.said.deltas
        self._count, self._first = len(deltas), deltas[0] if deltas else ""
        self._characters += len(new)
        return new

    @property
    def ms(self) -> int | None:
        return None if self.said.ended is None else self.said.ended - self.said.began

    def tail(self) -> str:
        return "" if self.closed else self.splitter.tail()

    def last_line(self) -> str:
        """The line of open reasoning that is being written, for its folded form."""
        lines = "".join(self.said.deltas[-40:]).rstrip().rsplit("\n", 1)
        return lines[-1][-200:]


@dataclass(slots=True, eq=False)
class Calling:
    """A tool call. `shown`: what was last logged of it."""

    id: str
    call: Call
    progress: ToolProgress | None = None
    outcome: Outcome | None = None


class Draft:
    """One run of a reply. `log` grows; `advance` brings it up to a state."""

    def __init__(self, reply: ReplyId, run: RunId) -> None:
        self.reply, self.run = reply, run
        self.segments: list[Writing | Calling] = []
        self.log: list[Step] = []
        self._round = 0
        self._seen = 0  # segments of that round
        self._waiting: list[Calling] = []
        # Where the log stood after which event, for followers that resume: parallel, ascending.
        self._seqs: list[int] = []
        self._marks: list[int] = []

    @property
    def open(self) -> Writing | None:
        """The segment that is being written."""
        last = self.segments[-1] if self.segments else None
        return last if isinstance(last, Writing) and not last.closed else None

    def advance(self, state: ReplyState) -> None:
        """Take in what `state` has beyond the last time."""
        before = len(self.log)
        while self._round < len(state.rounds):
            self._follow(state.rounds[self._round])
            if self._round + 1 == len(state.rounds):
                break
            self._round, self._seen = self._round + 1, 0
        for calling in list(self._waiting):
            self._look_at(calling, state.passing.progress.get(calling.call.called.id))
        if len(self.log) > before or not self._seqs:
            self._seqs.append(state.seq)
            self._marks.append(len(self.log))

    def position(self, seq: int) -> int | None:
        """How much of the log somebody has who saw everything up to event `seq`; None if that is not known."""
        place = bisect_right(self._seqs, seq) - 1
        if place >= 0:
            return self._marks[place]
        return 0 if seq == 0 else None

    def _follow(self, round: Round) -> None:
        if (open := self.open) is not None:
            self._write(open)
        for index in range(self._seen, len(round.segments)):
            segment = round.segments[index]
            if isinstance(segment, Call):
                self._add(Calling(f"call-{segment.called.id}", segment))
            else:
                writing = Writing(f"s-{round.message}-{index}", segment.kind, segment)
                self._add(writing)
                self._write(writing)
        self._seen = len(round.segments)

    def _add(self, segment: "Writing | Calling") -> None:
        self.segments.append(segment)
        self.log.append(Opened(segment))
        if isinstance(segment, Calling):
            self._waiting.append(segment)

    def _write(self, writing: Writing) -> None:
        if new := writing.new_text():
            self.log += [Grown(writing, change) for change in writing.splitter.feed(new)]
        if writing.said.ended is not None:
            self.log += [Grown(writing, change) for change in writing.splitter.end()]
            self.log.append(Closed(writing))
            writing.closed = True
            markdown.remember(writing.said.text, writing.splitter.html())

    def _look_at(self, calling: Calling, progress: ToolProgress | None) -> None:
        result = calling.call.result
        if result is not None:
            calling.outcome = result.outcome
            self._waiting.remove(calling)
            self.log.append(Called(calling))
        elif progress != calling.progress:
            calling.progress = progress
            self.log.append(Called(calling))


# All that somebody follows or has drawn, and the latest of them whether or not anybody does.
_drafts: WeakValueDictionary[ReplyId, Draft] = WeakValueDictionary()
_latest: OrderedDict[ReplyId, Draft] = OrderedDict()


def draft_of(state: ReplyState) -> Draft:
    """The draft of the run that `state` is of, brought up to it."""
    draft = _drafts.get(state.reply)
    if draft is None or draft.run != state.run:
        draft = _drafts[state.reply] = Draft(state.reply, state.run)
    _latest[state.reply] = draft
    _latest.move_to_end(state.reply)
    while len(_latest) > _KEPT:
        _latest.popitem(last=False)
    draft.advance(state)
    return draft
