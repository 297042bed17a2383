"""Starting, finding, following and stopping replies; one outcome whatever races."""

import asyncio
import random
from dataclasses import replace
from pathlib import Path

import pytest

from app.core.errors import Closing, NotFound, Overloaded, Superseded
from app.core.events import Finished, TextDelta
from app.core.ids import MessageId, ReplyId, RunId, new_id, new_run
from app.core.messages import TextPart
from app.store import chats, events, messages, replies
from tests.replies.house import QUICK, Call, House, Puppet, opened, says, stranger, until


async def test_starting_twice_attaches_to_the_running_one(house: House):
    talk = await house.start()
    row = await house.row(talk.reply)
    assert house.registry.start(row, house.user) is talk.live
    await house.puppet.asked()
    assert house.registry.running == 1


async def test_a_follower_leaving_does_not_stop_the_reply(house: House):
    talk = await house.start()
    call = await house.puppet.asked()
    live = talk.live
    follower = asyncio.ensure_future(live.feed.wait(live.state.seq, live.feed.passing_count))
    await asyncio.sleep(0)
    follower.cancel()
    call.say("Still here").end()
    assert (await talk.ended()).state.text == "Still here"


async def test_stop_keeps_what_was_written_and_closes_the_connection(house: House):
    talk = await house.start()
    call = await house.puppet.asked()
    call.say("Half an ans")
    await talk.shows("Half an ans")
    await house.registry.stop(talk.reply)
    assert call.closed
    row = await house.row(talk.reply)
    assert (row.phase, row.stop_reason) == ("stopped", None)
    (message,) = await house.written(talk.reply)
    assert message.parts == (TextPart("Half an ans"),)
    assert talk.live.state.phase == "stopped"


async def test_stop_before_the_first_step(house: House):
    async def write(s):
        chat = await _chat(s, house)
        return await replies.create(
            s, chat=chat[0], input=chat[1], after=chat[1], run=new_run(), model=None, sampling={}
        )

    row = await house.db.write(write)
    live = house.registry.start(row, house.user)
    stopping = asyncio.ensure_future(house.registry.stop(ReplyId(row.id)))
    await stopping
    assert live.state.phase == "stopped"
    assert house.puppet.calls == []
    assert (await house.row(row)).phase == "stopped"


async def _chat(s, house: House):
    chat = await chats.create(s, house.user)
    message = await messages.insert(
        s, chat, id=MessageId(new_id()), parent=None, role="user", parts=[TextPart("Hi")]
    )
    return chat.id, message.id


async def test_stop_while_it_is_being_prepared(house: House):
    house.models.held.clear()
    talk = await house.start()
    await until(lambda: talk.live.state.passing.status == "Preparing")
    await house.registry.stop(talk.reply)
    house.models.held.set()
    assert (await house.row(talk.reply)).phase == "stopped"
    assert house.puppet.calls == []


async def test_stop_while_the_endpoint_is_silent(house: House):
    talk = await house.start()
    await until(lambda: talk.live.state.passing.status == "Waiting for Puppets")
    await house.registry.stop(talk.reply)
    assert house.puppet.calls[0].closed
    assert (await house.row(talk.reply)).phase == "stopped"
    assert await house.written(talk.reply) == []


async def test_stop_while_it_waits_to_try_again(tmp_path: Path):
    settings = replace(QUICK, first_wait=30.0)
    async with opened(tmp_path / "data", settings=settings) as house:
        house.puppet.will(lambda call: call.give(Overloaded("Puppets is busy.")))
        talk = await house.start()
        await until(lambda: "Trying again" in talk.live.state.passing.status)
        await house.registry.stop(talk.reply)
        assert (await house.row(talk.reply)).phase == "stopped"


async def test_stop_on_an_ended_reply_changes_nothing(house: House):
    house.puppet.will(says("All of it"))
    talk = await house.start()
    before = len((await talk.ended()).feed.entries)
    await house.registry.stop(talk.reply)
    await house.registry.stop(ReplyId(new_id()))
    assert len(talk.live.feed.entries) == before
    assert (await house.row(talk.reply)).phase == "complete"


async def test_stop_pressed_many_times_at_once(house: House):
    talk = await house.start()
    await house.puppet.asked()
    await asyncio.gather(*(house.registry.stop(talk.reply) for _ in range(20)))
    assert sum(isinstance(entry.event, Finished) for entry in talk.live.feed.entries) == 1


class Stubborn(Puppet):
    """Its connection takes long to close."""

    async def stream(self, request):
        call = Call(request)
        self.calls.append(call)
        yield await call._next.get()
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.shield(asyncio.sleep(5))


async def test_an_endpoint_that_does_not_let_go_does_not_hold_up_the_outcome(tmp_path: Path):
    async with opened(tmp_path / "data", puppet=Stubborn()) as house:
        talk = await house.start()
        (await house.puppet.asked()).say("Hm")
        await talk.shows("Hm")
        async with asyncio.timeout(2):
            await house.registry.stop(talk.reply)
        assert (await house.row(talk.reply)).phase == "stopped"


async def test_stop_and_the_end_race_and_give_one_outcome(house: House):
    """At random moments around the end: the database, the feed and the log agree, and there is one outcome."""
    dice = random.Random(7)
    for _ in range(40):
        count = len(house.puppet.calls)
        talk = await house.start()
        call = await house.puppet.asked(count + 1)
        call.say("some text").end()
        await asyncio.sleep(dice.uniform(0, 0.006))
        await asyncio.gather(house.registry.stop(talk.reply), house.registry.stop(talk.reply))
        row, live = await house.row(talk.reply), talk.live
        assert live.feed.closed
        finished = [entry.event for entry in live.feed.entries if isinstance(entry.event, Finished)]
        assert [event.state for event in finished] == [row.phase]
        assert row.phase in ("complete", "stopped")
        shown = live.state.text
        assert "".join(m.text for m in await house.written(talk.reply)) == shown


async def test_a_run_that_lost_its_token_writes_nothing_more(house: House):
    talk = await house.start()
    call = await house.puppet.asked()
    call.say("From the old run")
    await talk.shows("From the old run")
    live = talk.live
    await house.db.write(lambda s: replies.claim_run(s, talk.reply, RunId("another")))
    call.end()
    await until(lambda: live.feed.closed)
    assert live.state.finished is None
    assert await house.written(talk.reply) == []
    assert (await house.row(talk.reply)).phase == "accepted"
    with pytest.raises(Superseded):
        live.emit(TextDelta("too late"))


async def test_a_fault_of_our_own_fails_the_reply_and_is_told_calmly(house: House, caplog):
    house.puppet.will(lambda call: call.give(ZeroDivisionError("a bug")))
    talk = await house.start()
    state = (await talk.ended()).state
    assert state.phase == "failed"
    assert state.error is not None
    assert "went wrong in Nightdesk" in state.error.text
    assert "a bug" in caplog.text


async def test_an_ended_reply_is_kept_a_while_and_then_read_from_the_store(tmp_path: Path):
    async with opened(tmp_path / "data", settings=replace(QUICK, keep_finished=0.05)) as house:
        house.puppet.will(lambda call: call.think("Hm").say("a", "b").end())
        talk = await house.start()
        live = await talk.ended()
        await until(lambda: house.registry.find(talk.reply) is None)
        source = await house.registry.follow_source(talk.reply, house.user)
        assert source.run == live.run
        assert source.feed.closed
        assert _plain(source.state) == _plain(live.state)
        assert [entry.event for entry in source.feed.entries] == [entry.event for entry in live.feed.entries]


async def test_a_source_is_its_owners_alone(house: House):
    house.puppet.will(says("Hi"))
    talk = await house.start()
    await talk.ended()
    running = await house.start()
    bert = await stranger(house)
    for reply in (talk.reply, running.reply, ReplyId(new_id())):
        with pytest.raises(NotFound):
            await house.registry.follow_source(reply, bert)
    assert await house.registry.follow_source(running.reply, house.user) is running.live


async def test_an_ended_reply_never_makes_its_chat_look_busy(house: House):
    house.puppet.will(says("Hi"), says("Ho"))
    talk = await house.start()
    await talk.ended()
    assert house.registry.running == 0
    assert not (await talk.send("Next")).queued


async def test_closing_lets_running_replies_end_within_the_drain(tmp_path: Path):
    async with opened(tmp_path / "data") as house:
        talk = await house.start()
        call = await house.puppet.asked()
        closing = asyncio.ensure_future(house.registry.close(5.0))
        await asyncio.sleep(0.01)
        call.say("Just in time").end()
        await closing
        assert (await house.row(talk.reply)).phase == "complete"


async def test_closing_is_not_the_owners_stop(tmp_path: Path):
    async with opened(tmp_path / "data") as house:
        talk = await house.start()
        (await house.puppet.asked()).say("Half")
        await talk.shows("Half")
        live = talk.live
        await house.registry.close(0.0)
        assert (await house.row(talk.reply)).phase == "accepted"
        assert live.feed.closed
        assert house.puppet.calls[0].closed
        kept = house.logs.read(talk.reply, live.run)
        assert [entry.event for entry in kept] == [entry.event for entry in live.feed.entries]
        with pytest.raises(Closing):
            house.registry.start(await house.row(talk.reply), house.user)


async def test_while_closing_the_queue_waits(tmp_path: Path):
    async with opened(tmp_path / "data") as house:
        talk = await house.start()
        call = await house.puppet.asked()
        first = talk.reply
        await talk.send("Next")
        closing = asyncio.ensure_future(house.registry.close(5.0))
        await asyncio.sleep(0.01)
        call.say("Done").end()
        await closing
        assert (await house.row(first)).phase == "complete"
        async with house.db.read() as s:
            assert await replies.live_in(s, talk.chat) is None


async def test_everything_of_a_person_can_be_stopped(house: House):
    first, second = await house.start(), await house.start()
    house.user = await stranger(house)
    other = await house.start()
    await house.puppet.asked(3)
    await house.registry.stop_all(user=first.live.user)
    assert first.live.state.phase == second.live.state.phase == "stopped"
    assert house.registry.running == 1
    await house.registry.stop_all(model=house.models.model.id)
    assert other.live.state.phase == "stopped"


async def test_no_session_is_open_while_the_model_is_waited_for(house: House):
    """Not one connection is held: every reader and the writer are free while twenty replies stream."""
    for _ in range(20):
        await house.start()
    await house.puppet.asked(20)
    async with asyncio.timeout(5):
        for _ in range(10):
            async with house.db.read() as s:
                await replies.left_over(s)


async def test_the_log_of_an_ended_reply_is_in_the_database_and_gone_from_the_folder(house: House):
    house.puppet.will(says("Hello"))
    talk = await house.start()
    live = await talk.ended()
    await until(lambda: not house.logs.names())
    async with house.db.read() as s:
        run, records = await events.read(s, talk.reply)
    assert run == live.run
    assert [r.type for r in records][-1] == "finished"
    assert records[-1].seq == live.state.seq


def _plain(state):
    """A state with its deltas joined: how they were cut is not part of what is the same."""
    for round in state.rounds:
        for segment in round.segments:
            segment.text  # noqa: B018 - joins them
    return state
