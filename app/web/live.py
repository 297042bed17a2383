"""Running replies as frames: what pages that follow a reply are sent (SSE; the names and shapes are below).

    open    {segment, html}                     a segment has begun
    block   {segment, keep, rest, settled, parts?, loose?}     what the open block begins with is settled
    redraw  {segment, block, html}              a settled block has changed
    tail    {keep, rest}                        the open block: the first `keep` UTF-16 units as before, then `rest`
    close   {segment, label?}                   a segment is complete
    fragment {id, html}                         the element with that id, anew
    meter   {rate?, share?}                     numbers of the status line
    sync    {reply, run, seq, html}             the whole reply as it is
    ended   {reply, state, next, html}          the final reply without its segments, which stay

Each is idempotent. All followers of a reply share one `Live`: a block is drawn once, the open one at most every
16 ms and less often under load, and with nobody there nothing is drawn. A follower that has missed a drawing is
brought up to date from the draft's log; one of whom nothing is known gets `sync`.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

from markupsafe import Markup

from app.core.ids import ReplyId
from app.core.state import ReplyState, Segment
from app.core.text import utf16_length
from app.replies.feed import Source
from app.web import transcript, turns, wording
from app.web.draft import Called, Calling, Closed, Draft, Grown, Opened, Step, Writing, draft_of
from app.web.house import House
from app.web.render import Render
from app.web.segments import SegmentView, view_of
from app.web.splitter import Added
from app.web.streams import frame
from app.web.turns import StatusView

# A frame is at most as often as a screen is drawn; drawing takes an eighth of one core at most, whatever is followed.
_SOONEST = 0.016
_SHARE = 8
# How often the numbers of the status line change, in seconds.
_METER = 1.0


class Page(Protocol):
    """The stream of an open page."""

    def give_way(self) -> None:
        """Another page of the session needs the place."""
        ...


class Views:
    """What is drawn for pages, while there are pages that follow it."""

    def __init__(self, render: Render) -> None:
        self.render = render
        # The open streams of pages by the session that they belong to, the one shown last at the end.
        self.pages: dict[str, list[Page]] = {}
        self._live: dict[ReplyId, Live] = {}

    def follow(self, house: House, source: Source, wake: Callable[[], None]) -> "Seat":
        """A seat for one page that follows `source`, a running reply; `wake` is called when it has news."""
        live = self._live.get(source.reply)
        if live is None or live.source is not source:
            live = self._live[source.reply] = Live(self, house, source)
        return Seat(live, wake)

    @property
    def followed(self) -> int:
        return len(self._live)

    def forget(self, live: "Live") -> None:
        if self._live.get(live.source.reply) is live:
            del self._live[live.source.reply]


class Seat:
    """One page's place at a running reply. `over`: everything of the reply was taken."""

    def __init__(self, live: "Live", wake: Callable[[], None]) -> None:
        self.live = live
        self.wake = wake
        self.over = False
        self._version = -1
        self._place = 0
        live.sit(self)

    async def begin(self, run: str, seq: int) -> bytes:
        """The first frames for a page that shows the reply up to event `seq` of `run`."""
        live = self.live
        place = live.draft.position(seq) if run == live.source.run else None
        first = b"" if place is not None else await live.sync()
        # The page may have been drawn after the last frame was: its open block is newer than ours.
        live.refresh()
        self._place = live.place if place is None else place
        return first + self.take()

    def take(self) -> bytes:
        """The frames since the last time."""
        live = self.live
        frames = b""
        if self._version == live.version - 1:
            frames = live.delta
        elif self._version != live.version:
            frames = live.catch_up(self._place)
        self._version, self._place = live.version, live.place
        if live.last is not None:
            self.over = True
            frames += live.last
        return frames

    def leave(self) -> None:
        self.live.stand(self)


@dataclass(frozen=True, slots=True)
class _Shown:
    """What the status line shows."""

    html: str
    doing: tuple[object, ...]
    shape: tuple[object, ...]
    numbers: dict[str, int]
    at: float


class Live:
    """One running reply for all pages that follow it.

    Each drawing makes a new `version`; `delta` are the frames from the one before it, the same for everybody.
    """

    def __init__(self, views: Views, house: House, source: Source) -> None:
        self.source = source
        self.draft: Draft = draft_of(source.state)
        self.version = 0
        self.delta = b""
        self.place = len(self.draft.log)
        self.last: bytes | None = None
        self._views = views
        self._house = house
        self._render = views.render
        self._tail = ""
        self._seats: dict[Seat, None] = {}
        self._full: dict[int, str] = {}
        self._status: _Shown | None = None
        self._due = 0.0
        self._timer: asyncio.Handle | None = None
        self._ending = False
        self._detach: Callable[[], None] = lambda: None

    # --- who is there

    def sit(self, seat: Seat) -> None:
        if not self._seats:
            self._detach = self.source.feed.watch(self._changed)
            # Whatever came while nobody was there; a follower's first frames are as of now.
            self._draw()
        self._seats[seat] = None

    def stand(self, seat: Seat) -> None:
        self._seats.pop(seat, None)
        if not self._seats:
            self._detach()
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            self._views.forget(self)

    # --- drawing

    def _changed(self) -> None:
        """Something came: draw soon. Called from within the gate."""
        if self._timer is not None:
            return
        loop = asyncio.get_running_loop()
        if self._due <= loop.time():
            self._timer = loop.call_soon(self._tick)
        else:
            self._timer = loop.call_at(self._due, self._tick)

    def _tick(self) -> None:
        self._timer = None
        started = time.perf_counter()
        drawn = self._draw()
        cost = time.perf_counter() - started
        pause = max(_SOONEST, _SHARE * cost * self._views.followed)
        self._due = asyncio.get_running_loop().time() + pause
        over = self.source.feed.closed or self.source.state.finished is not None
        if over and not self._ending:
            self._ending = True
            self._house.tasks.start(f"end of reply {self.source.reply}", self._end())
        if drawn:
            self._tell()

    def refresh(self) -> None:
        """Draw now, whether or not it is time."""
        if self._draw():
            self._tell()

    def _tell(self) -> None:
        for seat in tuple(self._seats):
            seat.wake()

    def _draw(self) -> bool:
        """Bring draft, log and open block up to now; whether there was anything to send."""
        state = self.source.state
        self.draft.advance(state)
        frames = [self._step(step, number) for number, step in self._new_steps()]
        grown = bool(frames)
        self.place = len(self.draft.log)
        writing = self.draft.open
        tail = writing.tail() if writing else ""
        if writing and (grown or tail != self._tail):
            frames.append(frame("tail", _difference(self._tail, tail)))
        self._tail = tail
        frames += self._status_news()
        if not frames:
            return False
        if grown:
            frames[-1] = f"id: {self.source.run}-{state.seq}\n{frames[-1]}"
        self.delta = "".join(frames).encode()
        self.version += 1
        return True

    def _new_steps(self) -> list[tuple[int, Step]]:
        return list(enumerate(self.draft.log[self.place :], self.place))

    def _step(self, step: Step, number: int) -> str:
        """A step as a frame for those who have seen the last drawing."""
        if isinstance(step, Grown) and isinstance(step.change, Added) and self._tail:
            before, self._tail = self._tail, ""
            return _block(step.segment, step.change, before)
        if isinstance(step, Opened | Closed):
            self._tail = ""
        return self._whole_step(step, number)

    def _whole_step(self, step: Step, number: int) -> str:
        """A step as a frame for anybody, kept for those who come late."""
        if number not in self._full:
            self._full[number] = self._framed(step)
        return self._full[number]

    def _framed(self, step: Step) -> str:
        match step:
            case Opened(segment):
                return frame("open", {"segment": segment.id, "html": self._segment(segment)})
            case Grown(segment, change):
                if isinstance(change, Added):
                    return _block(segment, change, "")
                return frame("redraw", {"segment": segment.id, "block": change.block, "html": change.html})
            case Closed(segment):
                return frame("close", {"segment": segment.id} | _label(segment))
            case Called(segment):
                return frame("fragment", {"id": segment.id, "html": self._segment(segment)})

    def _segment(self, segment: Writing | Calling) -> str:
        """A segment as it begins: empty, if it is to be written; a call as it stands."""
        if isinstance(segment, Calling):
            view = view_of(segment)
        else:
            view = SegmentView(segment.id, segment.kind, marks=OPEN, open=True)
        return self._render.fragment("replies/_segment.html", segment=view)

    # --- for those who come late

    def catch_up(self, place: int) -> bytes:
        """Everything from `place` of the log on, the open block whole, and the status."""
        log = self.draft.log
        frames = [self._whole_step(log[number], number) for number in range(place, self.place)]
        if self.draft.open:
            frames.append(frame("tail", {"keep": 0, "rest": self._tail}))
        if self._status is not None:
            frames.append(frame("fragment", {"id": "status", "html": self._status.html}))
        if frames:
            frames[-1] = f"id: {self.source.run}-{self.source.state.seq}\n{frames[-1]}"
        return "".join(frames).encode()

    async def sync(self) -> bytes:
        """The whole reply. The draft is as far as the answer when this returns."""
        source = self.source
        view = await transcript.one_reply(self._house, source.user, source.reply)
        html = self._render.fragment("replies/_reply.html", reply=view)
        return sync_frame(source.reply, view.run, view.seq, html)

    # --- status and end

    def _status_news(self) -> list[str]:
        """The status line where it has changed; its numbers at most once a second."""
        now = time.monotonic()
        shown = self._status
        state = self.source.state
        doing = _doing(state)
        if shown is not None and shown.doing == doing and now - shown.at < _METER:
            return []
        status = turns.status_of(state)
        shape = _shape(status)
        if shown is not None and shown.shape == shape:
            numbers = _numbers(status)
            self._status = replace(shown, doing=doing, numbers=numbers, at=now)
            return [frame("meter", numbers)] if numbers != shown.numbers else []
        html = self._render.fragment("replies/_status.html", status=status)
        self._status = _Shown(html, doing, shape, _numbers(status), now)
        return [frame("fragment", {"id": "status", "html": html})]

    async def _end(self) -> None:
        """The feed is closed: the final reply, as it is stored, for everybody who is still there."""
        finished, last = self.source.state.finished, b""
        if finished is not None:
            view = await transcript.one_reply(self._house, self.source.user, self.source.reply)
            html = self._render.fragment("replies/_reply.html", reply=replace(view, segments=()))
            ended = {"reply": self.source.reply, "state": finished.state, "next": finished.next, "html": html}
            last = frame("ended", ended, f"{self.source.run}-{self.source.state.seq}").encode()
        self.last = last
        self._tell()


def sync_frame(reply: str, run: str, seq: int, html: str) -> bytes:
    """The whole reply, in place of whatever the page shows of it."""
    return frame("sync", {"reply": reply, "run": run, "seq": seq, "html": html}, f"{run}-{seq}").encode()


def _block(segment: Writing, added: Added, before: str) -> str:
    more: dict[str, Any] = {"settled": added.blocks}
    if added.parts is not None:
        more["parts"] = added.parts
    if added.loose:
        more["loose"] = True
    return frame("block", {"segment": segment.id} | _difference(before, added.html) | more)


def _difference(before: str, after: str) -> dict[str, Any]:
    """`after` as the length of its common start with `before`, in UTF-16 units, and the rest."""
    start = after[: common_start(before, after)]
    return {"keep": len(start) if start.isascii() else utf16_length(start), "rest": after[len(start) :]}


def common_start(before: str, after: str) -> int:
    """How many characters both begin with, never ending within a tag."""
    low, high = 0, min(len(before), len(after))
    if before[:high] == after[:high]:
        low = high
    while low < high:
        middle = (low + high + 1) // 2
        if before[low:middle] == after[low:middle]:
            low = middle
        else:
            high = middle - 1
    tag = after.rfind("<", 0, low)
    return tag if tag > after.rfind(">", 0, low) else low


OPEN = Markup(' data-settled="0"')


def _label(segment: Writing) -> dict[str, str]:
    """What the folded line of complete reasoning says."""
    if segment.kind != "reasoning":
        return {}
    return {"label": f"Thought for {wording.duration(segment.ms)}" if segment.ms else "Thought"}


def _doing(state: ReplyState) -> tuple[object, ...]:
    """What the words of a status come from; cheap to look at, unlike its numbers."""
    round = state.round
    last = round.segments[-1] if round and round.segments else None
    kind = last.kind if isinstance(last, Segment) else type(last)
    return state.phase, state.passing.status, round is None, kind


def _shape(status: StatusView | None) -> tuple[object, ...]:
    """What of a status needs its HTML anew: all but its numbers."""
    if status is None:
        return ()
    return status.text, status.lit, status.rate is None, status.share is None


def _numbers(status: StatusView | None) -> dict[str, int]:
    if status is None:
        return {}
    numbers = {"rate": status.rate, "share": status.share}
    return {name: value for name, value in numbers.items() if value is not None}
