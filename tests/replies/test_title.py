"""Titles: from the model after the first reply, from the opening words till then and otherwise."""

import pytest

from app.core.errors import Overloaded
from app.replies.title import tidied
from app.store import chats
from tests.replies.house import House, Talk, says, until


async def _title(talk: Talk) -> tuple[str, str]:
    async with talk.house.db.read() as s:
        chat = await chats.owned(s, talk.chat, talk.house.user)
    return chat.title, chat.title_from


async def _replied(house: House, text: str = "How do I bake bread?") -> Talk:
    house.puppet.will(says("Slowly."))
    talk = await house.start(text)
    await talk.ended()
    return talk


async def _settled(house: House) -> None:
    await until(lambda: not [task for task in house.tasks._running if "title" in task.get_name()])


async def test_a_chat_is_named_after_its_first_reply(house: House):
    house.models.titles.append('"Baking Bread."')
    follower = house.bulletin.attach(house.user)
    talk = await _replied(house)
    await _settled(house)
    assert await _title(talk) == ("Baking Bread", "model")
    assert "How do I bake bread?" in house.models.asked[0]
    assert {"id": talk.chat, "change": "renamed", "title": "Baking Bread"} in [
        n.data for n in follower.take()[1]
    ]


@pytest.mark.parametrize("answer", [Overloaded("Busy."), "", "  \n ", "<think>Hm"])
async def test_a_failure_leaves_the_opening_words(house: House, answer: str | Exception):
    house.models.titles.append(answer)
    talk = await _replied(house)
    await _settled(house)
    assert await _title(talk) == ("How do I bake bread?", "opening")


async def test_a_title_given_by_hand_is_never_overwritten(house: House):
    house.models.titles.append("Baking")
    talk = await house.start()
    await house.db.write(lambda s: chats.set_title(s, talk.chat, "Mine", "person"))
    (await house.puppet.asked()).say("Slowly.").end()
    await talk.ended()
    await _settled(house)
    assert await _title(talk) == ("Mine", "person")
    assert house.models.asked == []


async def test_only_the_first_reply_names_the_chat(house: House):
    talk = await _replied(house)
    await _settled(house)
    house.models.titles.append("Another")
    house.puppet.will(says("Ok."))
    await talk.send("And cake?")
    await talk.ended()
    await _settled(house)
    assert await _title(talk) == ("How do I bake bread?", "opening")


async def test_a_stopped_reply_names_nothing(house: House):
    talk = await house.start()
    await house.registry.stop(talk.reply)
    assert house.models.asked == []


async def test_the_embedded_model_is_asked_only_where_somebody_chose_it(house: House):
    house.models.endpoint.came_from = "embedded"
    await _replied(house)
    await _settled(house)
    assert house.models.asked == []
    house.models.title_model = house.models.model
    await _replied(house)
    await _settled(house)
    assert len(house.models.asked) == 1


@pytest.mark.parametrize(
    ("answer", "title"),
    [
        ("Bread", "Bread"),
        ("**Bread**\n\nIt is about bread.", "Bread"),
        ("Title: “Bread and Water”", "Bread and Water"),
        ("<think>What is it about?</think>\nBread", "Bread"),
        ("# Bread", "Bread"),
        ("a\x00b", "a\ufffdb"),
        ("", ""),
    ],
)
def test_a_title_is_tidied(answer: str, title: str):
    assert tidied(answer) == title


def test_a_title_has_a_longest_length():
    assert len(tidied("many words " * 50)) <= 61
