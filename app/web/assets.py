"""The files under `static/`, read once at start and served from memory under `/static/<version>/`.

The version is a hash of all of them, so an address never changes its content and may be cached for ever. Two
things are joined, because every request costs a round trip: all of `css/` into `app.css`, and the modules
that `js/app.js` imports into one. A joined module keeps an address of its own that only exports again what
stands in `js/app.js`; so one that is loaded later shares its state instead of getting a second copy.

What joining asks of a module: named exports only, `import { a, b } from "./x.js";` without renaming, and
top-level names that no other joined module uses. `Unjoinable` says which file breaks this.
"""

import gzip
import hashlib
import mimetypes
import posixpath
import re
from collections.abc import Container, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from app.core.errors import NotFound
from app.web.house import house

_TYPES = {".js": "text/javascript", ".mjs": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
_PACKED = (".js", ".mjs", ".css", ".svg", ".txt", ".toml")
_FOR_EVER = "public, max-age=31536000, immutable"
# A page from before an upgrade asks for an address that is gone: it gets what there is, but not to keep.
_ONCE = "no-cache"

ENTRY = "js/app.js"
SHEET = "app.css"


class Unjoinable(Exception):
    """A module cannot be joined with the others; the text names it."""


@dataclass(frozen=True)
class Asset:
    """One file as it is served."""

    path: str
    body: bytes

    @cached_property
    def type(self) -> str:
        suffix = posixpath.splitext(self.path)[1]
        kind = _TYPES.get(suffix) or mimetypes.guess_type(self.path)[0] or "application/octet-stream"
        return f"{kind}; charset=utf-8" if suffix in _PACKED else kind

    @cached_property
    def packed(self) -> bytes | None:
        """The body under gzip, made at the first request for it; None where that gains nothing."""
        if not self.path.endswith(_PACKED):
            return None
        return gzip.compress(self.body, 9, mtime=0)


class Assets:
    """All static files by their path below `/static/<version>/`."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self._files = {path: Asset(path, body) for path, body in files.items()}
        digest = hashlib.sha256()
        for path in sorted(files):
            digest.update(path.encode() + b"\0" + hashlib.sha256(files[path]).digest())
        self.version = digest.hexdigest()[:12]

    @classmethod
    def load(cls, folder: Path) -> "Assets":
        """Read and join what lies in `folder`. Raises Unjoinable, OSError."""
        files = {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        }
        sheets = {path: body for path, body in files.items() if path.startswith("css/")}
        others = {path: body for path, body in files.items() if path not in sheets}
        return cls(others | {SHEET: join_sheets(sheets)} | join_modules(others))

    def find(self, path: str) -> Asset | None:
        return self._files.get(path)

    def __iter__(self) -> Iterator[Asset]:
        return iter(self._files.values())


async def serve(request: Request) -> Response:
    """`GET /static/{version}/{path}`. Raises NotFound."""
    assets = house(request).render.assets
    asset = assets.find(request.path_params["path"])
    if asset is None:
        raise NotFound
    current = request.path_params["version"] == assets.version
    headers = {"cache-control": _FOR_EVER if current else _ONCE, "vary": "accept-encoding"}
    if asset.packed is not None and "gzip" in request.headers.get("accept-encoding", ""):
        return Response(asset.packed, headers=headers | {"content-encoding": "gzip"}, media_type=asset.type)
    return Response(asset.body, headers=headers, media_type=asset.type)


# --- sheets -----------------------------------------------------------------------------------------------

_FIRST = "css/layers.css"
_COMMENT = re.compile(rb"/\*.*?\*/", re.DOTALL)
_BLANK = re.compile(rb"\n\s+")


def join_sheets(sheets: dict[str, bytes]) -> bytes:
    """One sheet of all, without comments and indents. Cascade layers, not the order of files, decide."""
    names = sorted(sheets, key=lambda name: (name != _FIRST, name))
    return b"".join(_BLANK.sub(b"\n", _COMMENT.sub(b"", sheets[name])) for name in names)


# --- modules ----------------------------------------------------------------------------------------------

_IMPORT = re.compile(
    r'^import\s+(?:\{(?P<names>[^}]*)\}\s+from\s+)?"(?P<path>\.[^"]+)";[ \t]*\n', re.MULTILINE
)
_LOADED = re.compile(r'\bimport\("(\.[^"]+)"\)')
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function\*?|const|let|class) )", re.MULTILINE)
_NAMED = re.compile(
    r"^(?P<export>export )?(?:async )?(?:function\*?|const|let|class) (?P<name>[\w$]+)", re.MULTILINE
)


def join_modules(files: dict[str, bytes], entry: str = ENTRY) -> dict[str, bytes]:
    """`entry` joined with all that it imports, and for each of these the module that exports it again."""
    if entry not in files:
        return {}
    sources: dict[str, str] = {}
    _collect(files, entry, sources)
    _check_names(sources)
    joined = "".join(_bare(path, source, entry) for path, source in sources.items())
    exports = {path: _exports(source) for path, source in sources.items()}
    every = [name for names in exports.values() for name in names]
    again = {path: _again(path, names, entry) for path, names in exports.items() if path != entry}
    later = {
        path: _short(path, source.decode(), entry, exports)
        for path, source in files.items()
        if path.startswith("js/") and path.endswith(".js") and path not in exports
    }
    return again | later | {entry: f"{joined}export {{ {', '.join(every)} }};\n".encode()}


def _collect(files: dict[str, bytes], path: str, into: dict[str, str]) -> None:
    """Read `path` after what it imports, each once."""
    if path not in files:
        raise Unjoinable(f"static/{path} is imported but is not there")
    source = files[path].decode()
    into[path] = ""  # seen: two modules may import each other
    for target in [_resolve(path, match["path"]) for match in _IMPORT.finditer(source)]:
        if target not in into:
            _collect(files, target, into)
    del into[path]
    into[path] = source  # now behind all that it imports


def _resolve(path: str, relative: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), relative))


def _bare(path: str, source: str, entry: str) -> str:
    """`source` without its imports and exports, what it loads later named as seen from `entry`."""

    def moved(match: re.Match[str]) -> str:
        return f'import("{_relative(_resolve(path, match[1]), entry)}")'

    bare = _EXPORT.sub("", _IMPORT.sub("", source))
    if left := re.search(r"^(import|export) .*", bare, re.MULTILINE):
        raise Unjoinable(f"static/{path}: '{left[0]}' cannot be joined")
    return _LOADED.sub(moved, bare)


def _exports(source: str) -> list[str]:
    return [match["name"] for match in _NAMED.finditer(source) if match["export"]]


def _again(path: str, names: list[str], entry: str) -> bytes:
    exported = f"export {{ {', '.join(names)} }} from" if names else "import"
    return f'{exported} "{_relative(entry, path)}";\n'.encode()


def _short(path: str, source: str, entry: str, joined: Container[str]) -> bytes:
    """A module that is loaded later, taking what it imports straight from the joined one: a request saved each."""

    def straight(match: re.Match[str]) -> str:
        if _resolve(path, match["path"]) not in joined:
            return match[0]
        return match[0].replace(f'"{match["path"]}"', f'"{_relative(entry, path)}"')

    return _IMPORT.sub(straight, source).encode()


def _relative(target: str, path: str) -> str:
    """The address of `target` as the module at `path` names it."""
    found = posixpath.relpath(target, posixpath.dirname(path))
    return found if found.startswith(".") else "./" + found


def _check_names(sources: dict[str, str]) -> None:
    owners: dict[str, str] = {}
    for path, source in sources.items():
        for match in _NAMED.finditer(source):
            if owners.setdefault(match["name"], path) != path:
                raise Unjoinable(
                    f"static/{path}: '{match['name']}' is a name of {owners[match['name']]}, too"
                )
