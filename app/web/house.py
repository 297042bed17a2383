"""What a handler can reach, and who is asking.

`main` builds one `House` and puts it on `app.state.house`; nothing else is shared between handlers. `person`
and `admin` are the only ways to learn who is asking: identity comes from the session or the key, never from a
path, a query or a body.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from starlette.requests import Request

from app.accounts.access import Person
from app.core.errors import NotAllowed, SignInNeeded
from app.core.ids import UserId

if TYPE_CHECKING:  # these modules are handed things by `main`; importing them here would be a circle
    from app.accounts.people import People
    from app.accounts.rates import Rates
    from app.accounts.sessions import Sessions
    from app.accounts.vault import Vault
    from app.replies.accept import Accepting
    from app.replies.feed import Bulletin
    from app.replies.models import Models
    from app.replies.registry import Registry
    from app.store.engine import Database
    from app.store.files import FileStore
    from app.store.folder import DataFolder
    from app.tasks import Tasks
    from app.web.live import Views
    from app.web.render import Render


@dataclass(frozen=True, slots=True)
class WebSettings:
    """What the web needs to know of the settings."""

    root_path: str = ""
    """The path under which a proxy serves Nightdesk: empty, or `/` and a name without a slash at its end."""
    allowed_hosts: tuple[str, ...] = ()
    """Host names, without a port, besides those that `origins.is_at_home` knows."""
    single_user: bool = False
    """Everybody who reaches the address is the one person of this house."""
    max_body: int = 1024 * 1024
    """The largest body of a request, in bytes."""
    max_upload: int = 100 * 1024 * 1024
    """The largest uploaded file, in bytes."""
    max_text: int = 256 * 1024
    """The longest text of one message, in bytes of UTF-8."""


@dataclass(frozen=True, slots=True)
class House:
    """Everything that a handler needs. At `request.app.state.house`."""

    settings: WebSettings
    folder: "DataFolder"
    db: "Database"
    tasks: "Tasks"
    sessions: "Sessions"
    people: "People"
    vault: "Vault"
    rates: "Rates"
    models: "Models"
    accepting: "Accepting"
    registry: "Registry"
    bulletin: "Bulletin"
    files: "FileStore"
    render: "Render"
    views: "Views"


def house(request: Request) -> House:
    """The house that answers this request."""
    return cast(House, request.app.state.house)


def visitor(request: Request) -> Person | None:
    """Who is asking, or None for nobody; for pages that anybody may see."""
    state: Mapping[str, Any] = request.scope["state"]
    return cast(Person | None, state.get("person"))


def person(request: Request) -> Person:
    """Who is asking. Raises SignInNeeded."""
    found = visitor(request)
    if found is None:
        raise SignInNeeded
    return found


def user(request: Request) -> UserId:
    """The id of who is asking: the owner through whom every object is loaded. Raises SignInNeeded."""
    return person(request).id


def admin(request: Request) -> Person:
    """The administrator who is asking. Raises SignInNeeded, NotAllowed."""
    found = person(request)
    if found.role != "admin":
        raise NotAllowed("Only an administrator can do this.")
    return found


def address(request: Request) -> str:
    """Where the request came from; forwarded headers have counted only if a trusted proxy sent them."""
    return request.client.host if request.client else ""


def request_id(request: Request) -> str:
    """The short id under which this request stands in the log."""
    return cast(str, request.scope["state"].get("request_id", ""))
