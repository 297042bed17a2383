"""Messages that wait their turn."""

import pytest

from app.core.errors import Busy, Invalid, NotFound, NotOpen
from app.core.ids import MessageId
from app.store import chats, messages
from tests.replies.house import House, says, stranger, until


async def test_a_message_sent_while_a_reply_runs_waits_and_then_gets_its_own(house: House):
    talk = await house.start("First")
    call = await house.puppet.asked()
    first = talk.live
    second = await talk.send("Second", sampling={"temperature": 0.1})
    third = await talk.send("Third")
    assert second.queued
    assert second.reply is None
    call.say("One").end()
    await until(lambda: first.feed.closed)
    finished = first.state.finished
    assert finished is not None
    assert finished.next is not None
    call = await house.puppet.asked(2)
    assert [m.role for m in call.request.messages] == ["user", "assistant", "user"]
    assert call.request.messages[-1].text.endswith("Second")
    assert call.request.sampling == {"temperature": 0.1}
    row = await house.row(finished.next)
    assert row.input == second.message.id
    async with house.db.read() as s:
        assert [m.id for m in await messages.queued(s, talk.chat)] == [third.message.id]
    call.say("Two").end()
    await house.puppet.asked(3)
    async with house.db.read() as s:
        shown = await messages.branch(s, await chats.owned(s, talk.chat, house.user))
    assert [m.text for m in shown] == ["First", "One", "Second", "Two", "Third"]


@pytest.mark.parametrize("how", ["stopped", "failed"])
async def test_after_anything_but_a_whole_reply_it_stays_with_send_now(house: House, how: str):
    talk = await house.start("First")
    call = await house.puppet.asked()
    first = talk.reply
    queued = await talk.send("Second")
    if how == "stopped":
        await house.registry.stop(first)
    else:
        call.say("Half").end(None)
        await house.ended(first)
    assert house.registry.running == 0
    sent = await house.accepting.send_now(house.user, queued.message.id)
    assert sent.reply is not None
    again = await house.accepting.send_now(house.user, queued.message.id)
    assert again.reply is not None
    assert again.reply.id == sent.reply.id
    await house.puppet.asked(2)
    assert house.registry.running == 1


async def test_send_now_waits_for_the_lane(house: House):
    talk = await house.start()
    running = talk.reply
    queued = await talk.send("Second")
    with pytest.raises(Busy) as refused:
        await house.accepting.send_now(house.user, queued.message.id)
    assert refused.value.reply == running


async def test_a_waiting_message_can_be_edited_and_removed(house: House):
    talk = await house.start()
    first, second = await talk.send("Secnd"), await talk.send("Third")
    changed = await house.accepting.edit_queued(house.user, first.message.id, "Second")
    assert changed.text == "Second"
    await house.accepting.remove_queued(house.user, second.message.id)
    async with house.db.read() as s:
        assert [m.text for m in await messages.queued(s, talk.chat)] == ["Second"]
    with pytest.raises(Invalid):
        await house.accepting.edit_queued(house.user, first.message.id, "  ")
    with pytest.raises(NotFound):
        await house.accepting.remove_queued(house.user, second.message.id)


async def test_a_message_that_was_sent_cannot_be_changed_any_more(house: House):
    talk = await house.start()
    with pytest.raises(NotOpen):
        await house.accepting.edit_queued(house.user, talk.input, "Other words")
    with pytest.raises(NotOpen):
        await house.accepting.remove_queued(house.user, talk.input)


async def test_somebody_elses_waiting_message_does_not_exist(house: House):
    talk = await house.start()
    queued, bert = await talk.send("Second"), await stranger(house)
    for verb in (house.accepting.send_now, house.accepting.remove_queued):
        with pytest.raises(NotFound):
            await verb(bert, queued.message.id)


async def test_the_queue_is_told_to_every_page(house: House):
    talk = await house.start()
    follower = house.bulletin.attach(house.user)
    queued = await talk.send("Second")
    await house.accepting.edit_queued(house.user, queued.message.id, "Changed")
    await house.accepting.remove_queued(house.user, queued.message.id)
    told = [n.data for n in follower.take()[1] if n.kind == "queue"]
    texts = [[m["parts"][0]["text"] for m in data["messages"]] for data in told]
    assert texts == [["Second"], ["Changed"], []]
    assert {data["chat"] for data in told} == {talk.chat}


async def test_what_waits_in_one_chat_does_not_wait_for_another(house: House):
    await house.start()
    other = await house.start()
    house.puppet.will(says("x"))
    assert not other.accepted.queued
    assert house.registry.running == 2
    assert other.input != MessageId("")
