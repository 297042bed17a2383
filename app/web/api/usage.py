"""Usage: sums of the ledger, which has a line for each model call."""

from dataclasses import asdict
from typing import Literal, TypedDict

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.store import ledger
from app.web.api import asked
from app.web.api.operation import operation
from app.web.api.schema import Page
from app.web.house import house, person


class Used(TypedDict):
    """Sums over the model calls of one day (UTC), one model or one person, which `group` names. `cost` is of the calls
    that have a price; `estimated`: some were not counted by their endpoint."""

    group: str
    calls: int
    input_tokens: int
    output_tokens: int
    cost: float | None
    estimated: bool


class Grouping(TypedDict, total=False):
    """What to sum up by."""

    by: Literal["day", "model", "user"]


@operation(query=Grouping, gives={200: Page[Used]})
async def sums(request: Request) -> Response:
    """Sum up what was used, by day, model or person.

    One's own usage; by person, an administrator sees everybody's.
    """
    me, by = person(request), asked.query(request, Grouping).get("by", "day")
    everybody = by == "user" and me.role == "admin" and me.scope == "all"
    async with house(request).db.read() as s:
        found = await ledger.sums(s, None if everybody else me.id, by)
    return JSONResponse({"items": [asdict(group) for group in found], "next": None})
