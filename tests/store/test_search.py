"""Finding words: in one's own chats alone, whatever the script, always as the messages are now."""

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from sqlalchemy import text

from app.core.errors import Invalid
from app.core.ids import ChatId, MessageId, UserId
from app.core.messages import ReasoningPart, TextPart, ToolResultPart
from app.store import chats, messages, search
from app.store.copy import copy_database
from app.store.engine import Database, Session
from app.store.folder import DataFolder
from app.store.search import BEGIN, END, Hit
from tests.store.conftest import Opened
from tests.store.steps import add_chat, add_message, add_person


async def hits(db: Database, user: UserId, words: str, **how: object) -> list[Hit]:
    async with db.read() as s:
        found, _ = await search.find(s, user, words, **how)  # type: ignore[arg-type]
    return found


async def found(db: Database, user: UserId, words: str) -> list[MessageId | None]:
    return [hit.message for hit in await hits(db, user, words)]


async def whole(db: Database) -> None:
    """Raises if an index differs from what it is of."""

    async def check(s: Session) -> None:
        await s.execute(text("INSERT INTO search (search, rank) VALUES ('integrity-check', 1)"))
        await s.execute(
            text("INSERT INTO search_unspaced (search_unspaced, rank) VALUES ('integrity-check', 0)")
        )

    await db.write(check)


async def test_all_words_must_be_there_and_the_last_may_be_a_beginning(
    db: Database, owner: UserId, chat_id: ChatId
) -> None:
    id = await add_message(db, chat_id, "The lamp on the desk burns through the night.")
    await add_message(db, chat_id, "A lamp alone.")
    for words in ("lamp desk", "LAMP nig", "night lamp", '"lamp" desk,', "through"):
        assert await found(db, owner, words) == [id], words
    for words in ("lamp cellar", "lam desk", "esk", "lamp ni", "lamp OR cellar", "NOT lamp"):
        assert await found(db, owner, words) == [], words


@pytest.mark.parametrize("words", ["", "  ", "!!! ???", '"', "-", "\x00", "(*", "scope:", "* *"])
async def test_what_holds_no_word_finds_nothing(
    db: Database, owner: UserId, chat_id: ChatId, words: str
) -> None:
    await add_message(db, chat_id, "something")
    assert await found(db, owner, words) == []


async def test_case_and_accents_do_not_matter(db: Database, owner: UserId, chat_id: ChatId) -> None:
    id = await add_message(db, chat_id, "Une idée naïve à ÉVREUX, größer")
    for words in ("idee", "NAIVE", "Évreux", "evreux", "GRÖßER"):
        assert await found(db, owner, words) == [id], words


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("日本語テスト", "日本"),
        ("日本語テスト", "テスト"),
        ("日本語テスト", "語"),
        ("今天天气很好，我们去公园", "公园"),
        ("今天天气很好，我们去公园", "天气 公园"),
        ("한국어로 쓴 문장입니다", "문장"),
        ("สวัสดีชาวโลก", "ชาวโลก"),
        ("Reise nach 東京 im Mai", "東京 reise"),
        ("Reise nach 東京 im Mai", "東京 ma"),
        ("ﾃｽﾄです", "ｽﾄ"),
        ("末尾の字は京", "京"),
    ],
)
async def test_scripts_without_spaces_are_found_anywhere_in_a_text(
    db: Database, owner: UserId, chat_id: ChatId, written: str, words: str
) -> None:
    id = await add_message(db, chat_id, written)
    await add_message(db, chat_id, "something else 無関係")
    (hit,) = await hits(db, owner, words)
    assert hit.message == id
    assert f"{BEGIN}{words.split()[0]}{END}" in hit.snippet
    await whole(db)


async def test_titles_come_first_then_messages_newest_first(db: Database, owner: UserId) -> None:
    older, newer = await add_chat(db, owner, title="Garden plans"), await add_chat(db, owner, title="Other")
    ids = [await add_message(db, chat, f"garden {n}") for n, chat in enumerate((older, newer, older))]
    found = await hits(db, owner, "garden")
    assert [(hit.chat, hit.message, hit.title) for hit in found] == [
        (older, None, "Garden plans"),
        (older, ids[2], "Garden plans"),
        (newer, ids[1], "Other"),
        (older, ids[0], "Garden plans"),
    ]
    assert found[0].snippet == f"{BEGIN}Garden{END} plans"
    assert found[1].snippet == f"{BEGIN}garden{END} 2"
    assert found[1].at >= found[3].at > 0


async def test_pages_of_hits_hold_each_once(db: Database, owner: UserId, chat_id: ChatId) -> None:
    await db.write(lambda s: chats.set_title(s, chat_id, "Word by word", "person"))
    ids = [await add_message(db, chat_id, "word 日本") for _ in range(11)]
    for words in ("word", "日本"):
        seen: list[MessageId | None] = []
        cursor = None
        while True:
            async with db.read() as s:
                page, cursor = await search.find(s, owner, words, limit=4, cursor=cursor)
            seen += [hit.message for hit in page]
            if cursor is None:
                break
        assert [id for id in seen if id] == ids[::-1]
        assert seen.count(None) == (words == "word")
    async with db.read() as s:
        with pytest.raises(Invalid):
            await search.find(s, owner, "word", cursor="x")


async def test_people_find_only_what_is_theirs(db: Database, owner: UserId, chat_id: ChatId) -> None:
    stranger = await add_person(db, "Eve")
    await add_message(db, chat_id, "secret 日本")
    await db.write(lambda s: chats.set_title(s, chat_id, "secret 日本", "model"))
    for words in ("secret", "日本", f"m{owner.replace('-', '')}", f"t{owner.replace('-', '')} secret"):
        assert await hits(db, stranger, words) == []
    assert len(await hits(db, owner, "secret")) == 2


async def test_only_what_was_said_is_found(db: Database, owner: UserId) -> None:
    chat_id = await add_chat(db, owner, temporary=True)
    await add_message(db, chat_id, "needle in a temporary chat")
    chat_id = await add_chat(db, owner)
    hidden = (ReasoningPart("needle", 1), ToolResultPart("c", "ok", "needle"), TextPart("hay"))
    await add_message(db, chat_id, parts=hidden, role="assistant")
    await add_message(db, chat_id, "needle nudge", by_application=True)
    assert await found(db, owner, "needle") == []
    assert len(await found(db, owner, "hay")) == 1


async def test_what_is_changed_or_deleted_is_found_as_it_is_now(
    db: Database, owner: UserId, chat_id: ChatId
) -> None:
    waiting = await add_message(db, chat_id, "before 以前", queued=True)
    await db.write(lambda s: messages.replace_parts(s, waiting, [TextPart("after 以後")]))
    await db.write(lambda s: chats.set_title(s, chat_id, "first title 題名", "opening"))
    await db.write(lambda s: chats.set_title(s, chat_id, "second title", "model"))
    await whole(db)
    for words in ("before", "以前", "first", "題名"):
        assert await found(db, owner, words) == [], words
    assert await found(db, owner, "after") == await found(db, owner, "以後") == [waiting]
    assert await found(db, owner, "second") == [None]

    async def remove(s: Session) -> None:
        await chats.delete(s, await chats.owned(s, chat_id, owner))

    await db.write(remove)
    assert await found(db, owner, "after") == await found(db, owner, "second") == []
    await whole(db)


async def test_a_copy_of_the_database_finds_the_same(
    db: Database, owner: UserId, chat_id: ChatId, tmp_path: object, open_database: Opened
) -> None:
    for n in range(30):
        await add_message(db, chat_id, f"word{n} 言葉{n}")
    gone = await add_chat(db, owner)
    await add_message(db, gone, "gone")
    await db.write(
        lambda s: s.execute(text(f"DELETE FROM chat WHERE id = '{gone}'"))
    )  # leaves gaps in the numbers
    kept = [await found(db, owner, words) for words in ("word7", "言葉2")]
    other = DataFolder(db.folder.path.parent / "copy")
    copy_database(db.folder.database, other.database)
    async with open_database(other) as copy:
        assert [await found(copy, owner, words) for words in ("word7", "言葉2")] == kept
        await whole(copy)


_TEXT = st.text(st.sampled_from(list("ab é日本ñ\n\"'*()")), max_size=12)


@given(texts=st.lists(_TEXT, max_size=8), words=_TEXT)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_no_text_and_no_search_breaks_the_index(
    db: Database, owner: UserId, texts: list[str], words: str
) -> None:
    chat_id = await add_chat(db, owner)
    for written in texts:
        await add_message(db, chat_id, written)
    for hit in await hits(db, owner, words):
        assert hit.snippet
    await whole(db)

    async def remove(s: Session) -> None:
        await chats.delete(s, await chats.owned(s, chat_id, owner))

    await db.write(remove)
    await whole(db)
