"""Drafts: one text per person and chat, and one for the chat that is not there yet."""

from app.core.ids import ChatId, UserId
from app.store import drafts
from app.store.engine import Database
from tests.store.steps import add_person, count


async def draft(db: Database, user: UserId, chat: ChatId | None) -> str:
    async with db.read() as s:
        return await drafts.get(s, user, chat)


async def test_a_draft_is_kept_changed_and_ended_by_an_empty_text(
    db: Database, owner: UserId, chat_id: ChatId
) -> None:
    assert await draft(db, owner, chat_id) == ""
    for words in ("half a", "half a sentence", "", ""):
        await db.write(lambda s, words=words: drafts.put(s, owner, chat_id, words))  # type: ignore[misc]
        assert await draft(db, owner, chat_id) == words
    assert await count(db, "draft") == 0


async def test_drafts_of_people_and_chats_are_kept_apart(
    db: Database, owner: UserId, chat_id: ChatId
) -> None:
    eve = await add_person(db, "Eve")
    places = [(owner, chat_id), (owner, None), (eve, None)]
    for number, (user, chat) in enumerate(places):
        await db.write(lambda s, n=number, u=user, c=chat: drafts.put(s, u, c, f"draft {n}"))  # type: ignore[misc]
    assert [await draft(db, user, chat) for user, chat in places] == ["draft 0", "draft 1", "draft 2"]
