"""The outcome: stored once, with everything that changes in the same moment."""

import asyncio
import sqlite3
from pathlib import Path

import pytest

from app.core.errors import DiskFull, StorageBusy
from app.core.events import Finished
from app.core.ids import RunId
from app.store import chats, messages, replies
from app.store.engine import Database, Session
from tests.replies.house import House, opened, restarted, says, until


async def _chat(house: House, chat_id):
    async with house.db.read() as s:
        return await chats.owned(s, chat_id, house.user)


async def test_finished_is_told_only_after_the_outcome_is_stored(house: House):
    talk = await house.start()
    call = await house.puppet.asked()
    live = talk.live
    phases: list[str] = []

    def note() -> None:
        if live.state.finished is not None and not phases:
            phases.append(_phase_on_disk(house, talk.reply))

    live.feed.watch(note)
    call.say("Hi").end()
    await talk.ended()
    assert phases == ["complete"]


def _phase_on_disk(house: House, reply: str) -> str:
    with sqlite3.connect(house.folder.database) as db:
        return db.execute("SELECT phase FROM reply WHERE id = ?", (reply,)).fetchone()[0]


async def test_a_reply_that_ends_unseen_marks_its_chat_and_is_announced(house: House):
    follower = house.bulletin.attach(house.user)
    house.puppet.will(says("Hi"))
    talk = await house.start("Hello")
    await talk.ended()
    assert (await _chat(house, talk.chat)).unread
    _, news = follower.take()
    (toast,) = [n.data for n in news if n.kind == "toast"]
    assert toast == {"chat": talk.chat, "title": "Hello", "state": "complete"}


async def test_a_reply_that_somebody_sees_end_leaves_no_mark(house: House):
    talk = await house.start()
    follower = house.bulletin.attach(house.user, talk.chat, visible=True)
    (await house.puppet.asked()).say("Hi").end()
    await talk.ended()
    assert not (await _chat(house, talk.chat)).unread
    assert not [n for n in follower.take()[1] if n.kind == "toast"]


async def test_a_stopped_reply_is_no_news(house: House):
    talk = await house.start()
    await house.registry.stop(talk.reply)
    assert not (await _chat(house, talk.chat)).unread


async def test_a_temporary_chat_is_never_announced_nor_named(house: House):
    house.models.titles.append("A title")
    follower = house.bulletin.attach(house.user)
    house.puppet.will(says("Hi"))
    talk = await house.start("Hello", temporary=True)
    await talk.ended()
    assert not (await _chat(house, talk.chat)).unread
    assert not [n for n in follower.take()[1] if n.kind == "toast"]
    assert house.models.asked == []


async def test_a_person_hears_of_a_reply_from_start_to_end(house: House):
    follower = house.bulletin.attach(house.user)
    house.puppet.will(says("Hi"))
    talk = await house.start()
    await talk.ended()
    news = [n.data for n in follower.take()[1] if n.kind == "reply"]
    assert news == [
        {"id": talk.reply, "chat": talk.chat, "state": "running"},
        {"id": talk.reply, "chat": talk.chat, "state": "complete"},
    ]


async def test_the_branch_follows_only_while_it_is_the_one_that_is_shown(house: House):
    house.puppet.will(says("One"))
    talk = await house.start("First")
    await talk.ended()
    first = talk.input
    await talk.send("Second", parent=None, parent_given=True)
    await house.accepting.choose_branch(house.user, talk.chat, first)
    (await house.puppet.asked(2)).say("Two").end()
    await talk.ended()
    async with house.db.read() as s:
        shown = await messages.branch(s, await chats.owned(s, talk.chat, house.user))
    assert [m.text for m in shown] == ["First", "One"]


class Faulty:
    """A database whose writes fail so often before they work again."""

    def __init__(self, db: Database, *faults: Exception) -> None:
        self._db = db
        self.faults = list(faults)

    async def write(self, fn):
        if self.faults:
            raise self.faults.pop(0)
        return await self._db.write(fn)


async def test_an_outcome_that_cannot_be_stored_is_tried_until_it_can(house: House):
    talk = await house.start()
    call = await house.puppet.asked()
    house.finish._db = Faulty(house.db, DiskFull("Full."), StorageBusy("Busy."), DiskFull("Full."))  # type: ignore[assignment]
    call.say("Kept").end()
    live = talk.live
    await until(lambda: live.state.passing.status == "Waiting until the server can save this")
    assert live.state.finished is None
    await talk.ended()
    assert [m.text for m in await house.written(talk.reply)] == ["Kept"]
    assert sum(isinstance(e.event, Finished) for e in live.feed.entries) == 1


async def test_while_nothing_can_be_stored_the_server_still_stops(tmp_path: Path):
    async with opened(tmp_path / "data") as house:
        talk = await house.start()
        call = await house.puppet.asked()
        house.finish._db = Faulty(house.db, *[DiskFull("Full.")] * 10_000)  # type: ignore[assignment]
        call.say("Kept").end()
        live = talk.live
        await until(lambda: live.state.passing.status.startswith("Waiting until"))
        async with asyncio.timeout(5):
            await house.registry.close(0.0)
        kept = house.logs.read(talk.reply, live.run)
        assert "".join(getattr(e.event, "text", "") for e in kept if e.round == 1) == "Kept"


async def test_a_fault_of_our_own_in_the_outcome_still_frees_the_chat(house: House, caplog):
    talk = await house.start()
    call = await house.puppet.asked()
    house.finish._db = Faulty(house.db, ZeroDivisionError("a bug"))  # type: ignore[assignment]
    call.say("Hi").end()
    await talk.ended()
    assert (await house.row(talk.reply)).phase == "failed"
    assert "a bug" in caplog.text
    assert not (await talk.send("Next")).queued


async def test_saying_something_instead_fails_alone_when_it_cannot_be_stored(house: House):
    """The reply is stopped all the same; the message is refused, so that it stays with its writer."""
    talk = await house.start()
    (await house.puppet.asked()).say("Half")
    await talk.shows("Half")
    old = talk.reply
    house.finish._db = Faulty(house.db, DiskFull("Full."))  # type: ignore[assignment]
    with pytest.raises(DiskFull):
        await talk.send("Instead", busy="replace")
    assert (await house.row(old)).phase == "stopped"
    assert [m.text for m in await house.written(old)] == ["Half"]


async def test_what_is_asked_along_with_a_stop_may_fail_in_any_way_and_the_text_is_kept(house: House):
    talk = await house.start()
    (await house.puppet.asked()).say("Half")
    await talk.shows("Half")

    async def then(s: Session) -> None:
        raise ZeroDivisionError("a bug")

    with pytest.raises(ZeroDivisionError):
        await house.registry.stop_and(talk.reply, then)
    assert (await house.row(talk.reply)).phase == "stopped"
    assert [m.text for m in await house.written(talk.reply)] == ["Half"]


async def test_an_outcome_that_could_not_be_stored_at_all_is_left_to_the_next_start(
    house: House, tmp_path: Path
):
    talk = await house.start()
    call = await house.puppet.asked()
    house.finish._db = Faulty(house.db, ZeroDivisionError("a bug"), DiskFull("Full."))  # type: ignore[assignment]
    call.say("Kept").end()
    await talk.ended()
    async with restarted(house, tmp_path / "later") as later:
        assert (await later.row(talk.reply)).phase == "complete"
        assert [m.text for m in await later.written(talk.reply)] == ["Kept"]


class Slow:
    """A database whose next write waits until it is let through."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self.held = asyncio.Event()
        self.waiting = 0

    async def write(self, fn):
        self.waiting += 1
        await self.held.wait()
        return await self._db.write(fn)


async def test_stop_while_a_round_is_being_stored_stores_it_once(house: House):
    slow = house.finish._db = Slow(house.db)  # type: ignore[assignment]
    house.puppet.will(lambda call: call.say("Let me see.").call("c1").end("tool_use"))
    talk = await house.start()
    await until(lambda: slow.waiting)
    stopping = asyncio.ensure_future(house.registry.stop(talk.reply))
    await until(lambda: house.live(talk.reply).sealed)
    slow.held.set()
    await stopping
    assert (await house.row(talk.reply)).phase == "stopped"
    asked, answered = await house.written(talk.reply)
    assert (asked.text, answered.parent) == ("Let me see.", asked.id)
    assert [part.outcome for part in answered.parts] == ["stopped"]  # type: ignore[union-attr]


async def test_a_reply_between_two_calls_is_stopped_with_its_endpoint(house: House):
    slow = house.finish._db = Slow(house.db)  # type: ignore[assignment]
    house.puppet.will(lambda call: call.say("Let me see.").call("c1").end("tool_use"))
    talk = await house.start()
    await until(lambda: slow.waiting)
    stopping = asyncio.ensure_future(house.registry.stop_all(endpoint=house.models.endpoint.id))
    await until(lambda: house.live(talk.reply).sealed)
    slow.held.set()
    await stopping
    assert (await house.row(talk.reply)).phase == "stopped"
    assert len(house.puppet.calls) == 1


async def test_a_round_that_lost_its_token_is_no_error_of_the_server(house: House, caplog):
    house.puppet.will(lambda call: call.say("Let me see.").call("c1"))
    talk = await house.start()
    live = talk.live
    await talk.shows("Let me see.")
    await house.db.write(lambda s: replies.claim_run(s, talk.reply, RunId("another")))
    house.puppet.calls[0].end("tool_use")
    await until(lambda: live.feed.closed)
    assert await house.written(talk.reply) == []
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
