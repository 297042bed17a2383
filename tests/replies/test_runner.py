from app.core.messages import TextPart
from tests.replies.house import House, says


async def test_a_reply_is_streamed_stored_and_concluded(house: House):
    talk = await house.start("Hello there")
    call = await house.puppet.asked()
    call.say("Good ", "evening")
    await talk.shows("Good evening")
    call.end()
    live = await talk.ended()
    assert live.state.phase == "complete"
    (message,) = await house.written(talk.reply)
    assert message.parts == (TextPart("Good evening"),)
    assert (await house.row(talk.reply)).phase == "complete"
