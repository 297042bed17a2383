"""Writing one row with one statement, for every module of the store."""

import json
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, cast

from sqlalchemy import CursorResult, Delete, Result, Table, Update, bindparam, func, insert, select
from sqlalchemy.orm.attributes import set_committed_value
from sqlalchemy.orm.util import identity_key

from app.core.errors import Invalid
from app.store.engine import Session
from app.store.prepared import Prepared, Step, attach, together, write_changes
from app.store.tables import Base


async def add(s: Session, row: Base) -> None:
    """INSERT `row` now and leave it in the session as if it had been loaded, defaults filled in.

    Not a flush: that would write other changed rows, too, now and again at the end. Raises IntegrityError,
    after which the transaction is still usable.
    """
    await together(s, insertion(row))
    attach(s, row)


def insertion(row: Base) -> Step:
    """What stores `row`, for `prepared.together`; its defaults are filled in. `attach` it afterwards."""
    return _insert(type(row)).step(_values(row))


@cache
def _insert(kind: type[Base]) -> Prepared:
    return Prepared(insert(cast(Table, kind.__table__)))


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


async def change(s: Session, row: Base, fields: Mapping[str, Any], allowed: frozenset[str]) -> None:
    """Set `fields` on `row` and write them. Raises Invalid for another name than the `allowed` ones."""
    for name, value in fields.items():
        if name not in allowed:
            raise Invalid(f"There is no field '{name}' to change here.", field=name)
        setattr(row, name, value)
    await write_changes(s)


async def changed(s: Session, statement: Update | Delete) -> bool:
    """Run a conditional UPDATE or DELETE; whether it changed a row. Loaded rows are brought up to date."""
    return bool(count(await s.execute(statement)))


def count(result: Result[Any]) -> int:
    """How many rows an UPDATE or DELETE changed."""
    return cast("CursorResult[Any]", result).rowcount


def take_over(s: Session, kind: type[Base], id: str, values: Mapping[str, Any]) -> None:
    """Tell a row that the session has loaded what a statement on its table has set."""
    row = s.sync_session.identity_map.get(identity_key(kind, id))
    if row is not None:
        for name, value in values.items():
            set_committed_value(row, name, value)


# For `IN`: one parameter, named `ids` and made by `each`, and one statement text, however many they are.
EACH = select(func.json_each(bindparam("ids")).table_valued("value").c.value)


def each(ids: Iterable[str]) -> str:
    """The value of the parameter of `EACH`."""
    return json.dumps(list(ids))
