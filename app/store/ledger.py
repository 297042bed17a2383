"""The ledger: one row per model call, kept when the chat, the reply or the person is gone."""

from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Integer, func, select

from app.core.clock import now_ms
from app.core.ids import UserId, new_id
from app.store import rows
from app.store.engine import Session
from app.store.tables import Usage

By = Literal["day", "model", "user"]


@dataclass(frozen=True, slots=True)
class Sum:
    """What was used in one group: a day (UTC, `2026-01-31`), a model's name, or a person's id.

    `cost` is of the calls that have a price, None if none has; `estimated`: at least one call was not counted
    by its endpoint.
    """

    group: str
    calls: int
    input_tokens: int
    output_tokens: int
    cost: float | None
    estimated: bool


async def add(s: Session, **row: Any) -> Usage:
    """The columns of `Usage`; id and at (ms) are filled in where they are left out, as are tokens with 0."""
    zero = {name: 0 for name in _TOKENS}
    usage = Usage(
        **{"id": new_id(), "at": now_ms(), "chat": None, "reply": None, "cost": None, **zero, **row}
    )
    await rows.add(s, usage)
    return usage


async def sums(
    s: Session, user: UserId | None, by: By = "day", *, since: int = 0, until: int | None = None
) -> list[Sum]:
    """Totals from `since` to before `until` (ms), of one person or of all, in the order of the group."""
    group = _GROUPS[by]
    query = (
        select(
            group,
            func.count(),
            func.sum(Usage.input_tokens),
            func.sum(Usage.output_tokens),
            func.sum(Usage.cost),
            func.max(Usage.estimated, type_=Integer),
        )
        .where(Usage.at >= since)
        .group_by(group)
        .order_by(group)
    )
    if user is not None:
        query = query.where(Usage.user == user)
    if until is not None:
        query = query.where(Usage.at < until)
    found = (await s.execute(query)).all()
    return [Sum(row[0], row[1], row[2], row[3], row[4], bool(row[5])) for row in found]


_TOKENS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")
_GROUPS: dict[By, Any] = {
    "day": func.date(Usage.at / 1000, "unixepoch"),
    "model": Usage.model_name,
    "user": Usage.user,
}
