"""What an operation of the API declares of itself, beside its handler:

    @operation(takes=NewChat, gives={201: shapes.Chat}, raises=[UnknownModel])
    async def create(request: Request) -> Response:
        \"\"\"Begin a chat.\"\"\"

The docstring is what the served document says of it. Path, methods, role and scope stand in the site map.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import cleandoc
from typing import Any, Literal

from starlette.requests import Request
from starlette.responses import Response

from app.core.errors import NightdeskError
from app.web.middleware import Handler

Key = Literal["none", "optional", "required"]


@dataclass(frozen=True, slots=True)
class Bytes:
    """An answer, or a body, that is no JSON."""

    media: str
    description: str


@dataclass(frozen=True, slots=True)
class Operation:
    """A handler with its declaration; called like the handler itself.

    `gives` maps each status of success to the type of its answer, or None for none; `takes` is the type of the body,
    `query` that of the query. `key` says what becomes of an Idempotency-Key.
    """

    handler: Handler
    gives: Mapping[int, Any]
    takes: Any = None
    query: Any = None
    raises: Sequence[type[NightdeskError]] = ()
    key: Key = "none"

    async def __call__(self, request: Request) -> Response:
        return await self.handler(request)

    @property
    def resource(self) -> str:
        """The module that it stands in, which is named after what it is about."""
        return self.handler.__module__.rpartition(".")[2]

    @property
    def summary(self) -> str:
        return self._said[0].rstrip(".")

    @property
    def description(self) -> str:
        return self._said[2]

    @property
    def _said(self) -> tuple[str, str, str]:
        return cleandoc(self.handler.__doc__ or "").partition("\n\n")


def operation(
    *,
    gives: Mapping[int, Any],
    takes: Any = None,
    query: Any = None,
    raises: Sequence[type[NightdeskError]] = (),
    key: Key = "none",
) -> Callable[[Handler], Operation]:
    """Declare the handler below to be an operation of the API."""
    return lambda handler: Operation(handler, gives, takes, query, raises, key)
