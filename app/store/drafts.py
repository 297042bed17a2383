"""What somebody has typed and not sent, one text for each chat and one for the chat that is not there yet."""

from sqlalchemy import bindparam, delete, select
from sqlalchemy.dialects.sqlite import insert

from app.core.clock import now_ms
from app.core.ids import ChatId, UserId
from app.store.engine import Session
from app.store.prepared import Prepared
from app.store.tables import Draft

_ONE = (Draft.user == bindparam("user"), Draft.chat == bindparam("chat"))
_TEXT = Prepared(select(Draft.__table__.c.text).where(*_ONE))
_DROP = Prepared(delete(Draft).where(*_ONE))


async def get(s: Session, user: UserId, chat: ChatId | None) -> str:
    """Empty if there is none; `chat` None stands for the chat that is not there yet."""
    found = await _TEXT.first(s, user=user, chat=chat or "")
    return found[0] if found else ""


async def put(s: Session, user: UserId, chat: ChatId | None, text: str) -> None:
    """Keep `text`; an empty one ends the draft."""
    if not text:
        await _DROP.change(s, user=user, chat=chat or "")
        return
    statement = insert(Draft).values(user=user, chat=chat or "", text=text, updated=now_ms())
    kept = {"text": statement.excluded.text, "updated": statement.excluded.updated}
    await s.execute(statement.on_conflict_do_update(index_elements=["user", "chat"], set_=kept))
