"""Finding words in one's own chats: titles, and what people and models said."""

import re
from dataclasses import dataclass

from sqlalchemy import text

from app.core.errors import Invalid
from app.core.ids import ChatId, MessageId, UserId
from app.store.engine import Session

# What stands around a found word in a snippet.
BEGIN, END = "\x02", "\x03"
MAX_WORDS = 16
_TITLES = 10
# Fewer letters begin so many words that looking them all up takes longer than a keystroke.
_BEGINNING = 3

# Scripts that are written without spaces between words; the triggers of migration 0001 have the same ranges.
_UNSPACED = re.compile(
    "[\u0e00-\u0e7f\u0e80-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7a3\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003134f]"
)
_WORD = re.compile(r"\w")


@dataclass(frozen=True, slots=True)
class Hit:
    """`message` is None where the chat's title was found; `at` in ms.

    In `snippet`, found words stand between BEGIN and END.
    """

    chat: ChatId
    title: str
    message: MessageId | None
    snippet: str
    at: int


async def find(
    s: Session, user: UserId, words: str, *, limit: int = 30, cursor: str | None = None
) -> tuple[list[Hit], str | None]:
    """Where all of `words` are found, the last as the beginning of a word; and the cursor of the next page.

    Titles first, then messages, newest first. Raises Invalid for a cursor that isn't ours.
    """
    wanted = [word for word in words.split() if _WORD.search(word)][:MAX_WORDS]
    if cursor is not None and not cursor.isdecimal():
        raise Invalid("This cursor is not one of ours.", field="cursor")
    if not wanted:
        return [], None
    look = _unspaced if any(map(_UNSPACED.search, wanted)) else _spaced
    titles: list[_Place] = []
    if cursor is None:
        titles = await look(s, _scope("t", user), wanted, _LAST, min(_TITLES, limit // 2))
    before = _LAST if cursor is None else int(cursor)
    room = limit - len(titles)
    found = await look(s, _scope("m", user), wanted, before, room + 1)
    cursor = str(found[room - 1][0]) if len(found) > room else None
    return [hit for _, hit in (*titles, *found[:room])], cursor


# An entry's number, which grows with time and makes the cursor, and what is shown of it.
_Place = tuple[int, Hit]
_LAST = 2**62


def _scope(kind: str, user: UserId) -> str:
    return kind + user.replace("-", "")


_SPACED = text("""
    SELECT e.id, e.chat, chat.title, e.message, coalesce(m.created, chat.active),
        snippet(search, 1, char(2), char(3), '…', 24)
    FROM search
    CROSS JOIN search_entry AS e ON e.id = search.rowid
    CROSS JOIN chat ON chat.id = e.chat
    LEFT JOIN message AS m ON m.id = e.message
    WHERE search MATCH :query AND search.rowid < :before
        AND chat.temporary = 0 AND coalesce(m.by_application, 0) = 0
    ORDER BY search.rowid DESC LIMIT :limit
""")


async def _spaced(s: Session, scope: str, wanted: list[str], before: int, limit: int) -> list[_Place]:
    """By whole words, without regard to case and accents; the last one, if it is long enough, as a beginning."""
    terms = [f"words : {_quoted(word)}" for word in wanted]
    begins = len(wanted[-1]) >= _BEGINNING and _WORD.match(wanted[-1][-1])
    query = " AND ".join((f"scope : {scope}", *terms)) + ("*" if begins else "")
    found = await s.execute(_SPACED, {"query": query, "before": before, "limit": limit})
    return [(row[0], Hit(row[1], row[2], row[3], row[5], row[4])) for row in found.all()]


async def _unspaced(s: Session, scope: str, wanted: list[str], before: int, limit: int) -> list[_Place]:
    """By what stands anywhere in the text. A word too short for a trigram is the beginning of one."""
    conditions, values = [], {"scope": scope, "before": before, "limit": limit}
    for number, word in enumerate(wanted):
        values[f"word{number}"] = _quoted(word) if len(word) >= 3 else word.lower()
        values[f"past{number}"] = word.lower() + "\U0010ffff"
        conditions.append((_LONG if len(word) >= 3 else _SHORT).format(number=number))
    found = await s.execute(text(_ANYWHERE.format(conditions=" AND ".join(conditions))), values)
    return [(row[0], Hit(row[1], row[2], row[3], _snippet(row[5], wanted), row[4])) for row in found.all()]


_LONG = "e.id IN (SELECT rowid FROM search_unspaced WHERE search_unspaced MATCH :word{number})"
_SHORT = "e.id IN (SELECT doc FROM search_term WHERE term >= :word{number} AND term < :past{number})"
_ANYWHERE = """
    SELECT e.id, e.chat, chat.title, e.message, coalesce(m.created, chat.active), coalesce(p.text, chat.title)
    FROM search_entry AS e
    JOIN chat ON chat.id = e.chat
    LEFT JOIN message AS m ON m.id = e.message
    LEFT JOIN part AS p ON p.message = e.message AND p.place = e.place
    WHERE {conditions} AND e.scope = :scope AND e.id < :before
        AND chat.temporary = 0 AND coalesce(m.by_application, 0) = 0
    ORDER BY e.id DESC LIMIT :limit
"""


def _quoted(word: str) -> str:
    """`word` as a string of the query language, in which nothing but the quote has a meaning."""
    return '"' + word.replace('"', '""') + '"'


def _snippet(words: str, wanted: list[str]) -> str:
    pattern = re.compile("|".join(map(re.escape, sorted(wanted, key=len, reverse=True))), re.IGNORECASE)
    first = pattern.search(words)
    start = max(0, first.start() - 24) if first else 0
    end = min(len(words), start + 120)
    marked = pattern.sub(lambda match: f"{BEGIN}{match[0]}{END}", words[start:end])
    return ("…" if start else "") + marked + ("…" if end < len(words) else "")
