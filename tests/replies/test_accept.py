"""Taking input in: what is stored, what is refused, and what the same key gives."""

import asyncio
from pathlib import Path

import pytest

from app.core.errors import (
    Archived,
    Busy,
    Closing,
    Invalid,
    KeyReused,
    NotFound,
    TooLong,
    UnknownModel,
)
from app.core.ids import ChatId, FileId, MessageId, ModelId, new_id
from app.core.messages import FilePart
from app.replies.accept import NewMessage
from app.store import chats, drafts, files, messages, replies
from tests.replies.house import House, opened, restarted, says, stranger, until


async def test_what_is_accepted_is_in_the_database(house: House):
    talk = await house.start("Hello there")
    async with house.db.read() as s:
        assert [m.text for m in await messages.path_to(s, talk.input)] == ["Hello there"]
        assert (await replies.live_in(s, talk.chat)) is not None


async def test_the_same_key_gives_the_same_message_and_reply(house: House):
    talk = await house.start()
    house.puppet.will(says("One"), says("Two"))
    (await house.puppet.asked()).say("Hi").end()
    await talk.ended()
    first = await talk.send("Again", key="k1")
    await talk.ended()
    second = await talk.send("Again", key="k1")
    assert (second.message.id, second.reply and second.reply.id) == (
        first.message.id,
        first.reply and first.reply.id,
    )
    assert len(house.puppet.calls) == 2


async def test_a_new_chat_posted_twice_is_one_chat(house: House):
    new = NewMessage("Hello")
    first, once = await house.accepting.start_chat(house.user, new, "k1")
    second, twice = await house.accepting.start_chat(house.user, new, "k1")
    assert first.id == second.id
    assert once.message.id == twice.message.id
    assert house.registry.running == 1


async def test_the_same_key_gives_the_same_answer_after_a_restart(house: House, tmp_path: Path):
    talk = await house.start("Hello", key="k1")
    async with restarted(house, tmp_path / "later") as later:
        chat, accepted = await later.accepting.start_chat(later.user, NewMessage("Hello"), "k1")
        assert (chat.id, accepted.message.id) == (talk.chat, talk.input)
        assert accepted.reply is not None
        assert accepted.reply.id == talk.reply


async def test_fifty_posts_with_one_key_in_the_same_moment_make_one_reply(house: House):
    posts = [house.accepting.start_chat(house.user, NewMessage("Hello"), "k1") for _ in range(50)]
    made = await asyncio.gather(*posts)
    assert len({accepted.message.id for _, accepted in made}) == 1
    assert house.registry.running == 1


async def test_a_key_that_stands_for_something_else_is_refused(house: House):
    talk = await house.start("Hello", key="k1")
    with pytest.raises(KeyReused):
        await talk.send("Something else", key="k1")


async def test_two_people_may_use_the_same_key(house: House):
    talk = await house.start("Hello", key="k1")
    other, accepted = await house.accepting.start_chat(await stranger(house), NewMessage("Hello"), "k1")
    assert (other.id, accepted.message.id) != (talk.chat, talk.input)


async def test_a_message_needs_a_key(house: House):
    with pytest.raises(Invalid) as refused:
        await house.start("Hello", key="k" * 201)
    assert refused.value.field == "Idempotency-Key"


@pytest.mark.parametrize("text", ["", "   \n\t ", "a\x00b", "half a sign: \ud83d", "\udc00"])
async def test_text_that_is_nothing_or_cannot_be_stored_is_refused(house: House, text: str):
    talk = await house.start()
    with pytest.raises(Invalid) as refused:
        await talk.send(text)
    assert refused.value.field == "text"


async def test_the_longest_text_is_counted_in_bytes(house: House):
    talk = await house.start("ä" * (house.settings.max_text // 2))
    with pytest.raises(TooLong) as refused:
        await talk.send("ä" * (house.settings.max_text // 2 + 1))
    assert refused.value.field == "text"


@pytest.mark.parametrize("text", ["שלום עולם", "e\u0301 \u202etxt\u202c", "👩‍👩‍👧‍👦", "a\r\nb\u2028c\ufeff"])
async def test_text_of_every_script_is_stored_as_it_came(house: House, text: str):
    talk = await house.start(text)
    async with house.db.read() as s:
        assert (await messages.path_to(s, talk.input))[0].text == text


async def test_a_model_that_is_not_there_is_refused(house: House):
    with pytest.raises(UnknownModel):
        await house.start(model=ModelId(new_id()))
    house.models.gone = True
    with pytest.raises(UnknownModel):
        await house.start()


async def test_a_refused_message_leaves_nothing_behind(house: House):
    with pytest.raises(UnknownModel):
        await house.start(model=ModelId(new_id()))
    async with house.db.read() as s:
        assert await chats.listing(s, house.user) == ([], None)


async def test_the_model_picked_for_a_message_stays_with_its_chat(house: House):
    talk = await house.start(model=ModelId(house.models.model.id))
    async with house.db.read() as s:
        assert (await chats.owned(s, talk.chat, house.user)).model == house.models.model.id


async def test_an_archived_chat_takes_nothing(house: House):
    talk = await house.start()

    async def archive(s):
        (await chats.owned(s, talk.chat, house.user)).archived = True

    await house.db.write(archive)
    with pytest.raises(Archived):
        await talk.send("Hello?")


async def test_what_is_somebody_elses_does_not_exist(house: House):
    talk, bert = await house.start(), await stranger(house)
    accepting = house.accepting
    with pytest.raises(NotFound):
        await accepting.accept(bert, talk.chat, NewMessage("Hi"), new_id())
    with pytest.raises(NotFound):
        await accepting.regenerate(bert, talk.reply, None)
    with pytest.raises(NotFound):
        await accepting.resume_from(bert, talk.reply, None)
    with pytest.raises(NotFound):
        await accepting.choose_branch(bert, talk.chat, talk.input)
    with pytest.raises(NotFound):
        await accepting.delete_chat(bert, talk.chat)


async def test_a_parent_must_be_in_the_chat(house: House):
    talk, other = await house.start(), await house.start()
    await house.registry.stop(talk.reply)
    for parent in (other.input, MessageId(new_id())):
        with pytest.raises(NotFound):
            await talk.send("Hi", parent=parent, parent_given=True)


async def test_an_id_that_is_taken_is_refused_without_saying_whose(house: House):
    talk = await house.start()
    await house.registry.stop(talk.reply)
    for user in (house.user, await stranger(house)):
        with pytest.raises(KeyReused):
            await house.accepting.start_chat(user, NewMessage("Hi", id=talk.input), new_id())
        with pytest.raises(KeyReused):
            await house.accepting.start_chat(user, NewMessage("Hi"), new_id(), chat_id=talk.chat)


@pytest.mark.parametrize("id", ["1", "not an id", "0190A5C3-0000-7000-8000-000000000000"])
async def test_an_id_of_another_shape_is_refused(house: House, id: str):
    with pytest.raises(Invalid):
        await house.start(id=MessageId(id))


async def test_a_client_may_choose_the_ids(house: House):
    chat_id, message = ChatId(new_id()), MessageId(new_id())
    chat, accepted = await house.accepting.start_chat(
        house.user, NewMessage("Hi", id=message), new_id(), chat_id=chat_id
    )
    assert (chat.id, accepted.message.id) == (chat_id, message)


async def test_a_chat_has_one_lane(house: House):
    talk = await house.start()
    await house.registry.stop(talk.reply)
    sent = await asyncio.gather(*(talk.send(f"Message {n}") for n in range(20)))
    assert sum(accepted.reply is not None for accepted in sent) == 1
    assert sum(accepted.queued for accepted in sent) == 19
    positions = [accepted.message.position for accepted in sent]
    assert len(set(positions)) == 20


async def test_a_message_that_will_not_wait_is_told_which_reply_runs(house: House):
    talk = await house.start()
    running = talk.reply
    with pytest.raises(Busy) as refused:
        await talk.send("Hi", busy="reject")
    assert refused.value.reply == running


async def test_a_chat_is_named_after_its_opening_words(house: House):
    talk = await house.start("How do I   bake\nbread without yeast?")
    await house.registry.stop(talk.reply)
    await talk.send("And with it?")
    async with house.db.read() as s:
        chat = await chats.owned(s, talk.chat, house.user)
    assert (chat.title, chat.title_from) == ("How do I bake bread without yeast?", "opening")


async def test_sending_clears_the_draft_in_the_same_transaction(house: House):
    talk = await house.start()
    await house.registry.stop(talk.reply)

    async def draft(s):
        await drafts.put(s, house.user, talk.chat, "half a sentence")
        await drafts.put(s, house.user, None, "another")

    await house.db.write(draft)
    await talk.send("A whole sentence")
    async with house.db.read() as s:
        assert await drafts.get(s, house.user, talk.chat) == ""
        assert await drafts.get(s, house.user, None) == "another"


async def test_a_refused_message_leaves_the_draft(house: House):
    talk = await house.start()
    await house.db.write(lambda s: drafts.put(s, house.user, talk.chat, "typed"))
    with pytest.raises(Busy):
        await talk.send("typed", busy="reject")
    async with house.db.read() as s:
        assert await drafts.get(s, house.user, talk.chat) == "typed"


async def test_edit_and_resend_makes_a_branch(house: House):
    house.puppet.will(says("One"), says("Two"), says("Three"))
    talk = await house.start("First")
    await talk.ended()
    first = talk.input
    changed = await talk.send("First, but better", parent=None, parent_given=True)
    await talk.ended()
    assert changed.message.siblings == (first, changed.message.id)
    async with house.db.read() as s:
        chat = await chats.owned(s, talk.chat, house.user)
        assert [m.text for m in await messages.branch(s, chat)] == ["First, but better", "Two"]
    assert house.puppet.calls[1].request.messages[0].text.endswith("First, but better")


async def test_the_branch_that_somebody_chose_is_shown_to_its_end(house: House):
    house.puppet.will(says("One"), says("Two"))
    talk = await house.start("First")
    await talk.ended()
    first = talk.input
    await talk.send("Second", parent=None, parent_given=True)
    await talk.ended()
    await house.accepting.choose_branch(house.user, talk.chat, first)
    async with house.db.read() as s:
        chat = await chats.owned(s, talk.chat, house.user)
        assert [m.text for m in await messages.branch(s, chat)] == ["First", "One"]


async def test_resending_while_a_reply_runs_is_refused(house: House):
    talk = await house.start()
    with pytest.raises(Busy):
        await talk.send("Better", parent=None, parent_given=True)


# --- stop and say this instead ----------------------------------------------------------------------------


async def test_stop_and_say_this_instead_keeps_what_was_written(house: House):
    talk = await house.start("Tell me everything")
    (await house.puppet.asked()).say("Once upon a time")
    await talk.shows("Once upon a time")
    old = talk.reply
    accepted = await talk.send("Only the end", key="k1", busy="replace")
    assert accepted.reply is not None
    assert (await house.row(old)).phase == "stopped"
    assert [m.text for m in await house.written(old)] == ["Once upon a time"]
    second = await house.puppet.asked(2)
    assert [m.role for m in second.request.messages] == ["user", "assistant", "user"]
    assert second.request.messages[1].text == "Once upon a time"
    again = await talk.send("Only the end", key="k1", busy="replace")
    assert again.message.id == accepted.message.id
    assert house.registry.running == 1


async def test_saying_something_instead_of_nothing_simply_says_it(house: House):
    house.puppet.will(says("One"), says("Two"))
    talk = await house.start()
    await talk.ended()
    await talk.send("Next", busy="replace")
    assert (await talk.ended()).state.text == "Two"


async def test_replacing_from_two_devices_at_once_leaves_one_reply(house: House):
    talk = await house.start()
    await house.puppet.asked()
    sent = await asyncio.gather(*(talk.send(f"No, {n}", busy="replace") for n in range(5)))
    assert all(accepted.reply is not None for accepted in sent)
    await until(lambda: house.registry.running == 1)
    phases = [(await house.row(accepted.reply)).phase for accepted in sent if accepted.reply]
    assert sorted(phases) == ["accepted", "stopped", "stopped", "stopped", "stopped"]


# --- the end of a chat, and of the server -----------------------------------------------------------------


async def test_deleting_a_chat_stops_its_reply_first(house: House):
    talk = await house.start()
    call = await house.puppet.asked()
    live = talk.live
    await house.accepting.delete_chat(house.user, talk.chat)
    assert call.closed
    assert live.feed.closed
    assert house.registry.running == 0
    async with house.db.read() as s:
        assert await replies.get(s, talk.reply) is None


async def test_a_chat_is_deleted_while_messages_come_in(house: House):
    talk = await house.start()
    sending = [talk.send(f"Message {n}", busy="replace") for n in range(10)]
    done = await asyncio.gather(
        *sending, house.accepting.delete_chat(house.user, talk.chat), return_exceptions=True
    )
    assert all(not isinstance(each, Exception) or isinstance(each, NotFound) for each in done)
    assert house.registry.running == 0


async def test_a_closing_server_takes_nothing_in(tmp_path: Path):
    async with opened(tmp_path / "data") as house:
        talk = await house.start()
        await house.registry.close(0.0)
        with pytest.raises(Closing):
            await talk.send("Too late")
        with pytest.raises(Closing):
            await house.start("Too late")


async def test_attachments_are_their_owners_and_stay_with_the_message(house: House):
    bert = await stranger(house)

    async def upload(s):
        mine = await files.add_file(
            s, owner=house.user, sha256="a" * 64, name="cat.png", type="image/png", size=9
        )
        his = await files.add_file(s, owner=bert, sha256="b" * 64, name="his.txt", type="text/plain", size=9)
        return FileId(mine.id), FileId(his.id)

    mine, his = await house.db.write(upload)
    with pytest.raises(NotFound):
        await house.start("Look", files=(his,))
    talk = await house.start("", files=(mine,))
    assert talk.accepted.message.parts == (FilePart("image", mine, "cat.png"),)
    assert "cat.png" in (await house.puppet.asked()).request.messages[0].text
