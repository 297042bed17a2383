"""Writing one row with one statement, for every module of the store."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Delete, Select, Update, func, insert, select
from sqlalchemy.orm import make_transient_to_detached

from app.core.errors import Invalid
from app.store.engine import Session
from app.store.tables import Base


async def add(s: Session, row: Base) -> None:
    """INSERT `row` now and leave it in the session as if it had been loaded, defaults filled in.

    Not a flush: that would write other changed rows, too, now and again at the end. Raises IntegrityError,
    after which the transaction is still usable.
    """
    values = _values(row)
    await s.execute(insert(type(row).__table__), values)  # type: ignore[arg-type]
    make_transient_to_detached(row)
    s.add(row)


def _values(row: Base) -> dict[str, Any]:
    given = vars(row)
    for column in type(row).__table__.columns:
        if column.key not in given:
            setattr(row, column.key, _default(column.default))
    return {column.key: given[column.key] for column in type(row).__table__.columns}


def _default(default: Any) -> Any:
    if default is None:
        return None
    return default.arg(None) if default.is_callable else default.arg


def change(row: Base, fields: Mapping[str, Any], allowed: frozenset[str]) -> None:
    """Set `fields` on `row`, which its session writes at the end. Raises Invalid for another name."""
    for name, value in fields.items():
        if name not in allowed:
            raise Invalid(f"There is no field '{name}' to change here.", field=name)
        setattr(row, name, value)


async def changed(s: Session, statement: Update | Delete) -> bool:
    """Run a conditional UPDATE or DELETE; whether it changed a row. Loaded rows are brought up to date."""
    result = await s.execute(statement)
    return bool(result.rowcount)  # type: ignore[attr-defined]


def each(values: Sequence[str]) -> Select[tuple[str]]:
    """`values` as a subquery for `IN`: one parameter and one statement text, however many they are."""
    return select(func.json_each(json.dumps(list(values))).table_valued("value").c.value)
