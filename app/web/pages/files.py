"""Files: what was sent along with a message, given back to its owner."""

from starlette.requests import Request
from starlette.responses import Response

from app.core.ids import FileId
from app.web.answers import path_id
from app.web.download import download


async def show(request: Request) -> Response:
    """`GET /files/{id}`: as a download; an `<img>` shows it all the same."""
    return await download(request, FileId(path_id(request)))
