"""A reply that a test writes by hand, and pages that follow it without a wire."""

from app.core.events import Entry, Event as ReplyEvent, RoundBegan, Started, TextDelta
from app.core.ids import ChatId, MessageId, ReplyId, UserId, new_id, new_run
from app.replies.feed import Generation
from app.web.live import Seat
from app.web.segments import segments
from tests.support.desk import Desk
from tests.support.following import Event, PageModel, parsed


class Journal:
    def add(self, entry: Entry) -> None:
        pass


class Reply:
    """A reply that the test writes, and a page that follows it."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.generation = Generation(
            ReplyId(new_id()), ChatId(new_id()), UserId(new_id()), new_run(), Journal()
        )
        self.woken = 0
        self.emit(Started("m", "e"), RoundBegan(MessageId(new_id())))

    def emit(self, *events: ReplyEvent) -> None:
        for event in events:
            self.generation.emit(event)

    def say(self, text: str, size: int = 5) -> None:
        for at in range(0, len(text), size):
            self.emit(TextDelta(text[at : at + size]))

    def _wake(self) -> None:
        self.woken += 1

    async def seat(self, seq: int = 0) -> "Sitting":
        """A page that shows the reply up to event `seq`."""
        taken = self.desk.house.views.follow(self.desk.house, self.generation, self._wake)
        sitting = Sitting(taken)
        sitting.take(await taken.begin(self.generation.run, seq))
        return sitting

    @property
    def fresh(self) -> dict[str, str]:
        """The segments as a page that is drawn now shows them."""
        return {view.id: str(view.html) for view in segments(self.generation.state)}


class Sitting:
    """A page at its seat."""

    def __init__(self, seat: Seat) -> None:
        self.seat = seat
        self.page = PageModel()
        self.bytes = 0

    def take(self, data: bytes) -> list[Event]:
        self.bytes += len(data)
        events = parsed(data)
        for event in events:
            self.page.take(event)
        return events

    def catch_up(self) -> list[Event]:
        """Draw now, and take what that gave."""
        self.seat.live.refresh()
        return self.take(self.seat.take())

    @property
    def shown(self) -> dict[str, str]:
        return {id: segment.html for id, segment in self.page.segments.items()}
