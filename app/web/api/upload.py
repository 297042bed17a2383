"""An uploaded file on its way in: taken out of its form piece by piece, never held as a whole.

What a browser calls it is cut down to a plain name; what it says of its type is not looked at: the type comes from the
first bytes, and is one of a few that nobody can be harmed with.
"""

import codecs
import unicodedata
from collections.abc import AsyncIterator

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import ClientDisconnect, Request

from app.core.errors import Invalid

_HEAD = 8 * 1024
_LONGEST_NAME = 200
_MOST_PARTS = 20
_BROKEN = "This upload could not be read: it is no form, or it broke off. Send it again."


class Upload:
    """The one file of a `multipart/form-data` request. `name` and `type` are known once `chunks` is through."""

    def __init__(self, request: Request) -> None:
        """Raises Invalid for a request that is no such form."""
        self._request = request
        self._name: str | None = None
        self._head = b""
        self._pieces: list[bytes] = []
        self._parts = 0
        self._header = b""
        self._value = b""
        self._inside = False
        self._complete = False
        kind, options = parse_options_header(request.headers.get("content-type"))
        if kind != b"multipart/form-data" or not options.get(b"boundary"):
            raise Invalid("A file is sent as multipart/form-data, in a part with a file name.", field="file")
        self._parser = self._parser_for(options[b"boundary"])

    @property
    def name(self) -> str:
        """What the file is called, safe to show and to save under."""
        return self._name or "file"

    @property
    def type(self) -> str:
        """The media type that the content has."""
        return type_of(self._head)

    async def chunks(self) -> AsyncIterator[bytes]:
        """The bytes of the file. Raises Invalid for a form that is broken or holds another number of files."""
        try:
            async for received in self._request.stream():
                self._parser.write(received)
                if self._pieces:
                    chunk = b"".join(self._pieces)  # the parser cuts at every line end
                    self._pieces.clear()
                    if len(self._head) < _HEAD:
                        self._head += chunk[: _HEAD - len(self._head)]
                    yield chunk
        except (FormParserError, ClientDisconnect) as error:
            raise Invalid(_BROKEN, field="file", detail=type(error).__name__) from error
        if not self._complete:
            raise Invalid(_BROKEN, field="file")
        if self._name is None:
            raise Invalid("There is no file in this form.", field="file")

    # What the parser calls while it is fed.

    def _parser_for(self, boundary: bytes) -> MultipartParser:
        try:
            return MultipartParser(
                boundary,
                {
                    "on_part_data": self._on_data,
                    "on_part_end": self._on_part_end,
                    "on_header_field": self._on_field,
                    "on_header_value": self._on_value,
                    "on_header_end": self._on_header_end,
                    "on_end": self._on_end,
                },
            )
        except FormParserError as error:
            raise Invalid(_BROKEN, field="file") from error

    def _on_field(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def _on_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _on_header_end(self) -> None:
        header, value, self._header, self._value = self._header.lower(), self._value, b"", b""
        if header != b"content-disposition":
            return
        _, options = parse_options_header(value)
        if b"filename" not in options:
            return
        if self._name is not None:
            raise Invalid("Send one file at a time.", field="file")
        self._name = plain_name(options[b"filename"].decode("utf-8", "replace"))
        self._inside = True

    def _on_data(self, data: bytes, start: int, end: int) -> None:
        if self._inside:
            self._pieces.append(data[start:end])

    def _on_part_end(self) -> None:
        self._inside = False
        self._parts += 1
        if self._parts > _MOST_PARTS:
            raise Invalid("This form has more parts than a file needs.", field="file")

    def _on_end(self) -> None:
        self._complete = True


def plain_name(given: str) -> str:
    """The last part of a path, without what cannot be seen; `file` where nothing is left."""
    last = given.replace("\\", "/").rpartition("/")[2]
    seen = "".join(c for c in unicodedata.normalize("NFC", last) if unicodedata.category(c)[0] != "C")
    name = " ".join(seen.split()).lstrip(".")
    if len(name) <= _LONGEST_NAME:
        return name or "file"
    stem, dot, suffix = name.rpartition(".")
    kept = f".{suffix}" if dot and len(suffix) < 20 else ""
    return (stem if kept else name)[: _LONGEST_NAME - len(kept)] + kept


_SIGNS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"PK\x03\x04", "application/zip"),
)


def type_of(head: bytes) -> str:
    """The media type of a file that begins with `head`: a known picture, PDF, ZIP, text, or just bytes.

    HTML, SVG and scripts are text: nothing that could run is ever called by its name.
    """
    for sign, kind in _SIGNS:
        if head.startswith(sign):
            return kind
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    return "text/plain" if _is_text(head) else "application/octet-stream"


def _is_text(head: bytes) -> bool:
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(head)  # the head may end within a character
    except UnicodeDecodeError:
        return False
    return not any(c < " " and c not in "\t\n\r\f\x1b" for c in text)
