"""From a token to a person: login sessions and API keys.

A token is 256 random bits; only its SHA-256 is stored. What has been looked up once is kept in memory, so
that a request costs no query; every change of a session, key or account goes through here or through `people`
and forgets what it touches. This process is the only one that writes the database, so memory and database
cannot part.
"""

import hashlib
import logging
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from app.accounts import audit
from app.accounts.access import SCOPES, Person, Role, Scope
from app.accounts.names import checked_name, folded
from app.accounts.passwords import Passwords
from app.accounts.rates import Rates
from app.core.clock import now_ms
from app.core.errors import Invalid, NightdeskError, NotAllowed, NotFound
from app.core.ids import UserId
from app.store import people
from app.store.engine import Database, Session
from app.store.tables import ApiKey, LoginSession, User
from app.tasks import Tasks

logger = logging.getLogger(__name__)

DAY = 24 * 60 * 60 * 1000
IDLE, LONGEST = 14 * DAY, 90 * DAY

# How old the noted time of the last use may grow before it is written again, in ms.
_FRESH = 5 * 60 * 1000

_KEY_MARK = "nd_"
_MOST_KEYS = 50

# How many ids of ended sessions and keys are kept, for requests that were let in just before.
_MOST_ENDED = 10_000


def digest(token: str) -> str:
    """What is stored of a token. Plain SHA-256: there is nothing to guess in 256 random bits."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def new_token() -> str:
    """256 random bits as 43 characters that may stand in a URL or a cookie."""
    return secrets.token_urlsafe(32)


@dataclass(slots=True)
class _Known:
    """Somebody who was here since the start, by a session or a key. Times in ms; `expires` None: never."""

    person: Person
    created: int
    seen: int
    expires: int | None


@dataclass(frozen=True, slots=True)
class SignedIn:
    """A sign-in that went well: the token for the cookie, and who it stands for."""

    token: str
    person: Person


class WrongCredentials(NotAllowed):
    """Name and password do not fit; nothing says which of them."""

    name = "wrong-credentials"


class Sessions:
    """Everybody's sessions and keys."""

    def __init__(self, db: Database, tasks: Tasks, passwords: Passwords, rates: Rates) -> None:
        self._db = db
        self._tasks = tasks
        self._passwords = passwords
        self._rates = rates
        self._known: dict[str, _Known] = {}
        self._changes = 0
        self._watchers: dict[str, set[Callable[[], None]]] = {}
        self._ended: dict[str, None] = {}
        self._only: Person | None = None

    # Who is asking

    async def by_token(self, token: str) -> Person | None:
        """The person behind a session's cookie; None once it is over. Raises StorageFault, never None for
        one.
        """
        hashed = digest(token)
        known = self._known.get(hashed) or await self._recall(hashed, _session_in)
        if known is None or known.person.via != "session":
            return None
        now = now_ms()
        if known.expires is not None and known.expires <= now:
            return None
        self._note_use(known, now)
        return known.person

    async def by_key(self, token: str) -> Person | None:
        """The person behind an API key. Raises StorageFault."""
        if not token.startswith(_KEY_MARK):
            return None
        hashed = digest(token)
        known = self._known.get(hashed) or await self._recall(hashed, _key_in)
        if known is None or known.person.via != "key":
            return None
        self._note_use(known, now_ms())
        return known.person

    def single_user(self) -> Person:
        """The one person of a house without sign-in; `people.move_in` has said who it is."""
        assert self._only is not None, "nobody has moved in"
        return self._only

    def be_single(self, only: Person) -> None:
        """From now on `single_user` is this person."""
        self._only = only

    async def _recall(self, hashed: str, find: "_Find") -> _Known | None:
        # A revocation between the read and the next line must not be undone by remembering what was read
        # before it.
        while True:
            changes = self._changes
            async with self._db.read() as s:
                found = await find(s, hashed)
            if changes == self._changes:
                break
        if found is not None:
            self._known[hashed] = found
            self._ended.pop(_holder(found.person), None)  # a key of an account that was enabled again
        return found

    def _note_use(self, known: _Known, now: int) -> None:
        if now - known.seen < _FRESH:
            return
        known.seen = now
        if known.expires is not None:
            known.expires = min(known.created + LONGEST, now + IDLE)
        self._tasks.start("note use", self._write_use(known))

    async def _write_use(self, known: _Known) -> None:
        async def write(s: Session) -> None:
            if known.person.session is not None:
                await people.touch_session(s, known.person.session, known.seen, known.expires)
            elif known.person.key is not None:
                await people.touch_key(s, known.person.key, known.seen)

        try:
            await self._db.write(write)
        except NightdeskError as error:  # a full disk, or the server is closing: nobody is signed out for it
            logger.info("the last use of a session was not noted: %s", error)
            known.seen = 0

    # Ending

    def on_revoked(self, person: Person, ended: Callable[[], None]) -> Callable[[], None]:
        """Have `ended` called when the session or key of `person` ends: open streams close at once. If it has
        ended since the request was let in, that is now.

        Returns what takes the watch away again.
        """
        if _holder(person) in self._ended:
            ended()
        watchers = self._watchers.setdefault(_holder(person), set())
        watchers.add(ended)

        def detach() -> None:
            watchers.discard(ended)
            if not watchers and self._watchers.get(_holder(person)) is watchers:
                del self._watchers[_holder(person)]

        return detach

    def forget(self, *, user: UserId | None = None, ended: Iterable[str] = ()) -> None:
        """Look up anew what is known of `user`, and end the sessions and keys with the ids `ended`."""
        self._changes += 1
        over = frozenset(ended)
        self._ended |= dict.fromkeys(over)
        for old in list(self._ended)[: max(0, len(self._ended) - _MOST_ENDED)]:
            del self._ended[old]
        self._known = {
            hashed: known
            for hashed, known in self._known.items()
            if known.person.id != user and _holder(known.person) not in over
        }
        for holder in over:
            for call in list(self._watchers.pop(holder, ())):
                call()

    async def sweep(self) -> None:
        """Remove what has expired and end its streams; every few minutes."""
        ended = await self._db.write(lambda s: people.drop_expired(s, now_ms()))
        if ended:
            self.forget(ended=ended)

    # Signing in and out

    async def sign_in(self, name: str, password: str, address: str, agent: str) -> SignedIn:
        """A new session, with a token nobody had before. Raises WrongCredentials, NotAllowed, TooManyTries.

        An unknown name takes as long as a wrong password and is told the same.
        """
        account = folded(name)
        self._rates.sign_in(account, address)
        async with self._db.read() as s:
            user = await people.user_by_name(s, account)
        right = await self._passwords.verify(user.password if user else None, password)
        if user is None or not right:
            await self._refuse(user, account, address)
        assert user is not None
        self._rates.signed_in(account, address)
        if user.disabled:
            raise NotAllowed("This account is disabled. An administrator can enable it again.")
        assert user.password is not None
        anew = await self._passwords.hash(password) if self._passwords.is_outdated(user.password) else None
        return await self._db.write(lambda s: self._begin(s, user, address, agent, anew))

    async def _refuse(self, user: User | None, account: str, address: str) -> None:
        # A name that nobody has may be a password typed into the wrong field: it is kept nowhere.
        target = account if user else ""
        await self._db.write(lambda s: audit.note(s, "sign-in refused", None, target=target, address=address))
        left = self._rates.sign_ins_left(account, address)
        raise WrongCredentials(f"Name and password don’t match. {_tries(left)}")

    async def _begin(self, s: Session, user: User, address: str, agent: str, anew: str | None) -> SignedIn:
        if anew is not None:
            await people.set_password(s, UserId(user.id), anew)
        await audit.note(s, "sign-in", user, address=address)
        return await self.begin(s, user, address, agent)

    async def begin(self, s: Session, user: User, address: str, agent: str) -> SignedIn:
        """A new session of `user`, who has shown who they are."""
        token, csrf = new_token(), new_token()
        row = await people.add_session(
            s,
            user=UserId(user.id),
            token_hash=digest(token),
            csrf=csrf,
            expires=now_ms() + IDLE,
            agent=agent[:200],
            address=address,
        )
        return SignedIn(token, _person_of_session(row, user))

    async def sign_out(self, person: Person, address: str) -> None:
        """End the session that `person` came with. A key has none."""
        if person.session is not None:
            await self._end(person, person.session, "sign-out", address)

    async def sessions_of(self, user: UserId) -> list[LoginSession]:
        """The sessions of a person, the last used first."""
        async with self._db.read() as s:
            now = now_ms()
            return [row for row in await people.sessions_of(s, user) if row.expires > now]

    async def revoke(self, person: Person, session: str, address: str) -> None:
        """End one of the person's own sessions and its streams. Raises NotFound."""
        await self._end(person, session, "session revoked", address)

    async def _end(self, person: Person, session: str, action: audit.Action, address: str) -> None:
        async def end(s: Session) -> None:
            if not await people.drop_session(s, session, person.id):
                raise NotFound("This session has ended already.")
            await audit.note(s, action, person, target=session, address=address)

        await self._db.write(end)
        self.forget(ended=[session])

    async def revoke_others(self, person: Person, address: str) -> int:
        """End all sessions of the person but the one they came with; how many those were."""

        async def end(s: Session) -> list[str]:
            await audit.note(s, "session revoked", person, target="all others", address=address)
            return await people.drop_sessions(s, person.id, but=person.session)

        ended = await self._db.write(end)
        self.forget(ended=ended)
        return len(ended)

    async def set_preferences(self, person: Person, changes: Mapping[str, Any]) -> None:
        """Change those of the person's preferences; what may stand in them is the caller's to check."""

        async def change(s: Session) -> dict[str, Any]:
            user = await people.user(s, person.id)
            merged = {**(user.preferences if user else {}), **changes}
            await people.set_preferences(s, person.id, merged)
            return merged

        merged = await self._db.write(change)
        self.forget(user=person.id)
        if self._only is not None and self._only.id == person.id:
            self._only = replace(self._only, preferences=merged)

    # API keys

    async def keys_of(self, user: UserId) -> list[ApiKey]:
        async with self._db.read() as s:
            return await people.keys_of(s, user)

    async def add_key(
        self, user: UserId, name: str, scope: Scope = "all", *, by: Person | None = None, address: str = ""
    ) -> str:
        """A new key, told this once. Raises Invalid. `by` None: the command line."""
        if scope not in SCOPES:
            raise Invalid("A key is for all, read or chat.", field="scope")
        label = checked_name(name, "key")
        token = _KEY_MARK + new_token()

        async def add(s: Session) -> None:
            if len(await people.keys_of(s, user)) >= _MOST_KEYS:
                raise Invalid(f"There are {_MOST_KEYS} keys already. Revoke one that is no longer used.")
            row = await people.add_key(
                s, user=user, name=label, scope=scope, hash=digest(token), prefix=token[:9]
            )
            await audit.note(s, "key made", by, target=row.id, address=address, detail={"scope": scope})

        await self._db.write(add)
        return token

    async def revoke_key(self, person: Person, key: str, address: str) -> None:
        """End one of the person's own keys and its streams. Raises NotFound."""

        async def end(s: Session) -> None:
            if not await people.drop_key(s, key, person.id):
                raise NotFound("This key was revoked already.")
            await audit.note(s, "key revoked", person, target=key, address=address)

        await self._db.write(end)
        self.forget(ended=[key])


_Find = Callable[[Session, str], Awaitable[_Known | None]]


async def _session_in(s: Session, hashed: str) -> _Known | None:
    found = await people.session_by_hash(s, hashed)
    if found is None or found[1].disabled:
        return None
    row, user = found
    return _Known(_person_of_session(row, user), row.created, row.seen, row.expires)


async def _key_in(s: Session, hashed: str) -> _Known | None:
    found = await people.key_by_hash(s, hashed)
    if found is None or found[1].disabled:
        return None
    row, user = found
    person = Person(
        UserId(user.id),
        user.name,
        cast(Role, user.role),
        "key",
        key=row.id,
        scope=cast(Scope, row.scope),
        preferences=user.preferences,
    )
    return _Known(person, row.created, row.seen or 0, None)


def _person_of_session(row: LoginSession, user: User) -> Person:
    return Person(
        UserId(user.id),
        user.name,
        cast(Role, user.role),
        "session",
        session=row.id,
        csrf=row.csrf,
        preferences=user.preferences,
    )


def _holder(person: Person) -> str:
    """The id of what `person` came with."""
    return person.session or person.key or person.via


def _tries(left: int) -> str:
    if left > 3:
        return "Try again."
    return {0: "Try again in a minute.", 1: "One try is left for now."}.get(
        left, f"{left} tries are left for now."
    )
