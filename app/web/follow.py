"""Who follows what: the API's two streams, and the one stream of a page.

    GET /api/v1/replies/{id}/events     one reply: `state`, or what comes after the event named
    GET /api/v1/events[?reply=]         one person, and with it a reply whose types are written `reply.<type>`
    GET /events?chat=&reply=&after=     the same for a page: frames of `live`, and the person's events

Whoever follows is checked when they attach, through the owner; later only the end of their session can part them.
"""

import re
from collections.abc import Callable, Coroutine

from starlette.requests import Request
from starlette.responses import Response

from app.core.ids import ChatId, ReplyId, UserId, is_id
from app.replies.feed import News, PersonFollower, Source
from app.replies.snapshot import snapshot
from app.store import chats, messages
from app.web import transcript
from app.web.answers import path_id
from app.web.changes import change_chat
from app.web.encoded import encoded
from app.web.house import House, house, user
from app.web.live import Seat, sync_frame
from app.web.streams import EventStream, frame
from app.web.turns import MessageView

# How many page streams one session may hold: a browser has six connections for a site, and needs some for the rest.
MOST_PAGES = 4

_POINT = re.compile(r"([0-9a-f]{1,64})-(\d{1,12})")


async def reply_events(request: Request) -> Response:
    """`GET /api/v1/replies/{id}/events`. Raises NotFound."""
    source = await house(request).registry.follow_source(ReplyId(path_id(request)), user(request))
    seq = _seq(request, source)
    if seq is not None and source.state.finished is not None and seq >= source.state.seq:
        # An EventSource comes back for ever after an answer that ended, but not after this one.
        return Response(status_code=204, headers={"cache-control": "no-store"})
    return ReplyEvents(request, source, seq)


async def person_events(request: Request) -> Response:
    """`GET /api/v1/events`. Raises NotFound for a reply that is not the person's."""
    reply = request.query_params.get("reply")
    source = await house(request).registry.follow_source(ReplyId(reply), user(request)) if reply else None
    return PersonEvents(request, source, _seq(request, source) if source else None)


async def page_events(request: Request) -> Response:
    """`GET /events`. Raises NotFound for a chat or reply that is not the person's."""
    here, me = house(request), user(request)
    chat, reply = request.query_params.get("chat") or None, request.query_params.get("reply") or None
    if chat is not None:
        async with here.db.read() as s:
            unread = (await chats.owned(s, ChatId(chat), me)).unread
        if unread:  # its reply ended after the page was drawn, and before it listened
            await change_chat(here, me, ChatId(chat), unread=False)
    source = await here.registry.follow_source(ReplyId(reply), me) if reply and is_id(reply) else None
    return PageEvents(request, ChatId(chat) if chat else None, source, _point(request))


def _point(request: Request) -> tuple[str, int] | None:
    """Run and number of the last event that the client has; the header wins over the query, which may be stale."""
    given = request.headers.get("last-event-id") or request.query_params.get("after", "")
    match = _POINT.fullmatch(given)
    return (match[1], int(match[2])) if match else None


def _seq(request: Request, source: Source) -> int | None:
    """The number after which to go on; None where the client needs the whole state."""
    point = _point(request)
    if point is None or point[0] != source.run or point[1] > source.state.seq:
        return None
    return point[1]


class Following:
    """One follower's place in the API's events of a reply."""

    def __init__(self, source: Source, seq: int | None, prefix: str) -> None:
        self.source = source
        self._encoded = encoded(source, prefix)
        self._seq = seq
        self._passed = source.feed.passing_count

    def first(self) -> bytes:
        if self._seq is not None:
            return self.take()
        state = self._encoded.state()
        self._seq = self.source.state.seq
        return state

    def take(self) -> bytes:
        feed, seq = self.source.feed, self._seq or 0
        passed = b""
        if feed.passing_count > self._passed:
            passed, self._passed = self._encoded.passing_since(self._passed), feed.passing_count
        news = self._encoded.since(seq)
        self._seq = max(seq, len(feed.entries))
        return passed + news

    @property
    def over(self) -> bool:
        """Nothing more comes, and everything was taken."""
        return self.source.feed.closed or self.source.state.finished is not None


class ReplyEvents(EventStream):
    """The events of one reply, to their end."""

    def __init__(self, request: Request, source: Source, seq: int | None) -> None:
        super().__init__(request)
        self._following = Following(source, seq, "")
        self._detach: Callable[[], None] | None = None

    async def open(self) -> bytes:
        self._detach = self._following.source.feed.watch(self.wake)
        first = self._following.first()
        self.over = self._following.over
        return first

    def take(self) -> bytes:
        news = self._following.take()
        self.over = self.over or self._following.over
        return news

    def close(self) -> None:
        if self._detach is not None:
            self._detach()


class PersonStream(EventStream):
    """What is not of one reply: a snapshot, then changes."""

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        self._person: PersonFollower | None = None
        self._news = True

    def attach(self, chat: ChatId | None = None, *, visible: bool = False) -> None:
        """Begin to listen; `visible`: a page shows `chat` to somebody."""
        self._person = self.house.bulletin.attach(self.person.id, chat, visible=visible)
        self._person.watch(self._heard)

    def _heard(self) -> None:
        self._news = True
        self.wake()

    async def told(self) -> bytes:
        """The news since the last time, the snapshot before them where one is due."""
        assert self._person is not None
        self._news = False
        self.over = self.over or self._person.closed
        due, news = self._person.take()
        frames = []
        if due:
            async with self.house.db.read() as s:
                frames.append(frame("snapshot", await snapshot(s, self.person.id)))
        for item in news:
            frames.append(frame(item.kind, item.data))
            frames += await self.beside(item)
        return "".join(frames).encode()

    async def beside(self, news: News) -> list[str]:
        """What this stream tells besides."""
        return []

    def close(self) -> None:
        if self._person is not None:
            self._person.close()


class PersonEvents(PersonStream):
    """`GET /api/v1/events`."""

    def __init__(self, request: Request, source: Source | None, seq: int | None) -> None:
        super().__init__(request)
        self._following = Following(source, seq, "reply.") if source else None
        self._detach: Callable[[], None] | None = None

    async def open(self) -> bytes:
        self.attach()
        if self._following is None:
            return await self.told()
        self._detach = self._following.source.feed.watch(self.wake)
        return await self.told() + self._following.first()

    def take(self) -> bytes | Coroutine[None, None, bytes]:
        if self._news:
            return self._take_all()
        return self._following.take() if self._following else b""

    async def _take_all(self) -> bytes:
        return await self.told() + (self._following.take() if self._following else b"")

    def close(self) -> None:
        super().close()
        if self._detach is not None:
            self._detach()


class PageEvents(PersonStream):
    """`GET /events`: what one visible page shows. `point` is how far it shows its reply already."""

    # A script hears no comments, and needs to know whether the line is dead.
    something = b"event: beat\ndata: 0\n\n"

    def __init__(
        self, request: Request, chat: ChatId | None, source: Source | None, point: tuple[str, int] | None
    ) -> None:
        super().__init__(request)
        self._chat = chat
        self._source = source
        self._point = point
        self._seat: Seat | None = None
        self._yields = False

    async def open(self) -> bytes:
        self.attach(self._chat, visible=True)
        self._admit()
        first = await self.told()
        source = self._source
        if source is None:
            return first
        if source.feed.closed or source.state.finished is not None:
            return first + await whole_reply(self.house, self.person.id, source)
        self._seat = self.house.views.follow(self.house, source, self.wake)
        run, seq = self._point or ("", 0)
        return first + await self._seat.begin(run, seq)

    def take(self) -> bytes | Coroutine[None, None, bytes]:
        if self._yields:
            self.over = True
            return frame("yield", {}).encode()
        return self._take_all() if self._news else self._frames()

    async def _take_all(self) -> bytes:
        return await self.told() + self._frames()

    def _frames(self) -> bytes:
        if self._seat is None:
            return b""
        frames = self._seat.take()
        if self._seat.over:
            self._seat.leave()
            self._seat = None
        return frames

    async def beside(self, news: News) -> list[str]:
        """The queue of the chat that is shown, drawn."""
        if news.kind != "queue" or self._chat is None or news.data.get("chat") != self._chat:
            return []
        async with self.house.db.read() as s:
            queued = [MessageView.of(message) for message in await messages.queued(s, self._chat)]
        running = self._seat is not None
        html = self.house.render.fragment("messages/_queue.html", queued=queued, running=running)
        return [frame("fragment", {"id": "queue", "html": html})]

    def _admit(self) -> None:
        """Take a place among the session's page streams; the page that was shown longest ago gives up its own."""
        pages = self.house.views.pages.setdefault(self._holder, [])
        pages.append(self)
        if len(pages) > MOST_PAGES:
            pages.pop(0).give_way()

    def give_way(self) -> None:
        """Another page of the session needs the place."""
        self._yields = True
        self.wake()

    @property
    def _holder(self) -> str:
        return self.person.session or self.person.key or self.person.id

    def close(self) -> None:
        super().close()
        if self._seat is not None:
            self._seat.leave()
        pages = self.house.views.pages.get(self._holder, [])
        if self in pages:
            pages.remove(self)
        if not pages:
            self.house.views.pages.pop(self._holder, None)


async def whole_reply(here: House, me: UserId, source: Source) -> bytes:
    """A reply that has ended, for a page that may still show it running."""
    view = await transcript.one_reply(here, me, source.reply)
    html = here.render.fragment("replies/_reply.html", reply=view)
    return sync_frame(source.reply, source.run, source.state.seq, html)
