"""Settings that are changed in the browser: a name and a JSON value each."""

from typing import Any

from sqlalchemy import select
from sqlalchemy.dialects.sqlite import insert

from app.store.engine import Session
from app.store.tables import Setting


async def read_all(s: Session) -> dict[str, Any]:
    found = await s.execute(select(Setting.name, Setting.value))
    return {name: value["value"] for name, value in found.all()}


async def put(s: Session, name: str, value: Any) -> None:
    """Set `name` to any JSON value."""
    statement = insert(Setting).values(name=name, value={"value": value})
    await s.execute(
        statement.on_conflict_do_update(index_elements=["name"], set_={"value": statement.excluded.value})
    )
