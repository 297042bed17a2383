"""Who is asking, and what they may touch.

Roles and scopes say which routes are open. They never say whose things are shown: every object is loaded
through its owner, and what is somebody else's does not exist (404), for administrators too.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from app.core.errors import NotAllowed, SignInNeeded
from app.core.ids import UserId

Role = Literal["admin", "member"]
Scope = Literal["all", "read", "chat"]
Needs = Literal["nobody", "member", "admin"]
Area = Literal["chat", "all"]

SCOPES: tuple[Scope, ...] = ("all", "read", "chat")
ROLES: tuple[Role, ...] = ("admin", "member")


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody who has shown who they are, as of this request."""

    id: UserId
    name: str
    role: Role
    via: Literal["session", "key", "single-user"]
    session: str | None = None
    """The id of the login session, which ends this person's streams when it is revoked."""
    key: str | None = None
    """The id of the API key, likewise."""
    scope: Scope = "all"
    csrf: str = ""
    """The token that changes made with a session must carry; empty for a key, which no other site can send."""
    preferences: Mapping[str, Any] = field(default_factory=dict)


def admit(person: Person | None, needs: Needs, area: Area, method: str) -> None:
    """Let `person` pass to a route that needs `needs` and belongs to `area`. Raises SignInNeeded, NotAllowed.

    A key with scope `read` may only look, and one with scope `chat` is kept to chats and messages; neither
    reaches administration, whoever made it.
    """
    if needs == "nobody":
        return
    if person is None:
        raise SignInNeeded
    if needs == "admin" and (person.role != "admin" or person.scope != "all"):
        raise NotAllowed("Only an administrator can do this.")
    if person.scope == "read" and method not in ("GET", "HEAD"):
        raise NotAllowed("This API key may only read.")
    if person.scope == "chat" and area != "chat":
        raise NotAllowed("This API key is for chats and messages alone.")
