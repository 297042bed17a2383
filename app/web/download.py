"""An uploaded file given back: checked against its hash first, and never as anything but bytes to keep.

Its headers come from three places: type and disposition from here, `nosniff` and a policy that runs, loads and frames
nothing from `headers.py`, whatever the file says of itself.
"""

import asyncio
import logging

from starlette.requests import Request
from starlette.responses import FileResponse, Response

from app.core.errors import StorageFault
from app.core.ids import FileId
from app.store import files
from app.web.house import house, user

logger = logging.getLogger(__name__)


async def download(request: Request, file_id: FileId) -> Response:
    """The person's file, or the range of it that is asked for. Raises NotFound, and StorageFault for a damaged one."""
    here = house(request)
    async with here.db.read() as s:
        row = await files.owned(s, file_id, user(request))
    if not await asyncio.to_thread(here.files.verify, row.sha256):
        logger.error("file %s is missing or not what was stored: sha256 %s", row.id, row.sha256)
        raise StorageFault(f"'{row.name}' is damaged or missing on the server's disk. A backup may have it.")
    path, headers = here.files.path(row.sha256), {"etag": f'"{row.sha256}"'}
    return FileResponse(path, media_type=row.type, filename=row.name, headers=headers)
