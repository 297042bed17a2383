"""What was sent for a reply, per model call."""

from typing import Any

from sqlalchemy import select

from app.core.clock import now_ms
from app.core.ids import MessageId, ReplyId
from app.store import rows
from app.store.engine import Session
from app.store.tables import SentRequest


async def add(
    s: Session, reply: ReplyId, message: MessageId, *, model_name: str, endpoint: str, request: dict[str, Any]
) -> None:
    """`message` is the assistant message that the call gives; `request` names stored messages by id, nothing secret."""
    row = SentRequest(
        reply=reply, message=message, at=now_ms(), model_name=model_name, endpoint=endpoint, request=request
    )
    await rows.add(s, row)


async def of_reply(s: Session, reply: ReplyId) -> list[SentRequest]:
    """In the order of the calls."""
    query = (
        select(SentRequest).where(SentRequest.reply == reply).order_by(SentRequest.at, SentRequest.message)
    )
    return list((await s.scalars(query)).all())
