"""The JSON of a reply, a message and a chat."""

import json

from app.core.messages import ReasoningPart, ToolUsePart
from app.replies import reply_view
from app.replies.snapshot import snapshot
from app.store import chats, messages
from tests.replies.house import House, says


async def test_a_running_reply(house: House):
    talk = await house.start()
    (await house.puppet.asked()).think("Hm").say("Half")
    await talk.shows("Half")
    shown = reply_view.view(talk.live.state)
    assert shown["id"] == talk.reply
    assert (shown["state"], shown["text"], shown["reasoning"], shown["model"]) == (
        "running",
        "Half",
        "Hm",
        "Puppet",
    )
    (message,) = shown["messages"]
    assert [part["type"] for part in message["parts"]] == ["reasoning", "text"]
    assert "error" not in shown
    json.dumps(shown)


async def test_an_ended_reply_live_and_from_the_store_look_the_same(house: House):
    house.puppet.will(lambda call: call.say("a").call().end("tool_use"), says("b"))
    talk = await house.start()
    live = await talk.ended()
    row, stored = await house.row(talk.reply), await house.written(talk.reply)
    shown = reply_view.view(live.state, stored, row)
    assert [m["role"] for m in shown["messages"]] == ["assistant", "tool", "assistant"]
    assert all(m["position"] for m in shown["messages"])
    other = reply_view.of_row(row, stored)
    for name in ("id", "chat", "state", "text", "reasoning", "messages", "model", "stop_reason", "input"):
        assert shown[name] == other[name], name
    assert shown["usage"] == other["usage"]


async def test_a_failed_reply_tells_its_error(house: House):
    house.puppet.will(lambda call: call.say("Half").end(None))
    talk = await house.start()
    shown = reply_view.view((await talk.ended()).state)
    assert shown["error"]["code"] == "broken-stream"
    assert list(shown["error"]["actions"]) == ["continue", "retry"]


async def test_a_message_and_a_chat(house: House):
    talk = await house.start("Hello")
    async with house.db.read() as s:
        (message,) = await messages.load(s, [talk.input])
        chat = await chats.owned(s, talk.chat, house.user)
    shown = reply_view.of_message(message)
    assert shown["parts"] == [{"type": "text", "text": "Hello"}]
    assert (shown["role"], shown["siblings"], shown["queued"]) == ("user", [talk.input], False)
    assert shown["created"].endswith("Z")
    told = reply_view.of_chat(chat, running_reply=talk.reply)
    assert (told["title"], told["running_reply"], told["kind"]) == ("Hello", talk.reply, "chat")


async def test_provider_data_never_leaves_the_server(house: House):
    parts = (
        ReasoningPart("Hm", 5, {"signature": "secret"}),
        ToolUsePart("c1", "t", '{"raw": 1}', {"raw": 1}),
    )
    shown = [reply_view.of_part(part) for part in parts]
    assert shown == [
        {"type": "reasoning", "text": "Hm", "ms": 5},
        {"type": "tool_use", "id": "c1", "name": "t", "input": {"raw": 1}},
    ]


async def test_a_snapshot_tells_what_is_going_on(house: House):
    house.puppet.will(says("Hi"))
    done = await house.start()
    await done.ended()
    talk = await house.start()
    await house.puppet.asked(2)
    running = talk.reply
    queued = await talk.send("Next")
    async with house.db.read() as s:
        told = await snapshot(s, house.user)
    assert [lane["id"] for lane in told["running"]] == [running]
    assert told["unread"] == [done.chat]
    assert [m["id"] for m in told["queues"][talk.chat]] == [queued.message.id]
