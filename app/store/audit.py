"""The audit log: it only grows, as triggers see to; each row has a hash over itself and the one before."""

import hashlib
import json
from typing import Any

from sqlalchemy import select

from app.core.clock import now_ms
from app.core.errors import Invalid
from app.core.ids import UserId
from app.store import rows
from app.store.engine import Session
from app.store.tables import Audit


async def append_audit(
    s: Session,
    *,
    action: str,
    actor: UserId | None,
    actor_name: str,
    target: str = "",
    detail: dict[str, Any] | None = None,
    address: str = "",
) -> Audit:
    """Note who did what to what. `detail` is JSON without secrets or the text of messages."""
    last = await s.scalar(select(Audit).order_by(Audit.seq.desc()).limit(1))
    row = Audit(
        seq=last.seq + 1 if last else 1,
        at=now_ms(),
        actor=actor,
        actor_name=actor_name,
        action=action,
        target=target,
        detail=json.loads(json.dumps(detail or {})),
        address=address,
        previous=last.hash if last else "",
    )
    row.hash = _hash(row)
    await rows.add(s, row)
    return row


async def audit(s: Session, cursor: str | None = None, limit: int = 100) -> tuple[list[Audit], str | None]:
    """Newest first, with the cursor of the next page. Raises Invalid for a cursor that isn't ours."""
    query = select(Audit).order_by(Audit.seq.desc()).limit(limit + 1)
    if cursor is not None:
        if not cursor.isdecimal():
            raise Invalid("This cursor is not one of ours.", field="cursor")
        query = query.where(Audit.seq < int(cursor))
    found = list((await s.scalars(query)).all())
    return found[:limit], str(found[limit - 1].seq) if len(found) > limit else None


async def broken_link(s: Session) -> int | None:
    """The number of the first row that does not fit the one before it, or None: the log is whole."""
    previous, number = "", 0
    while page := (
        await s.scalars(select(Audit).where(Audit.seq > number).order_by(Audit.seq).limit(500))
    ).all():
        for row in page:
            if row.seq != number + 1 or row.previous != previous or row.hash != _hash(row):
                return row.seq
            previous, number = row.hash, row.seq
        s.expunge_all()
    return None


def _hash(row: Audit) -> str:
    said = [
        row.previous,
        row.seq,
        row.at,
        row.actor,
        row.actor_name,
        row.action,
        row.target,
        row.detail,
        row.address,
    ]
    return hashlib.sha256(json.dumps(said, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
