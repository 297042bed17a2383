"""Accounts: who there is, what they are, and the one-time links by which they come in.

A link's token is like a session's: random, stored as its hash, claimed by one statement, dead after its use
or its time. The setup link alone makes the first administrator; everybody else is invited.
"""

import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from app.accounts import audit
from app.accounts.access import ROLES, Person, Role
from app.accounts.names import checked_name, folded
from app.accounts.passwords import Passwords, checked
from app.accounts.rates import Rates
from app.accounts.sessions import DAY, Sessions, SignedIn, digest, new_token
from app.core.clock import now_ms
from app.core.errors import Invalid, NotAllowed, NotFound
from app.core.ids import UserId
from app.store import people
from app.store.engine import Database, Session
from app.store.folder import DataFolder
from app.store.tables import User

# How long a link stays good, in ms.
SETUP, INVITATION, RESET = DAY, 3 * DAY, DAY


@dataclass(frozen=True, slots=True)
class Welcome:
    """Whom a sign-in link is for. `password` says that they have one, and may keep it."""

    name: str
    password: bool


class LinkSpent(NotAllowed):
    """A one-time link that was used, is too old, or never was one."""

    name = "link-spent"

    def __init__(
        self, person: str = "This link was used already or is too old. Ask an administrator for a new one."
    ) -> None:
        super().__init__(person)


class People:
    """Everybody who has an account."""

    def __init__(
        self, db: Database, folder: DataFolder, sessions: Sessions, passwords: Passwords, rates: Rates
    ) -> None:
        self._db = db
        self._sessions = sessions
        self._passwords = passwords
        self._rates = rates
        self._link_file = folder.path / "setup-link"
        self._when_disabled: list[Callable[[UserId], Awaitable[None]]] = []

    def on_disabled(self, stop: Callable[[UserId], Awaitable[None]]) -> None:
        """Have `stop` awaited for each account that is disabled; it ends what still runs for it."""
        self._when_disabled.append(stop)

    # The first start

    async def setup_link(self, address: str = "") -> str | None:
        """A new setup link below `address`, also written to DATA/setup-link; None once there is an
        administrator.

        The one of the start before ends with it.
        """
        token = new_token()

        async def renew(s: Session) -> bool:
            if await people.count_admins(s):
                return False
            await people.add_link(s, kind="setup", token_hash=digest(token), expires=now_ms() + SETUP)
            return True

        if not await self._db.write(renew):
            self._link_file.unlink(missing_ok=True)
            return None
        link = f"{address}/setup?token={token}"
        self._write_link(link)
        return link

    def _write_link(self, link: str) -> None:
        with suppress(FileNotFoundError):
            self._link_file.unlink()
        file = os.open(self._link_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(file, "w") as out:
            out.write(link + "\n")

    async def is_empty(self) -> bool:
        """Whether there is no administrator yet."""
        async with self._db.read() as s:
            return await people.count_admins(s) == 0

    async def is_setup_open(self, token: str) -> bool:
        """Whether the setup link would be taken now; nothing is used up."""
        async with self._db.read() as s:
            return await people.link_by_hash(s, "setup", digest(token), now_ms()) is not None

    async def claim_setup(
        self, token: str, name: str, password: str, address: str = "", agent: str = ""
    ) -> SignedIn:
        """Make the first administrator and sign them in. Of any number who try at once, one succeeds.

        Raises LinkSpent, Invalid, TooManyTries.
        """
        self._rates.link(address)
        if not await self.is_setup_open(token):
            raise LinkSpent
        name = checked_name(name)
        stored = await self._passwords.hash(checked(password, name))

        async def claim(s: Session) -> SignedIn:
            link = await people.claim_link(s, "setup", digest(token), now_ms())
            if link is None or await people.count_admins(s):
                raise LinkSpent
            user = await _add(s, name, "admin", stored)
            await audit.note(s, "setup", user, address=address)
            return await self._sessions.begin(s, user, address, agent)

        signed_in = await self._db.write(claim)
        self._link_file.unlink(missing_ok=True)
        return signed_in

    async def move_in(self, csrf: str) -> Person:
        """Whose house this is in single-user mode: the first administrator, made if there is none.

        `csrf` is the token of their pages, the same at each start so that pages outlive it.
        """

        async def find(s: Session) -> User:
            admins = [u for u in await people.users(s) if u.role == "admin" and not u.disabled]
            return admins[0] if admins else await _add(s, "me", "admin", None)

        user = await self._db.write(find)
        return Person(
            UserId(user.id), user.name, "admin", "single-user", csrf=csrf, preferences=user.preferences
        )

    # Coming in

    async def add_user(
        self,
        name: str,
        password: str | None = None,
        role: Role = "member",
        *,
        by: Person | None = None,
        address: str = "",
    ) -> User:
        """A new account; without a password it is entered by link first. Raises Invalid.

        `by` None: the command line.
        """
        name = checked_name(name)
        if role not in ROLES:
            raise Invalid("A person is an admin or a member.", field="role")
        stored = None if password is None else await self._passwords.hash(checked(password, name))

        async def add(s: Session) -> User:
            user = await _add(s, name, role, stored)
            await audit.note(s, "account made", by, target=user.name, address=address, detail={"role": role})
            return user

        user = await self._db.write(add)
        if role == "admin":
            self._link_file.unlink(missing_ok=True)
        return user

    async def invite(self, name: str, role: Role, by: Person, address: str = "") -> str:
        """A new account and the token of the link by which its person comes in. Raises Invalid."""
        user = await self.add_user(name, role=role, by=by, address=address)
        return await self._link_for(user, INVITATION, by, address)

    async def reset(self, name: str, *, by: Person | None = None, address: str = "") -> str:
        """The token of a new sign-in link for `name`; the one before is void. Raises NotFound, NotAllowed."""
        async with self._db.read() as s:
            user = await people.user_by_name(s, folded(name))
        if user is None:
            raise NotFound(f"There is nobody called '{name}'.")
        if user.disabled:
            raise NotAllowed(
                f"The account '{user.name}' is disabled. Enable it first under Settings, People."
            )
        return await self._link_for(user, RESET, by, address)

    async def _link_for(self, user: User, lifetime: int, by: Person | None, address: str) -> str:
        token = new_token()

        async def add(s: Session) -> None:
            expires = now_ms() + lifetime
            await people.add_link(
                s, kind="sign-in", token_hash=digest(token), expires=expires, user=UserId(user.id)
            )
            await audit.note(s, "sign-in link made", by, target=user.name, address=address)

        await self._db.write(add)
        return token

    async def welcome(self, token: str) -> Welcome | None:
        """Whom a sign-in link would let in now; nothing is used up."""
        async with self._db.read() as s:
            link = await people.link_by_hash(s, "sign-in", digest(token), now_ms())
            user = await people.user(s, UserId(link.user)) if link and link.user else None
        if user is None or user.disabled:
            return None
        return Welcome(user.name, password=user.password is not None)

    async def claim_link(self, token: str, password: str | None, address: str, agent: str) -> SignedIn:
        """Sign in by link. A password given with it counts from now on, and ends all other sessions.

        Raises LinkSpent, TooManyTries, and Invalid for a poor password or none where the account has none
        yet.
        """
        self._rates.link(address)
        found = await self.welcome(token)
        if found is None:
            raise LinkSpent
        if password is None and not found.password:
            raise Invalid("Choose a password to come in with from now on.", field="password")
        stored = None if password is None else await self._passwords.hash(checked(password, found.name))
        signed_in, ended = await self._db.write(lambda s: self._claim(s, token, stored, address, agent))
        self._sessions.forget(ended=ended)
        return signed_in

    async def _claim(
        self, s: Session, token: str, stored: str | None, address: str, agent: str
    ) -> tuple[SignedIn, list[str]]:
        link = await people.claim_link(s, "sign-in", digest(token), now_ms())
        user = await people.user(s, UserId(link.user)) if link and link.user else None
        if user is None or user.disabled:
            raise LinkSpent
        await audit.note(s, "sign-in link used", user, address=address)
        ended: list[str] = []
        if stored is not None:
            ended = await self._set_password(s, user, stored, user, address, but=None)
        return await self._sessions.begin(s, user, address, agent), ended

    # Changing

    async def everybody(self) -> list[User]:
        """All accounts, oldest first."""
        async with self._db.read() as s:
            return await people.users(s)

    async def change_password(self, person: Person, old: str, new: str, address: str) -> None:
        """A new password; all other sessions end. Raises Invalid (`field` at fault) and TooManyTries."""
        async with self._db.read() as s:
            user = await _existing(s, person.id)
        if user.password is not None:
            account = user.name_folded
            self._rates.sign_in(account, address)
            if not await self._passwords.verify(user.password, old):
                raise Invalid("This is not the password you have now.", field="old")
            self._rates.signed_in(account, address)
        stored = await self._passwords.hash(checked(new, user.name))
        ended = await self._db.write(
            lambda s: self._set_password(s, user, stored, person, address, but=person.session)
        )
        self._sessions.forget(ended=ended)

    async def _set_password(
        self, s: Session, user: User, stored: str, by: Person | User, address: str, *, but: str | None
    ) -> list[str]:
        """The sessions that end with it, to be forgotten once that is stored: before, they could be found again."""
        await people.set_password(s, UserId(user.id), stored)
        await audit.note(s, "password changed", by, target=user.name, address=address)
        return await people.drop_sessions(s, UserId(user.id), but=but)

    async def set_role(self, user_id: UserId, role: Role, by: Person, address: str) -> None:
        """Make somebody an administrator or a member; their sessions end, and they sign in as what they are
        now.

        Raises NotFound, Invalid, and NotAllowed for the last administrator.
        """
        if role not in ROLES:
            raise Invalid("A person is an admin or a member.", field="role")

        async def change(s: Session) -> list[str]:
            user = await _existing(s, user_id)
            if user.role == role:
                return []
            await people.set_role(s, user_id, role)
            await _keep_an_admin(s)
            await audit.note(s, "role changed", by, target=user.name, address=address, detail={"role": role})
            return await people.drop_sessions(s, user_id)

        self._sessions.forget(user=user_id, ended=await self._db.write(change))

    async def disable(self, user_id: UserId, by: Person, address: str) -> None:
        """Shut somebody out: sessions and streams end at once, keys stop working, replies are stopped.

        Raises NotFound, and NotAllowed for oneself or the last administrator.
        """
        if user_id == by.id:
            raise NotAllowed("You can’t disable your own account.")

        async def change(s: Session) -> list[str]:
            user = await _existing(s, user_id)
            await people.set_disabled(s, user_id, True)
            await _keep_an_admin(s)
            await audit.note(s, "account disabled", by, target=user.name, address=address)
            return await people.drop_sessions(s, user_id) + [
                key.id for key in await people.keys_of(s, user_id)
            ]

        self._sessions.forget(user=user_id, ended=await self._db.write(change))
        for stop in self._when_disabled:
            await stop(user_id)

    async def enable(self, user_id: UserId, by: Person, address: str) -> None:
        """Let somebody in again; their keys work as before. Raises NotFound."""

        async def change(s: Session) -> None:
            user = await _existing(s, user_id)
            await people.set_disabled(s, user_id, False)
            await audit.note(s, "account enabled", by, target=user.name, address=address)

        await self._db.write(change)
        self._sessions.forget(user=user_id)


async def _add(s: Session, name: str, role: Role, stored: str | None) -> User:
    if await people.user_by_name(s, folded(name)) is not None:
        raise Invalid(f"There is somebody called '{name}' already.", field="name")
    return await people.add_user(s, name=name, name_folded=folded(name), role=role, password=stored)


async def _existing(s: Session, user_id: UserId) -> User:
    user = await people.user(s, user_id)
    if user is None:
        raise NotFound("There is no such person.")
    return user


async def _keep_an_admin(s: Session) -> None:
    if not await people.count_admins(s):
        raise NotAllowed("Somebody has to stay administrator. Make another person one first.")
