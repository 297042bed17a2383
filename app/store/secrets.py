"""Sealed values and the wrapped keys that open them. What seals and opens is `accounts.vault`."""

from sqlalchemy import delete, select
from sqlalchemy.dialects.sqlite import insert

from app.core.clock import now_ms
from app.store import rows
from app.store.engine import Session
from app.store.tables import DataKey, Secret


async def get(s: Session, owner: str, field: str) -> Secret | None:
    """`owner` is the id of the row that the secret belongs to."""
    return await s.get(Secret, (owner, field))


async def put(s: Session, owner: str, field: str, *, origin: str, key_version: int, sealed: bytes) -> None:
    """Keep a sealed value in place of the one there was."""
    values = {"origin": origin, "key_version": key_version, "sealed": sealed}
    statement = insert(Secret).values(owner=owner, field=field, **values)
    await s.execute(statement.on_conflict_do_update(index_elements=["owner", "field"], set_=values))


async def drop(s: Session, owner: str, field: str | None = None) -> None:
    """Remove one secret of the row, or all of them."""
    query = delete(Secret).where(Secret.owner == owner)
    await s.execute(query if field is None else query.where(Secret.field == field))


async def all(s: Session) -> list[Secret]:
    return list((await s.scalars(select(Secret).order_by(Secret.owner, Secret.field))).all())


async def data_keys(s: Session) -> list[DataKey]:
    """Oldest first; the last one seals."""
    return list((await s.scalars(select(DataKey).order_by(DataKey.version))).all())


async def add_data_key(s: Session, version: int, wrapped: bytes) -> DataKey:
    key = DataKey(version=version, wrapped=wrapped, created=now_ms())
    await rows.add(s, key)
    return key


async def drop_data_keys(s: Session, below: int) -> None:
    """Remove the keys before version `below`, when nothing is sealed by them any more."""
    await s.execute(delete(DataKey).where(DataKey.version < below))
