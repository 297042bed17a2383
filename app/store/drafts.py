"""What somebody has typed and not sent, one text for each chat and one for the chat that is not there yet."""

from sqlalchemy import delete, select
from sqlalchemy.dialects.sqlite import insert

from app.core.clock import now_ms
from app.core.ids import ChatId, UserId
from app.store.engine import Session
from app.store.tables import Draft


async def get(s: Session, user: UserId, chat: ChatId | None) -> str:
    """Empty if there is none; `chat` None stands for the chat that is not there yet."""
    query = select(Draft.text).where(Draft.user == user, Draft.chat == (chat or ""))
    return await s.scalar(query) or ""


async def put(s: Session, user: UserId, chat: ChatId | None, text: str) -> None:
    """Keep `text`; an empty one ends the draft."""
    if not text:
        await s.execute(delete(Draft).where(Draft.user == user, Draft.chat == (chat or "")))
        return
    statement = insert(Draft).values(user=user, chat=chat or "", text=text, updated=now_ms())
    kept = {"text": statement.excluded.text, "updated": statement.excluded.updated}
    await s.execute(statement.on_conflict_do_update(index_elements=["user", "chat"], set_=kept))
