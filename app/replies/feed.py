"""The numbered events that followers read, the gate that they come through, and the news of a person.

A feed is one list and one wake-up. There is no queue per follower, so nothing is lost, doubled or held up by
a slow one: a follower remembers the last number it has seen and reads on from there.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from app.core.clock import now_ms
from app.core.errors import Superseded
from app.core.events import PASSING, Entry, Event, RoundBegan
from app.core.ids import ChatId, ReplyId, RunId, UserId
from app.core.state import ReplyState, apply

logger = logging.getLogger(__name__)

# Passing events are news, not history: a follower that is this far behind misses the older ones.
PASSING_KEPT = 64


class Bell:
    """Rings for everybody who watches. What a watcher does wrong is logged and harms nobody else."""

    __slots__ = ("_wakes",)

    def __init__(self) -> None:
        self._wakes: dict[object, Callable[[], None]] = {}

    def watch(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake()` at every ring, from within it, until the returned detacher is called."""
        mark = object()
        self._wakes[mark] = wake
        return lambda: _forget(self._wakes, mark)

    async def wait(self) -> None:
        """Return at the next ring. Cancelling leaves nothing behind."""
        future = asyncio.get_running_loop().create_future()
        detach = self.watch(lambda: None if future.done() else future.set_result(None))
        try:
            await future
        finally:
            detach()

    def ring(self) -> None:
        for wake in tuple(self._wakes.values()) if self._wakes else ():
            try:
                wake()
            except Exception:
                logger.exception("a follower failed to wake")


def _forget(wakes: dict[object, Callable[[], None]], mark: object) -> None:
    wakes.pop(mark, None)


class Feed:
    """The entries of one run of a reply, in order: `entries[n].seq == n + 1`."""

    __slots__ = ("_bell", "_passing", "closed", "entries", "passing_count")

    def __init__(self, entries: Iterable[Entry] = (), *, closed: bool = False) -> None:
        self.entries: list[Entry] = list(entries)
        self.passing_count = 0
        self.closed = closed
        self._passing: deque[Entry] = deque(maxlen=PASSING_KEPT)
        self._bell = Bell()

    def append(self, entry: Entry) -> None:
        self.entries.append(entry)
        self._bell.ring()

    def pass_by(self, entry: Entry) -> None:
        self._passing.append(entry)
        self.passing_count += 1
        self._bell.ring()

    def close(self) -> None:
        """No more will come."""
        self.closed = True
        self._bell.ring()

    def since(self, seq: int) -> list[Entry]:
        """The entries after number `seq`."""
        return self.entries[seq:]

    def passing_since(self, count: int) -> list[Entry]:
        """The passing entries after the first `count` of them, as far as they are kept."""
        new = min(self.passing_count - count, len(self._passing))
        return list(self._passing)[-new:] if new > 0 else []

    def watch(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake()` at every change, from within the gate: it must be quick. Returns the detacher."""
        return self._bell.watch(wake)

    async def wait(self, seq: int, passing: int) -> None:
        """Return when there is an entry after `seq`, a passing one after the first `passing`, or the end."""
        while not (len(self.entries) > seq or self.passing_count > passing or self.closed):
            await self._bell.wait()


class Source(Protocol):
    """What a follower reads: a `Generation`, or an `EndedReply` read back from the store."""

    @property
    def reply(self) -> ReplyId: ...

    @property
    def chat(self) -> ChatId: ...

    @property
    def user(self) -> UserId: ...

    @property
    def run(self) -> RunId: ...

    @property
    def state(self) -> ReplyState: ...

    @property
    def feed(self) -> Feed: ...


@dataclass(frozen=True, slots=True)
class EndedReply:
    """An ended reply, folded from its stored events; its feed is closed."""

    reply: ReplyId
    chat: ChatId
    user: UserId
    run: RunId
    state: ReplyState
    feed: Feed


class Journal(Protocol):
    """Where a generation's entries are kept until its end; `log.ReplyLog` is it."""

    def add(self, entry: Entry) -> None:
        """Keep `entry`. Never raises."""
        ...


class Generation:
    """The live state of a reply that is being written. It changes through `emit` alone."""

    __slots__ = ("_journal", "_round", "chat", "feed", "reply", "run", "sealed", "state", "user")

    def __init__(self, reply: ReplyId, chat: ChatId, user: UserId, run: RunId, journal: Journal) -> None:
        self.reply, self.chat, self.user, self.run = reply, chat, user, run
        self.state = ReplyState(reply, chat, run)
        self.feed = Feed()
        self._journal = journal
        self._round = 0
        # No more comes from whoever still runs: the reply is being concluded, or is over.
        self.sealed = False

    def emit(self, event: Event) -> None:
        """The gate: number, fold, keep, show. Raises Superseded once the reply is being concluded."""
        if self.sealed:
            raise Superseded(f"reply {self.reply} run {self.run} is over, its {event.type} came too late")
        self.append(self.entry(event))

    def entry(self, event: Event) -> Entry:
        """`event` under its number, not yet emitted."""
        if isinstance(event, PASSING):
            return Entry(0, now_ms(), self._round, event)
        number = self._round + 1 if type(event) is RoundBegan else self._round
        return Entry(self.state.seq + 1, now_ms(), number, event)

    def append(self, entry: Entry) -> None:
        """The gate behind the seal: for `finish`, which concludes, and for what a restart has kept."""
        apply(self.state, entry)
        if entry.seq == 0:
            self.feed.pass_by(entry)
            return
        self._round = entry.round
        # Kept before it is shown, so that a round's first delta is on disk when a follower sees it.
        self._journal.add(entry)
        self.feed.append(entry)

    def seal(self) -> None:
        """Nothing more may be emitted by whoever still runs."""
        self.sealed = True

    def close(self) -> None:
        """The end for followers, with or without an outcome."""
        self.sealed = True
        self.feed.close()


@dataclass(frozen=True, slots=True)
class News:
    """One event of a person: `kind` is chat, queue, reply, card or toast."""

    kind: str
    data: dict[str, Any]


class PersonFollower:
    """One connection of one person; `chat` is what its page shows, `visible` whether somebody sees it.

    At first, and again after it fell behind, `take` says that a snapshot is due. The snapshot is read from
    the store after `take`, so that nothing falls between; news that it shows already do no harm.
    """

    def __init__(
        self, bulletin: "Bulletin", user: UserId, chat: ChatId | None, visible: bool, backlog: int
    ) -> None:
        self.user, self.chat, self.visible = user, chat, visible
        self.closed = False
        self._bulletin = bulletin
        self._backlog = backlog
        self._stale = True
        self._news: list[News] = []
        self._bell = Bell()

    def watch(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake()` whenever `take` may have something to give. Returns the detacher."""
        return self._bell.watch(wake)

    async def wait(self) -> None:
        """Return when `take` has something to give, or the follower was closed."""
        while not (self._news or self._stale or self.closed):
            await self._bell.wait()

    def take(self) -> tuple[bool, list[News]]:
        """Whether a snapshot is due, and the news since the last time."""
        stale, news, self._stale, self._news = self._stale, self._news, False, []
        return stale, news

    def give(self, news: News) -> None:
        if len(self._news) >= self._backlog:
            # It is too far behind: what it has missed comes with the snapshot.
            self._news.clear()
            self._stale = True
        self._news.append(news)
        self._bell.ring()

    def close(self) -> None:
        """Detach; whoever waits returns. Safe to call twice."""
        self.closed = True
        self._bulletin.detach(self)
        self._bell.ring()

    def __enter__(self) -> "PersonFollower":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Bulletin:
    """Tells people what is not of one reply. Nothing is kept for those who are not there."""

    def __init__(self, backlog: int = 256) -> None:
        self._backlog = backlog
        self._feeds: dict[UserId, list[PersonFollower]] = {}

    def attach(self, user: UserId, chat: ChatId | None = None, *, visible: bool = False) -> PersonFollower:
        """A follower of everything of `user`, a context manager; its first `take` asks for a snapshot."""
        follower = PersonFollower(self, user, chat, visible, self._backlog)
        self._feeds.setdefault(user, []).append(follower)
        return follower

    def detach(self, follower: PersonFollower) -> None:
        feed = self._feeds.get(follower.user, [])
        if follower in feed:
            feed.remove(follower)
        if not feed:
            self._feeds.pop(follower.user, None)

    def publish(self, user: UserId, kind: str, data: dict[str, Any]) -> None:
        news = News(kind, data)
        for follower in tuple(self._feeds.get(user, ())):
            follower.give(news)

    def watched(self, user: UserId, chat: ChatId) -> bool:
        """Whether a visible page of `user` shows `chat` right now (SPEC 12)."""
        return any(f.visible and f.chat == chat for f in self._feeds.get(user, ()))

    def followers(self, user: UserId) -> int:
        return len(self._feeds.get(user, ()))

    def close(self) -> None:
        """Let every follower go: the server is shutting down."""
        for feed in list(self._feeds.values()):
            for follower in list(feed):
                follower.close()
