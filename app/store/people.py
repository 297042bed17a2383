"""People, their sessions, API keys and one-time links: rows alone. The rules are in `accounts`."""

from typing import Any, Literal

from sqlalchemy import bindparam, delete, func, select, update

from app.core.clock import now_ms
from app.core.errors import NotFound
from app.core.ids import UserId, new_id
from app.store import rows
from app.store.engine import Session
from app.store.prepared import Prepared
from app.store.tables import ApiKey, LoginSession, OneTimeLink, User

Role = Literal["admin", "member"]

_USER = Prepared(select(User.__table__).where(User.id == bindparam("user")))
_SESSION = Prepared(select(LoginSession.__table__).where(LoginSession.token_hash == bindparam("hash")))
_KEY = Prepared(select(ApiKey.__table__).where(ApiKey.hash == bindparam("hash")))


async def user_by_name(s: Session, folded: str) -> User | None:
    """The person of that name, folded as `User.name_folded` is."""
    return await s.scalar(select(User).where(User.name_folded == folded))


async def user(s: Session, user_id: UserId) -> User | None:
    return await _USER.one(s, User, user=user_id)


async def users(s: Session) -> list[User]:
    """Everybody, in the order in which they came."""
    return list((await s.scalars(select(User).order_by(User.created, User.id))).all())


async def add_user(
    s: Session,
    *,
    name: str,
    name_folded: str,
    role: Role,
    password: str | None = None,
    id: UserId | None = None,
    preferences: dict[str, Any] | None = None,
) -> User:
    """`password` is a hash. Raises IntegrityError for a name that is taken."""
    row = User(
        id=id or new_id(),
        name=name,
        name_folded=name_folded,
        role=role,
        password=password,
        created=now_ms(),
        preferences=preferences or {},
    )
    await rows.add(s, row)
    return row


async def set_password(s: Session, user_id: UserId, password: str | None) -> None:
    """`password` is a hash, or None: in by link alone. Raises NotFound."""
    await _set(s, user_id, password=password)


async def set_disabled(s: Session, user_id: UserId, disabled: bool) -> None:
    await _set(s, user_id, disabled=disabled)


async def set_role(s: Session, user_id: UserId, role: Role) -> None:
    await _set(s, user_id, role=role)


async def set_preferences(s: Session, user_id: UserId, preferences: dict[str, Any]) -> None:
    """Put `preferences` in place of the person's."""
    await _set(s, user_id, preferences=preferences)


async def count_admins(s: Session) -> int:
    """Administrators who can sign in."""
    query = select(func.count()).select_from(User).where(User.role == "admin", User.disabled.is_(False))
    return await s.scalar(query) or 0


async def _set(s: Session, user_id: UserId, **fields: Any) -> None:
    if not await rows.changed(s, update(User).where(User.id == user_id).values(**fields)):
        raise NotFound("There is no such person.")


# --- sessions ---------------------------------------------------------------------------------------------


async def sessions_of(s: Session, user_id: UserId) -> list[LoginSession]:
    """The person's sessions, last used first."""
    query = select(LoginSession).where(LoginSession.user == user_id).order_by(LoginSession.seen.desc())
    return list((await s.scalars(query)).all())


async def session_by_hash(s: Session, token_hash: str) -> tuple[LoginSession, User] | None:
    """The session of that token and its person, whether expired or not."""
    session = await _SESSION.one(s, LoginSession, hash=token_hash)
    person = await user(s, UserId(session.user)) if session else None
    return (session, person) if session and person else None


async def add_session(
    s: Session, *, user: UserId, token_hash: str, csrf: str, expires: int, agent: str, address: str
) -> LoginSession:
    """`expires` in ms."""
    now = now_ms()
    row = LoginSession(
        id=new_id(),
        user=user,
        token_hash=token_hash,
        csrf=csrf,
        created=now,
        seen=now,
        expires=expires,
        agent=agent,
        address=address,
    )
    await rows.add(s, row)
    return row


async def touch_session(s: Session, session_id: str, seen: int, expires: int | None = None) -> None:
    """Note that the session was used at `seen` (ms), and move its end if `expires` is given."""
    values = {"seen": seen} if expires is None else {"seen": seen, "expires": expires}
    await s.execute(update(LoginSession).where(LoginSession.id == session_id).values(**values))


async def drop_session(s: Session, session_id: str, user_id: UserId) -> bool:
    """Whether there was such a session of that person."""
    mine = (LoginSession.id == session_id, LoginSession.user == user_id)
    return await rows.changed(s, delete(LoginSession).where(*mine))


async def drop_sessions(s: Session, user_id: UserId, *, but: str | None = None) -> list[str]:
    """End all sessions of the person but the one named; returns the ids of those ended."""
    query = delete(LoginSession).where(LoginSession.user == user_id)
    if but is not None:
        query = query.where(LoginSession.id != but)
    return list((await s.scalars(query.returning(LoginSession.id))).all())


async def drop_expired(s: Session, now: int) -> list[str]:
    """Remove sessions and links whose time is over; returns the ids of the sessions."""
    await s.execute(delete(OneTimeLink).where(OneTimeLink.expires <= now))
    query = delete(LoginSession).where(LoginSession.expires <= now).returning(LoginSession.id)
    return list((await s.scalars(query)).all())


# --- API keys ---------------------------------------------------------------------------------------------


async def keys_of(s: Session, user_id: UserId) -> list[ApiKey]:
    """The person's keys, oldest first."""
    return list(
        (await s.scalars(select(ApiKey).where(ApiKey.user == user_id).order_by(ApiKey.created))).all()
    )


async def key_by_hash(s: Session, hash: str) -> tuple[ApiKey, User] | None:
    """The key of that hash and its person."""
    key = await _KEY.one(s, ApiKey, hash=hash)
    person = await user(s, UserId(key.user)) if key else None
    return (key, person) if key and person else None


async def add_key(s: Session, *, user: UserId, name: str, scope: str, hash: str, prefix: str) -> ApiKey:
    row = ApiKey(id=new_id(), user=user, name=name, scope=scope, hash=hash, prefix=prefix, created=now_ms())
    await rows.add(s, row)
    return row


async def touch_key(s: Session, key_id: str, seen: int) -> None:
    await s.execute(update(ApiKey).where(ApiKey.id == key_id).values(seen=seen))


async def drop_key(s: Session, key_id: str, user_id: UserId) -> bool:
    """Whether there was such a key of that person."""
    return await rows.changed(s, delete(ApiKey).where(ApiKey.id == key_id, ApiKey.user == user_id))


# --- one-time links ---------------------------------------------------------------------------------------


async def add_link(
    s: Session,
    *,
    kind: Literal["setup", "sign-in"],
    token_hash: str,
    expires: int,
    user: UserId | None = None,
) -> OneTimeLink:
    """A new link; the unused ones of its kind and person end with it. `expires` in ms."""
    earlier = (
        OneTimeLink.kind == kind,
        OneTimeLink.user.is_not_distinct_from(user),
        OneTimeLink.used.is_(None),
    )
    await s.execute(delete(OneTimeLink).where(*earlier))
    row = OneTimeLink(
        id=new_id(), kind=kind, user=user, token_hash=token_hash, created=now_ms(), expires=expires
    )
    await rows.add(s, row)
    return row


async def claim_link(s: Session, kind: str, token_hash: str, now: int) -> OneTimeLink | None:
    """Use the link up, in one statement: of any number who try at once, one gets it."""
    statement = (
        update(OneTimeLink)
        .where(
            OneTimeLink.kind == kind,
            OneTimeLink.token_hash == token_hash,
            OneTimeLink.used.is_(None),
            OneTimeLink.expires > now,
        )
        .values(used=now)
        .returning(OneTimeLink)
    )
    return await s.scalar(statement)


async def link_by_hash(s: Session, kind: str, token_hash: str, now: int) -> OneTimeLink | None:
    """The link if it could be claimed now; nothing is used up."""
    query = select(OneTimeLink).where(
        OneTimeLink.kind == kind,
        OneTimeLink.token_hash == token_hash,
        OneTimeLink.used.is_(None),
        OneTimeLink.expires > now,
    )
    return await s.scalar(query)
