"""Who did what: rows that only grow, each bound to the one before by its hash (`store.audit`).

Written in the transaction of what they tell of, so that neither can be there without the other. No row holds
a secret, a token or the text of a message.
"""

from typing import Any, Literal

from app.accounts.access import Person
from app.core.ids import UserId
from app.store import audit as rows
from app.store.engine import Database, Session
from app.store.tables import User

Action = Literal[
    "setup",
    "sign-in",
    "sign-in refused",
    "sign-out",
    "sign-in link made",
    "sign-in link used",
    "session revoked",
    "key made",
    "key revoked",
    "account made",
    "account disabled",
    "account enabled",
    "role changed",
    "password changed",
    "secret set",
    "secret removed",
    "secrets sealed anew",
    "setting changed",
]

# Who acts where nobody has signed in: somebody at the server's own command line.
CONSOLE = "command line"


async def note(
    s: Session,
    action: Action,
    by: Person | User | None,
    *,
    target: str = "",
    address: str = "",
    detail: dict[str, Any] | None = None,
) -> None:
    """Append one row. `by` is None for the command line and for a sign-in that was refused."""
    name = by.name if by is not None else "" if action == "sign-in refused" else CONSOLE
    await rows.append_audit(
        s,
        action=action,
        actor=UserId(by.id) if by else None,
        actor_name=name,
        target=target,
        detail=detail,
        address=address,
    )


async def verify(db: Database) -> int | None:
    """The number of the first row that was changed, removed or slipped in; None: the log is whole."""
    async with db.read() as s:
        return await rows.broken_link(s)
