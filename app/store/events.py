"""The event log of ended replies, moved here in one batch; neighbouring deltas stand in one row."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import and_, func, insert, select, text as sql
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import aliased

from app.core.ids import ReplyId, RunId
from app.store import rows
from app.store.engine import Session
from app.store.prepared import Prepared, together
from app.store.tables import EventBlob, EventRow

# Payloads from this length on (characters of JSON) lie in a table of their own: the log stays quick to scan.
LARGE = 32 * 1024


@dataclass(frozen=True, slots=True)
class EventRecord:
    """One row of the log: the events numbered `first` to `seq`, all of one type.

    `ts` in ms; `lengths` of joined deltas in characters.
    """

    first: int
    seq: int
    round: int
    ts: int
    type: str
    data: dict[str, Any]
    lengths: list[int] | None = None


_INSERT = Prepared(insert(EventRow.__table__).prefix_with("OR REPLACE"))  # type: ignore[arg-type]
_INSERT_BLOB = Prepared(insert(EventBlob.__table__).prefix_with("OR REPLACE"))  # type: ignore[arg-type]


async def insert_all(s: Session, reply: ReplyId, run: RunId, records: Sequence[EventRecord]) -> None:
    """Store the whole log of a run. Nothing happens if the reply is gone."""
    events: list[dict[str, Any]] = []
    blobs: list[dict[str, Any]] = []
    for record in records:
        key = {"reply": reply, "run": run, "seq": record.seq}
        data = json.dumps(record.data, separators=(",", ":"))
        large = len(data) >= LARGE
        if large:
            blobs.append({**key, "data": data})
        events.append({**key, **_row(record), "data": None if large else data})
    try:
        await together(s, _INSERT.step(*events), _INSERT_BLOB.step(*blobs))
    except IntegrityError:
        return  # of the foreign key to the reply: there is nobody left to read them


def _row(record: EventRecord) -> dict[str, Any]:
    return {
        "first": record.first,
        "round": record.round,
        "ts": record.ts,
        "type": record.type,
        "lengths": record.lengths,
    }


async def read(
    s: Session, reply: ReplyId, run: RunId | None = None
) -> tuple[RunId | None, list[EventRecord]]:
    """The log of `run`, or of the newest one, in order; (None, []) if there is none."""
    run = run or await _newest(s, reply)
    if run is None:
        return None, []
    blob = and_(
        EventBlob.reply == EventRow.reply, EventBlob.run == EventRow.run, EventBlob.seq == EventRow.seq
    )
    data = func.coalesce(EventRow.data, EventBlob.data)
    query = (
        select(
            EventRow.first, EventRow.seq, EventRow.round, EventRow.ts, EventRow.type, data, EventRow.lengths
        )
        .join(EventBlob, blob, isouter=True)
        .where(EventRow.reply == reply, EventRow.run == run)
        .order_by(EventRow.seq)
    )
    found = (await s.execute(query)).all()
    return run, [EventRecord(*row[:5], json.loads(row[5]), row[6]) for row in found]


async def warnings(s: Session, ids: Sequence[ReplyId]) -> dict[ReplyId, list[str]]:
    """The texts of the warnings in each of these replies' newest run; those without any are left out."""
    other = aliased(EventRow)
    newest = (
        select(other.run)
        .where(other.reply == EventRow.reply)
        .order_by(other.ts.desc(), other.seq.desc())
        .limit(1)
        .scalar_subquery()
    )
    query = (
        select(EventRow.reply, EventRow.data)
        .where(EventRow.reply.in_(rows.EACH), sql("event.type = 'warning'"), EventRow.run == newest)
        .order_by(EventRow.reply, EventRow.seq)
    )
    found: dict[ReplyId, list[str]] = {}
    for reply, data in (await s.execute(query, {"ids": rows.each(ids)})).all():
        found.setdefault(ReplyId(reply), []).append(json.loads(data or '{"text": ""}')["text"])
    return found


async def _newest(s: Session, reply: ReplyId) -> RunId | None:
    query = (
        select(EventRow.run).where(EventRow.reply == reply).order_by(EventRow.ts.desc(), EventRow.seq.desc())
    )
    run = await s.scalar(query.limit(1))
    return None if run is None else RunId(run)
