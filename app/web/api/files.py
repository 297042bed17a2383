"""Files: uploaded before the message that they are sent with, and given back."""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.core.errors import KeyReused, TooManyTries
from app.core.ids import FileId
from app.replies import once
from app.store import files
from app.store.engine import Session
from app.store.tables import File
from app.web.api import asked, shapes
from app.web.api.operation import Bytes, operation
from app.web.api.upload import Upload
from app.web.download import download
from app.web.house import house, person

FORM = Bytes("multipart/form-data", "A form with one file")
CONTENT = Bytes("application/octet-stream", "The bytes, under the type that was found; ranges are served")


@operation(takes=FORM, gives={201: shapes.File}, raises=[KeyReused, TooManyTries], key="optional")
async def create(request: Request) -> Response:
    """Upload a file.

    Its type is decided from its content. It belongs to the uploader and is never changed.
    """
    here, me = house(request), person(request)
    key = asked.key(request)
    once.stamp(me.id, key)  # a key that cannot be kept is refused before anything is stored
    here.rates.upload(me)
    upload = Upload(request)
    sha256, size = await here.files.put(upload.chunks(), here.settings.max_upload)
    stamp = once.stamp(me.id, key, "file", sha256, upload.name)

    async def write(s: Session) -> File:
        if (known := await stamp.known(s)) is not None:
            return await files.owned(s, FileId(known), me.id)
        row = await files.add_file(
            s, owner=me.id, sha256=sha256, name=upload.name, type=upload.type, size=size
        )
        await stamp.record(s, "file", row.id)
        return row

    row = await here.db.write(write)
    return JSONResponse({name: getattr(row, name) for name in shapes.File.__annotations__}, 201)


@operation(gives={200: CONTENT, 206: CONTENT})
async def show(request: Request) -> Response:
    """Download a file.

    Always as a download, under a policy that lets it run and load nothing.
    """
    return await download(request, FileId(asked.path_id(request)))
