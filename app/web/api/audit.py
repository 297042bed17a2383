"""The audit log: who did what. For administrators."""

from typing import Annotated, Any, TypedDict

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.core.clock import rfc3339
from app.store import audit
from app.store.tables import Audit
from app.web.api import asked, shapes
from app.web.api.operation import operation
from app.web.api.schema import Page, such
from app.web.house import house


class Piece(TypedDict, total=False):
    """Which piece of the log."""

    cursor: shapes.Cursor
    limit: Annotated[int, such(minimum=1, maximum=1000)]


@operation(query=Piece, gives={200: Page[shapes.Audit]})
async def listing(request: Request) -> Response:
    """Read the audit log, newest first."""
    piece = asked.query(request, Piece)
    async with house(request).db.read() as s:
        rows, following = await audit.audit(s, piece.get("cursor"), piece.get("limit", 100))
    return JSONResponse({"items": [_shown(row) for row in rows], "next": following})


def _shown(row: Audit) -> dict[str, Any]:
    shown = {name: getattr(row, name) for name in shapes.Audit.__annotations__}
    return shown | {"at": rfc3339(row.at)}
