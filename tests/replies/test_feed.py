"""The gate, the feed and a person's news."""

import asyncio

import pytest

from app.core.errors import Superseded
from app.core.events import Entry, RoundBegan, Status, TextDelta, ToolProgress, Warned
from app.core.ids import ChatId, MessageId, ReplyId, RunId, UserId
from app.replies.feed import Bulletin, Feed, Generation

ANNA, BERT = UserId("anna"), UserId("bert")
CHAT = ChatId("chat")


class Kept:
    """A journal in memory that notes how much followers had seen when it was asked to keep an entry."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.seen: list[int] = []
        self.feed: Feed | None = None

    def add(self, entry: Entry) -> None:
        self.entries.append(entry)
        self.seen.append(len(self.feed.entries) if self.feed else 0)


def generation() -> tuple[Generation, Kept]:
    journal = Kept()
    live = Generation(ReplyId("reply"), CHAT, ANNA, RunId("run"), journal)
    journal.feed = live.feed
    return live, journal


def test_the_gate_numbers_folds_keeps_and_shows():
    live, journal = generation()
    live.emit(RoundBegan(MessageId("m")))
    live.emit(TextDelta("Hel"))
    live.emit(TextDelta("lo"))
    assert [(entry.seq, entry.round) for entry in live.feed.entries] == [(1, 1), (2, 1), (3, 1)]
    assert live.state.text == "Hello"
    assert journal.entries == live.feed.entries


def test_an_entry_is_kept_before_it_is_shown():
    live, journal = generation()
    live.emit(RoundBegan(MessageId("m")))
    live.emit(TextDelta("a"))
    assert journal.seen == [0, 1]


def test_what_passes_by_has_no_number_and_is_not_kept():
    live, journal = generation()
    live.emit(RoundBegan(MessageId("m")))
    live.emit(Status("Waiting"))
    live.emit(ToolProgress("c1", percent=50))
    assert (live.feed.passing_count, len(live.feed.entries), len(journal.entries)) == (2, 1, 1)
    assert [entry.event for entry in live.feed.passing_since(1)] == [ToolProgress("c1", percent=50)]
    assert live.feed.passing_since(2) == []
    assert live.state.passing.status == "Waiting"


def test_a_follower_far_behind_gets_the_latest_of_what_passed():
    live, _ = generation()
    for number in range(500):
        live.emit(Status(str(number)))
    told = live.feed.passing_since(0)
    assert len(told) < 500
    assert told[-1].event == Status("499")


def test_a_sealed_generation_takes_nothing_in():
    live, _ = generation()
    live.seal()
    with pytest.raises(Superseded):
        live.emit(Warned("late", "too late"))
    live.append(live.entry(Warned("end", "from the one who concludes")))
    assert len(live.feed.entries) == 1


async def test_a_follower_wakes_at_once_and_reads_on_from_where_it_was():
    live, _ = generation()
    live.emit(RoundBegan(MessageId("m")))
    waiting = asyncio.ensure_future(live.feed.wait(1, 0))
    await asyncio.sleep(0)
    assert not waiting.done()
    live.emit(TextDelta("a"))
    await waiting
    assert [entry.event for entry in live.feed.since(1)] == [TextDelta("a")]
    await live.feed.wait(1, 0)


async def test_a_follower_wakes_for_what_passes_and_for_the_end():
    live, _ = generation()
    waiting = asyncio.ensure_future(live.feed.wait(0, 0))
    await asyncio.sleep(0)
    live.emit(Status("Waiting"))
    await waiting
    waiting = asyncio.ensure_future(live.feed.wait(0, 1))
    await asyncio.sleep(0)
    live.close()
    await waiting


async def test_a_cancelled_follower_leaves_nothing_behind():
    feed = Feed()
    waiting = asyncio.ensure_future(feed.wait(0, 0))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not feed._bell._wakes


def test_one_watcher_that_fails_harms_no_other(caplog):
    live, _ = generation()
    woken = []

    def fail() -> None:
        raise ZeroDivisionError

    live.feed.watch(fail)
    detach = live.feed.watch(lambda: woken.append(1))
    live.emit(Status("a"))
    detach()
    detach()
    live.emit(Status("b"))
    assert woken == [1]
    assert "failed to wake" in caplog.text


# --- news of a person -------------------------------------------------------------------------------------


def test_news_reach_every_page_of_the_person_and_nobody_else():
    bulletin = Bulletin()
    first, second, other = bulletin.attach(ANNA), bulletin.attach(ANNA), bulletin.attach(BERT)
    for follower in (first, second, other):
        follower.take()
    bulletin.publish(ANNA, "chat", {"id": "c1"})
    assert [news.kind for news in first.take()[1]] == ["chat"]
    assert [news.data for news in second.take()[1]] == [{"id": "c1"}]
    assert other.take() == (False, [])


def test_a_follower_begins_with_a_snapshot():
    follower = Bulletin().attach(ANNA)
    assert follower.take() == (True, [])
    assert follower.take() == (False, [])


def test_a_slow_follower_is_bounded_and_gets_a_fresh_snapshot():
    bulletin = Bulletin(backlog=10)
    follower = bulletin.attach(ANNA)
    follower.take()
    for number in range(1000):
        bulletin.publish(ANNA, "chat", {"id": number})
    stale, news = follower.take()
    assert stale
    assert len(news) <= 10
    assert news[-1].data == {"id": 999}


def test_news_are_not_replayed():
    bulletin = Bulletin()
    bulletin.publish(ANNA, "chat", {})
    assert bulletin.attach(ANNA).take() == (True, [])


async def test_a_waiting_follower_wakes_for_news_and_for_the_end():
    bulletin = Bulletin()
    with bulletin.attach(ANNA) as follower:
        follower.take()
        waiting = asyncio.ensure_future(follower.wait())
        await asyncio.sleep(0)
        assert not waiting.done()
        bulletin.publish(ANNA, "toast", {})
        await waiting
        follower.take()
        waiting = asyncio.ensure_future(follower.wait())
        await asyncio.sleep(0)
        bulletin.close()
        await waiting
    assert bulletin.followers(ANNA) == 0


def test_a_chat_is_watched_only_by_a_visible_page_of_its_owner_that_shows_it():
    bulletin = Bulletin()
    bulletin.attach(ANNA, CHAT)
    bulletin.attach(ANNA, ChatId("another"), visible=True)
    bulletin.attach(BERT, CHAT, visible=True)
    assert not bulletin.watched(ANNA, CHAT)
    with bulletin.attach(ANNA, CHAT, visible=True):
        assert bulletin.watched(ANNA, CHAT)
    assert not bulletin.watched(ANNA, CHAT)
