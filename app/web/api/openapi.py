"""The document of the API (OpenAPI 3.1), made from the site map and from what each operation declares, and its page."""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response

from app import __version__
from app.core import errors
from app.core.errors import NightdeskError
from app.web.api import reference, shapes
from app.web.api.operation import Bytes, Operation, operation
from app.web.api.schema import Schema, schema_of
from app.web.house import house
from app.web.problems import Problem, status_of

if TYPE_CHECKING:  # the site map imports this module
    from app.web.routes import Site

JSON = "application/json"
PROBLEM = "application/problem+json"

_ABOUT = """\
Everything that the pages of Nightdesk can do with chats, messages, replies, models and files.

Send `Authorization: Bearer nd_...` with an API key. Errors are problem documents (RFC 9457). Whatever is made takes an
`Idempotency-Key`: sent again with the same key, a request is answered as before and makes nothing new. Times are
RFC 3339 in UTC; lists are `{"items": [...], "next": cursor or null}`.
"""


def served(sites: "Callable[[], Sequence[Site]]") -> tuple[Operation, Operation]:
    """The operations that give the document of `sites`, as JSON and as a page. Made when it is first asked for."""

    @cache
    def made(root: str) -> Schema:
        return document(sites(), root)

    @operation(gives={200: Bytes(JSON, "This document")})
    async def openapi(request: Request) -> Response:
        """Read this document."""
        found = made(house(request).settings.root_path)
        return Response(json.dumps(found, ensure_ascii=False), media_type=JSON)

    @operation(gives={200: Bytes("text/html", "A page")})
    async def docs(request: Request) -> Response:
        """Read this document as a page."""
        here = house(request)
        found = reference.of(made(here.settings.root_path))
        return here.render.page(request, "api/docs.html", reference=found)

    return openapi, docs


def document(sites: "Iterable[Site]", root: str = "") -> Schema:
    """The document of those of `sites` that are operations, served below `root`."""
    named: dict[str, Schema] = {}
    schema_of(shapes.Problem, named)
    paths: dict[str, Schema] = {}
    for site in sites:
        if isinstance(site.handler, Operation):
            for method in site.methods:
                paths.setdefault(site.path, {})[method.lower()] = _operation(
                    site, method, site.handler, named
                )
    return {
        "openapi": "3.1.0",
        "info": {"title": "Nightdesk", "version": __version__, "description": _ABOUT},
        "servers": [{"url": root or "/"}],
        "paths": paths,
        "components": {
            "schemas": dict(sorted(named.items())),
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer", "description": "An API key"},
                "session": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": "sid",
                    "description": "A browser's session",
                },
            },
        },
    }


def _operation(site: "Site", method: str, declared: Operation, named: dict[str, Schema]) -> Schema:
    name = re.sub(r"\W+", "_", f"{method.lower()} {site.path.removeprefix('/api/v1')}").strip("_")
    described: Schema = {
        "operationId": name,
        "tags": [declared.resource],
        "summary": declared.summary,
    }
    if declared.description:
        described["description"] = declared.description
    if parameters := _parameters(site, declared):
        described["parameters"] = parameters
    if declared.takes is not None:
        described["requestBody"] = _body(declared.takes)
    described["responses"] = _successes(declared, named) | _failures(site, declared)
    described["security"] = [] if site.needs == "nobody" else [{"key": []}, {"session": []}]
    if site.needs != "nobody":
        described["x-needs"], described["x-scope"] = site.needs, site.scope
    return described


def _parameters(site: "Site", declared: Operation) -> list[Schema]:
    found: list[Schema] = []
    if "{id}" in site.path:
        found.append(
            {"name": "id", "in": "path", "required": True, "schema": {"type": "string", "format": "uuid"}}
        )
    if declared.query is not None:
        for name, schema in schema_of(declared.query)["properties"].items():
            found.append({"name": name, "in": "query", "schema": schema})
    if declared.key != "none":
        schema = {"type": "string", "minLength": 1, "maxLength": 200}
        required = declared.key == "required"
        found.append({"name": "Idempotency-Key", "in": "header", "required": required, "schema": schema})
    return found


def _body(takes: Any) -> Schema:
    if isinstance(takes, Bytes):
        file = {"type": "string", "contentMediaType": "application/octet-stream"}
        form = {"type": "object", "required": ["file"], "properties": {"file": file}}
        return {"required": True, "content": {takes.media: {"schema": form}}}
    schema = schema_of(takes)
    return {"required": "required" in schema, "content": {JSON: {"schema": schema}}}


def _successes(declared: Operation, named: dict[str, Schema]) -> Schema:
    return {str(status): _success(gives, named) for status, gives in declared.gives.items()}


def _success(gives: Any, named: dict[str, Schema]) -> Schema:
    if gives is None:
        return {"description": "Nothing to tell"}
    if isinstance(gives, Bytes):
        return {"description": gives.description, "content": {gives.media: {}}}
    return {"description": "As asked", "content": {JSON: {"schema": schema_of(gives, named)}}}


# --- what can go wrong ------------------------------------------------------------------------------------


def _failures(site: "Site", declared: Operation) -> Schema:
    by_status: dict[int, list[str]] = {}
    for kind in dict.fromkeys((*_usual(site, declared), *declared.raises)):
        title = Problem(kind.name, 0, "").title
        by_status.setdefault(status_of(kind), []).append(f"`{kind.name}`: {title}")
    failures = {str(status): _problem("; ".join(said)) for status, said in sorted(by_status.items())}
    return failures | {"default": _problem("Any other problem: `closing`, `storage`, `error`, ...")}


def _usual(site: "Site", declared: Operation) -> Iterable[type[NightdeskError]]:
    """What can go wrong without being declared."""
    if declared.takes is not None or declared.query is not None or declared.key != "none":
        yield errors.Invalid
    if declared.takes is not None:
        yield errors.TooLong
    if site.needs != "nobody":
        yield errors.SignInNeeded
        yield errors.NotAllowed
    if "{id}" in site.path:
        yield errors.NotFound


def _problem(description: str) -> Schema:
    schema = {"$ref": "#/components/schemas/Problem"}
    return {"description": description, "content": {PROBLEM: {"schema": schema}}}
