"""Regenerate and Continue: another reply to the same input."""

import pytest

from app.core.errors import Busy, KeyRefused, NotOpen, Overloaded
from app.core.ids import ReplyId
from app.store import ledger
from tests.replies.house import House, says, until


async def test_regenerate_makes_a_sibling(house: House):
    house.puppet.will(says("One"), says("Two"))
    talk = await house.start()
    await talk.ended()
    second = await house.accepting.regenerate(house.user, talk.reply, "k1")
    await house.ended(second)
    assert (second.input, second.after) == (talk.input, talk.input)
    (one,), (two,) = await house.written(talk.reply), await house.written(second)
    assert two.siblings == (one.id, two.id)
    assert (await house.accepting.regenerate(house.user, talk.reply, "k1")).id == second.id


async def test_regenerating_the_running_reply_stops_it_first(house: House):
    talk = await house.start()
    (await house.puppet.asked()).say("Half")
    await talk.shows("Half")
    second = await house.accepting.regenerate(house.user, talk.reply, None)
    assert (await house.row(talk.reply)).phase == "stopped"
    assert house.puppet.calls[0].closed
    assert house.live(second).state.phase == "running"


async def test_regenerating_another_reply_than_the_running_one_is_refused(house: House):
    house.puppet.will(says("One"))
    talk = await house.start()
    await talk.ended()
    first = talk.reply
    await talk.send("Next")
    for verb in (house.accepting.regenerate, house.accepting.resume_from):
        with pytest.raises(Busy) as refused:
            await verb(house.user, first, None)
        assert refused.value.reply == talk.reply


async def test_continue_begins_with_the_kept_text(house: House):
    talk = await house.start("Count to four")
    (await house.puppet.asked()).say("One, two,").end(None)
    assert (await talk.ended()).state.phase == "failed"
    second = await house.accepting.resume_from(house.user, talk.reply, "k1")
    call = await house.puppet.asked(2)
    live = house.live(second)
    await until(lambda: live.state.text == "One, two,")
    assert [m.role for m in call.request.messages] == ["user", "assistant", "user"]
    assert call.request.messages[1].text == "One, two,"
    assert call.request.messages[2].by_application
    call.say(" three, four").end()
    await house.ended(second)
    (cut,), (whole,) = await house.written(talk.reply), await house.written(second)
    assert (cut.text, whole.text) == ("One, two,", "One, two, three, four")
    assert whole.siblings == (cut.id, whole.id)
    assert (await house.row(talk.reply)).phase == "failed"


async def test_a_continuation_can_be_continued(house: House):
    talk = await house.start()
    (await house.puppet.asked()).say("a").end("max_tokens")
    await talk.ended()
    second = await house.accepting.resume_from(house.user, talk.reply, None)
    (await house.puppet.asked(2)).say("b").end("max_tokens")
    await house.ended(second)
    third = await house.accepting.resume_from(house.user, ReplyId(second.id), None)
    (await house.puppet.asked(3)).say("c").end()
    assert (await house.ended(third)).state.text == "abc"


async def test_a_whole_reply_cannot_be_continued(house: House):
    house.puppet.will(says("All of it"))
    talk = await house.start()
    await talk.ended()
    with pytest.raises(NotOpen):
        await house.accepting.resume_from(house.user, talk.reply, None)


async def test_a_continuation_goes_on_below_finished_rounds(house: House):
    house.puppet.will(lambda call: call.say("Let me see. ").call("c1").end("tool_use"))
    talk = await house.start()
    (await house.puppet.asked(2)).say("It is").end(None)
    await talk.ended()
    second = await house.accepting.resume_from(house.user, talk.reply, None)
    call = await house.puppet.asked(3)
    assert [m.role for m in call.request.messages] == ["user", "assistant", "tool", "assistant", "user"]
    call.say(" sunny.").end()
    await house.ended(second)
    old, (new,) = await house.written(talk.reply), await house.written(second)
    assert new.text == "It is sunny."
    assert (new.parent, new.siblings) == (old[1].id, (old[2].id, new.id))


async def test_a_continuation_that_is_turned_down_keeps_the_text(house: House):
    talk = await house.start()
    (await house.puppet.asked()).say("Half").end(None)
    await talk.ended()
    house.puppet.will(lambda call: call.give(KeyRefused("Refused.")))
    second = await house.accepting.resume_from(house.user, talk.reply, None)
    assert (await house.ended(second)).state.phase == "failed"
    assert [m.text for m in await house.written(second)] == ["Half"]
    async with house.db.read() as s:
        (total,) = await ledger.sums(s, house.user)
    assert total.calls == 1


async def test_a_continuation_is_tried_again_while_nothing_new_was_shown(house: House):
    talk = await house.start()
    (await house.puppet.asked()).say("Half").end(None)
    await talk.ended()
    house.puppet.will(lambda call: call.give(Overloaded("Busy.")), says(" and half"))
    second = await house.accepting.resume_from(house.user, talk.reply, None)
    assert (await house.ended(second)).state.text == "Half and half"
