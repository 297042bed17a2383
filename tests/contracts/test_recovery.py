"""Every state in which a reply can be found after `kill -9`, and what becomes of it.

The process is not killed here (tests/faults does that); a second house is opened on a copy of what is on disk at
that moment, which is the same.
"""

import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from app.core.errors import DiskFull, StorageBusy
from app.core.events import Finished
from app.core.ids import ChatId, ReplyId, RunId, new_id, new_run
from app.core.messages import ReasoningPart
from app.core.state import ReplyState
from app.replies.ended import folded
from app.replies.log import spread
from app.store import chats, events, ledger, messages, replies
from tests.replies.house import QUICK, House, Talk, opened, restarted, until


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with opened(tmp_path / "data") as house:
        yield house


def on_disk(house: House, talk: Talk) -> list[str]:
    """The types of the events in the log file of the running reply."""
    return [entry.event.type for entry in house.logs.read(talk.reply, talk.live.run)]


async def written_out(house: House, talk: Talk) -> None:
    """Everything that was emitted is in the file."""
    await until(lambda: len(on_disk(house, talk)) == len(talk.live.feed.entries))


async def nothing_asked(house: House) -> Talk:
    """Killed right after the answer to the post."""
    house.models.held.clear()
    return await house.start("Hello")


async def silent(house: House) -> Talk:
    """Killed while the endpoint had not said a word."""
    talk = await house.start("Hello")
    await house.puppet.asked()
    await until(lambda: talk.live.state.rounds)
    return talk


async def nothing_of_the_next_round(house: House) -> Talk:
    """Killed after a round with its results, before anything of the next was shown."""
    house.puppet.will(lambda call: call.say("Let me see. ").call("c1").count(50, 5).end("tool_use"))
    talk = await house.start("Hello")
    await house.puppet.asked(2)
    await until(lambda: len(talk.live.state.rounds) == 2)
    await until(lambda: "tool_result" in on_disk(house, talk))
    return talk


RESUMED: list[Callable[[House], Awaitable[Talk]]] = [nothing_asked, silent, nothing_of_the_next_round]


@pytest.mark.parametrize("found", RESUMED)
async def test_a_reply_of_whose_running_round_nothing_was_shown_goes_on(house: House, tmp_path: Path, found):
    talk = await found(house)
    shown = talk.live.state.text
    async with restarted(house, tmp_path / "later") as later:
        call = await later.puppet.asked()
        live = later.live(talk.reply)
        assert live.state.text == shown
        assert live.run != talk.live.run
        call.say("Here it is.").end()
        assert (await later.ended(talk.reply)).state.text == shown + "Here it is."
        row = await later.row(talk.reply)
        assert (row.phase, row.resumed) == ("complete", 1)
        assert "".join(m.text for m in await later.written(talk.reply)) == shown + "Here it is."
        await the_log_tells_the_same(later, talk.reply)


async def test_a_finished_round_is_not_asked_for_again(house: House, tmp_path: Path):
    talk = await nothing_of_the_next_round(house)
    async with restarted(house, tmp_path / "later") as later:
        call = await later.puppet.asked()
        assert [m.role for m in call.request.messages] == ["user", "assistant", "tool"]
        before = house.puppet.calls[1].request
        assert call.request.messages[0].text == before.messages[0].text  # the situation of the turn stays
        call.say("Done").count(80, 8).end()
        usage = (await later.ended(talk.reply)).state.usage
        assert usage is not None
        assert (usage.input_tokens, usage.output_tokens) == (130, 13)
        async with later.db.read() as s:
            (total,) = await ledger.sums(s, later.user)
        assert total.calls == 2


async def test_a_round_that_was_stored_before_the_log_was_written_out_is_not_lost(tmp_path: Path):
    """Killed within the quarter second after its commit: the log has the beginning of the round alone."""
    async with opened(tmp_path / "data", settings=replace(QUICK, flush_every=60.0)) as house:
        house.puppet.will(lambda call: call.say("Let me see. ").call("c1").count(50, 5).end("tool_use"))
        talk = await house.start("Hello")
        await house.puppet.asked(2)
        assert on_disk(house, talk)[-1] == "text"
        async with restarted(house, tmp_path / "later", flush_every=0.01) as later:
            call = await later.puppet.asked()
            assert [m.role for m in call.request.messages] == ["user", "assistant", "tool"]
            call.say("Here it is.").count(80, 8).end()
            state = (await later.ended(talk.reply)).state
            assert (state.phase, state.text) == ("complete", "Let me see. Here it is.")
            assert state.usage is not None
            assert (state.usage.input_tokens, state.usage.output_tokens) == (130, 13)
            await the_log_tells_the_same(later, talk.reply)


async def test_a_reply_is_resumed_only_so_often(house: House, tmp_path: Path):
    talk = await silent(house)
    path = house.folder.path
    for number in range(house.settings.resumes):
        copy = tmp_path / str(number)
        shutil.copytree(path, copy)
        async with opened(copy) as again:
            await again.recovery.run()
            await again.puppet.asked()
            assert (await again.row(talk.reply)).resumed == number + 1
        path = copy
    shutil.copytree(path, tmp_path / "last")
    async with opened(tmp_path / "last") as last:
        await last.recovery.run()
        row = await last.row(talk.reply)
        assert row.phase == "interrupted"
        assert row.error is not None
        assert "several times" in row.error["text"]
        assert last.puppet.calls == []


async def half_an_answer(house: House) -> Talk:
    """Killed in the middle of the text."""
    talk = await house.start("Hello")
    (await house.puppet.asked()).think("Hm. ").say("Half an ", "ans")
    await talk.shows("Half an ans")
    await written_out(house, talk)
    return talk


async def half_a_second_round(house: House) -> Talk:
    """Killed in the middle of the text of a later round."""
    house.puppet.will(lambda call: call.say("Let me see. ").call("c1").end("tool_use"))
    talk = await house.start("Hello")
    (await house.puppet.asked(2)).say("It is")
    await talk.shows("Let me see. It is")
    await written_out(house, talk)
    return talk


async def a_call_without_a_result(house: House) -> Talk:
    """Killed when a call was asked for."""
    talk = await house.start("Hello")
    (await house.puppet.asked()).say("Let me see. ").call("c1")
    await until(lambda: talk.live.state.rounds and talk.live.state.rounds[0].calls)
    await written_out(house, talk)
    return talk


INTERRUPTED = [half_an_answer, half_a_second_round, a_call_without_a_result]


@pytest.mark.parametrize("found", INTERRUPTED)
async def test_a_reply_that_had_shown_something_keeps_it_and_can_be_continued(
    house: House, tmp_path: Path, found
):
    talk = await found(house)
    shown, asked = talk.live.state.text, len(house.puppet.calls)
    async with restarted(house, tmp_path / "later") as later:
        row = await later.row(talk.reply)
        assert row.phase == "interrupted"
        assert row.error is not None
        assert row.error["actions"] == ["continue", "retry"]
        assert later.puppet.calls == []
        assert "".join(m.text for m in await later.written(talk.reply)) == shown
        await the_log_tells_the_same(later, talk.reply)
        async with later.db.read() as s:
            (total,) = await ledger.sums(s, later.user)
        assert (total.calls, total.estimated) == (asked, True)
        second = await later.accepting.resume_from(later.user, talk.reply, None)
        call = await later.puppet.asked()
        assert await _every_call_is_answered(call.request.messages)
        call.say("wer").end()
        assert (await later.ended(second)).state.phase == "complete"


async def _every_call_is_answered(sent) -> bool:
    asked = [part.id for message in sent for part in message.calls]
    answered = [part.id for message in sent if message.role == "tool" for part in message.parts]
    return asked == answered


async def test_the_call_of_a_killed_process_is_recorded_as_interrupted(house: House, tmp_path: Path):
    talk = await a_call_without_a_result(house)
    async with restarted(house, tmp_path / "later") as later:
        _, answered = await later.written(talk.reply)
        assert [(part.id, part.outcome) for part in answered.parts] == [("c1", "interrupted")]  # type: ignore[union-attr]


async def test_what_a_killed_call_has_cost_is_known_though_its_model_is_switched_off(tmp_path: Path):
    async with opened(tmp_path / "data", model={"price_input": 1.0, "price_output": 2.0}) as house:
        await half_an_answer(house)
        shutil.copytree(house.folder.path, tmp_path / "later")
    async with opened(tmp_path / "later") as later:
        later.models.gone = True
        await later.recovery.run()
        async with later.db.read() as s:
            (total,) = await ledger.sums(s, later.user)
        assert total.cost


async def test_thoughts_are_kept_with_their_time(house: House, tmp_path: Path):
    talk = await half_an_answer(house)
    async with restarted(house, tmp_path / "later") as later:
        (message,) = await later.written(talk.reply)
        assert isinstance(message.parts[0], ReasoningPart)
        assert message.parts[0].text == "Hm. "


async def test_a_follower_ahead_of_the_log_is_told_another_run(house: House, tmp_path: Path):
    """It may have seen more than was on disk: its number must mean nothing after the restart."""
    talk = await half_an_answer(house)
    async with restarted(house, tmp_path / "later") as later:
        source = await later.registry.follow_source(talk.reply, later.user)
        assert source.run != talk.live.run
        assert source.state.phase == "interrupted"


async def a_whole_answer_without_its_outcome(house: House) -> Talk:
    """Killed between the end of the model's answer and the commit of the outcome."""
    talk = await house.start("Hello")
    call = await house.puppet.asked()
    house.finish._db = Locked()  # type: ignore[assignment]
    call.say("All of it").count(10, 3).end()
    await until(lambda: talk.live.state.rounds[0].ended)
    await written_out(house, talk)
    return talk


class Locked:
    """A database that somebody else holds for as long as the test lasts."""

    async def write(self, fn):
        raise StorageBusy("Busy.")


async def test_a_whole_answer_is_complete(house: House, tmp_path: Path):
    talk = await a_whole_answer_without_its_outcome(house)
    async with restarted(house, tmp_path / "later") as later:
        row = await later.row(talk.reply)
        assert (row.phase, row.stop_reason, row.error) == ("complete", "end_turn", None)
        (message,) = await later.written(talk.reply)
        assert (message.text, message.stop_reason) == ("All of it", "end_turn")
        await the_log_tells_the_same(later, talk.reply)
        async with later.db.read() as s:
            (total,) = await ledger.sums(s, later.user)
        assert (total.calls, total.output_tokens, total.estimated) == (1, 3, False)


async def test_a_failure_that_was_told_stays_one(house: House, tmp_path: Path):
    talk = await house.start("Hello")
    call = await house.puppet.asked()
    house.finish._db = Locked()  # type: ignore[assignment]
    call.say("Half").end(None)
    await until(lambda: talk.live.state.error)
    await written_out(house, talk)
    async with restarted(house, tmp_path / "later") as later:
        row = await later.row(talk.reply)
        assert row.phase == "failed"
        assert row.error is not None
        assert row.error["code"] == "broken-stream"
        await the_log_tells_the_same(later, talk.reply)


# --- what waits, and what lies about ----------------------------------------------------------------------


async def test_the_queue_goes_on_only_behind_a_resumed_reply(house: House, tmp_path: Path):
    going_on, cut = await silent(house), await house.start("Hello")
    (await house.puppet.asked(2)).say("Half")
    await cut.shows("Half")
    cut_reply, resumed_reply = cut.reply, going_on.reply
    await going_on.send("Next")
    await cut.send("Next")
    async with restarted(house, tmp_path / "later") as later:
        (await later.puppet.asked()).say("Hi").end()
        await later.ended(resumed_reply)
        await later.puppet.asked(2)
        assert later.registry.running == 1
        assert (await later.row(cut_reply)).phase == "interrupted"
        async with later.db.read() as s:
            assert len(await messages.queued(s, cut.chat)) == 1
            assert len(await messages.queued(s, going_on.chat)) == 0


async def test_a_whole_answer_found_does_not_start_what_waited(house: House, tmp_path: Path):
    talk = await a_whole_answer_without_its_outcome(house)
    await talk.send("Next")
    async with restarted(house, tmp_path / "later") as later:
        assert later.registry.running == 0


async def test_logs_of_nothing_are_cleared_away(house: House, tmp_path: Path):
    await half_an_answer(house)
    (house.folder.live / f"{new_id()}-{new_run()}.log").write_bytes(b"[1,1,")
    async with restarted(house, tmp_path / "later") as later:
        assert later.logs.names() == []


async def test_a_log_that_is_gone_costs_the_running_round_alone(house: House, tmp_path: Path):
    """A backup holds no logs: what was stored is whole, the rest is written anew."""
    talk = await half_a_second_round(house)
    shutil.copytree(house.folder.path, tmp_path / "later", ignore=lambda *_: ["live"])
    async with opened(tmp_path / "later") as later:
        await later.recovery.run()
        call = await later.puppet.asked()
        assert [m.role for m in call.request.messages] == ["user", "assistant", "tool"]
        call.say("Anew").end()
        state = (await later.ended(talk.reply)).state
        assert state.text == "Let me see. Anew"
        await the_log_tells_the_same(later, talk.reply)


async def test_a_torn_log_keeps_what_is_whole(house: House, tmp_path: Path):
    talk = await half_an_answer(house)
    (path,) = house.logs.names()
    with path.open("ab") as file:
        file.write(b'[7,9,1,123,"text",{"te')
    async with restarted(house, tmp_path / "later") as later:
        assert "".join(m.text for m in await later.written(talk.reply)) == "Half an ans"


async def test_an_event_that_no_version_knows_ends_the_log_and_not_the_reply(house: House, tmp_path: Path):
    talk = await half_an_answer(house)
    (path,) = house.logs.names()
    with path.open("ab") as file:
        file.write(b'[%d,%d,1,123,"telepathy",{},null]\n' % ((len(talk.live.feed.entries) + 1,) * 2))
    async with restarted(house, tmp_path / "later") as later:
        assert (await later.row(talk.reply)).phase == "interrupted"
        assert "".join(m.text for m in await later.written(talk.reply)) == "Half an ans"


async def test_a_log_that_makes_no_sense_fails_the_reply_and_frees_its_chat(house: House, tmp_path: Path):
    talk = await half_an_answer(house)
    (path,) = house.logs.names()
    path.write_bytes(b'[1,1,0,123,"text",{"text":"before any round"},null]\n')
    async with restarted(house, tmp_path / "later") as later:
        assert (await later.row(talk.reply)).phase == "failed"
        async with later.db.read() as s:
            assert await replies.live_in(s, talk.chat) is None


async def test_a_start_that_is_told_to_stop_leaves_replies_to_the_next_one(house: House, tmp_path: Path):
    talk = await silent(house)
    shutil.copytree(house.folder.path, tmp_path / "later")
    async with opened(tmp_path / "later") as later:
        await later.registry.close(0.0)
        await later.recovery.run()
        assert (await later.row(talk.reply)).phase == "accepted"


async def test_starting_twice_settles_once(house: House, tmp_path: Path):
    talk = await half_an_answer(house)
    async with restarted(house, tmp_path / "later") as later:
        await later.recovery.run()
        async with later.db.read() as s:
            _, records = await events.read(s, talk.reply)
        assert sum(record.type == "finished" for record in records) == 1


async def test_a_chat_that_was_deleted_leaves_nothing_to_settle(house: House, tmp_path: Path):
    talk = await half_an_answer(house)
    shutil.copytree(house.folder.path, tmp_path / "copy")
    async with opened(tmp_path / "copy") as second:

        async def delete(s):
            await chats.delete(s, await chats.owned(s, talk.chat, second.user))

        await second.db.write(delete)
        await second.recovery.run()
        assert second.logs.names() == []


async def test_a_start_that_cannot_store_tries_again_and_loses_nothing(house: House, tmp_path: Path):
    talk = await half_an_answer(house)
    shutil.copytree(house.folder.path, tmp_path / "later")
    async with opened(tmp_path / "later", settings=replace(house.settings, storage_wait=0.005)) as later:
        real = later.finish._db
        later.finish._db = Full()  # type: ignore[assignment]
        await later.recovery.run()
        assert (await later.row(talk.reply)).phase == "accepted"
        assert later.logs.names()
        later.finish._db = real
        await until(lambda: not later.logs.names())
        assert (await later.row(talk.reply)).phase == "interrupted"
        assert "".join(m.text for m in await later.written(talk.reply)) == "Half an ans"


class Full:
    """A database on a full disk."""

    async def write(self, fn):
        raise DiskFull("Full.")


async def the_log_tells_the_same(house: House, reply: ReplyId) -> None:
    """The state folded from the stored events is the live one, with exactly one end."""
    async with house.db.read() as s:
        run, records = await events.read(s, reply)
        row = await replies.get(s, reply)
    assert row is not None
    assert run == row.run
    entries = list(spread(records))
    assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
    assert sum(isinstance(entry.event, Finished) for entry in entries) == 1
    state = folded(reply, ChatId(row.chat), RunId(row.run), entries)
    live = house.registry.find(reply)
    if live is not None:
        assert _plain(state) == _plain(live.state)


def _plain(state: ReplyState) -> ReplyState:
    for round in state.rounds:
        for segment in round.segments:
            getattr(segment, "text", None)
    return state
