"""What a POST with a key made, so that sending it again makes nothing new."""

from sqlalchemy import bindparam, delete, select

from app.core.clock import now_ms
from app.core.errors import KeyReused
from app.core.ids import UserId
from app.store import rows
from app.store.engine import Session
from app.store.prepared import Prepared
from app.store.tables import Idempotency

_SEEN = Prepared(
    select(Idempotency.__table__).where(
        Idempotency.user == bindparam("user"), Idempotency.key == bindparam("key")
    )
)


async def seen(s: Session, user: UserId, key: str) -> Idempotency | None:
    return await _SEEN.one(s, Idempotency, user=user, key=key)


async def made(s: Session, user: UserId, key: str, fingerprint: str) -> str | None:
    """The id of what was made under the key, None for a new key. Raises KeyReused if it was for something else."""
    known = await seen(s, user, key)
    if known is not None and known.fingerprint != fingerprint:
        raise KeyReused
    return known.made if known else None


async def record(s: Session, user: UserId, key: str, fingerprint: str, kind: str, made: str) -> None:
    """`fingerprint` is the SHA-256 of what was asked, `made` the id of what came of it.

    Raises IntegrityError for a key that is there already: ask `seen` first, in the same transaction.
    """
    row = Idempotency(user=user, key=key, fingerprint=fingerprint, kind=kind, made=made, created=now_ms())
    await rows.add(s, row)


async def forget(s: Session, before_ms: int) -> None:
    """Drop the keys first used before that moment."""
    await s.execute(delete(Idempotency).where(Idempotency.created < before_ms))
