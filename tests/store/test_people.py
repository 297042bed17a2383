"""People and what lets them in: rows alone; the rules are tested with the accounts."""

import asyncio

import pytest
from sqlalchemy.exc import IntegrityError

from app.core.errors import NotFound
from app.core.ids import UserId, new_id
from app.store import people
from app.store.engine import Database
from app.store.tables import LoginSession
from tests.store.steps import add_person, count

NOW = 1_700_000_000_000


async def sign_in(db: Database, user: UserId, token: str, expires: int = NOW) -> LoginSession:
    return await db.write(
        lambda s: people.add_session(
            s, user=user, token_hash=token, csrf="c", expires=expires, agent="Firefox", address="::1"
        )
    )


async def test_people_are_found_by_id_and_by_their_folded_name(db: Database) -> None:
    ada, eve = await add_person(db, "Ada"), await add_person(db, "EVE")
    async with db.read() as s:
        found = await people.user_by_name(s, "eve")
        assert found is not None
        assert (found.id, found.name, found.preferences, found.disabled) == (eve, "EVE", {}, False)
        assert [user.id for user in await people.users(s)] == [ada, eve]
        assert await people.user(s, UserId(new_id())) is None
        assert await people.user_by_name(s, "EVE") is None


async def test_what_is_set_of_a_person_is_kept(db: Database, owner: UserId) -> None:
    await db.write(lambda s: people.set_password(s, owner, "hash"))
    await db.write(lambda s: people.set_role(s, owner, "admin"))
    await db.write(lambda s: people.set_preferences(s, owner, {"theme": "dark"}))
    async with db.read() as s:
        user = await people.user(s, owner)
        assert user is not None
        assert (user.password, user.role, user.preferences) == ("hash", "admin", {"theme": "dark"})
        assert await people.count_admins(s) == 1
    await db.write(lambda s: people.set_disabled(s, owner, True))
    async with db.read() as s:
        assert await people.count_admins(s) == 0
    with pytest.raises(NotFound):
        await db.write(lambda s: people.set_role(s, UserId(new_id()), "admin"))


async def test_there_are_only_two_roles(db: Database, owner: UserId) -> None:
    with pytest.raises(IntegrityError):
        await db.write(lambda s: people.set_role(s, owner, "root"))  # type: ignore[arg-type]


async def test_a_session_is_found_by_its_hash_with_its_person(db: Database, owner: UserId) -> None:
    session = await sign_in(db, owner, "hash-1")
    async with db.read() as s:
        found = await people.session_by_hash(s, "hash-1")
        assert found is not None
        assert (found[0].id, found[1].id) == (session.id, owner)
        assert await people.session_by_hash(s, "hash-2") is None


async def test_sessions_are_listed_used_and_ended(db: Database, owner: UserId) -> None:
    first, second, third = [await sign_in(db, owner, token) for token in "abc"]
    await db.write(lambda s: people.touch_session(s, first.id, first.seen + 50_000))
    await db.write(lambda s: people.touch_session(s, second.id, second.seen + 90_000, expires=NOW + 5))
    stranger = await add_person(db, "Eve")
    async with db.read() as s:
        found = await people.sessions_of(s, owner)
        assert [row.id for row in found] == [second.id, first.id, third.id]
        assert [row.expires for row in found] == [NOW + 5, NOW, NOW]
    assert not await db.write(lambda s: people.drop_session(s, first.id, stranger))
    assert await db.write(lambda s: people.drop_session(s, first.id, owner))
    assert await db.write(lambda s: people.drop_sessions(s, owner, but=second.id)) == [third.id]
    assert await count(db, "login_session") == 1


async def test_what_has_expired_goes(db: Database, owner: UserId) -> None:
    old, fresh = await sign_in(db, owner, "old", NOW), await sign_in(db, owner, "fresh", NOW + 1)
    await db.write(lambda s: people.add_link(s, kind="setup", token_hash="link", expires=NOW))
    assert await db.write(lambda s: people.drop_expired(s, NOW)) == [old.id]
    async with db.read() as s:
        assert [row.id for row in await people.sessions_of(s, owner)] == [fresh.id]
    assert await count(db, "one_time_link") == 0


async def test_keys_are_found_listed_and_ended(db: Database, owner: UserId) -> None:
    key = await db.write(
        lambda s: people.add_key(s, user=owner, name="cron", scope="chat", hash="h", prefix="nd_ab")
    )
    await db.write(lambda s: people.touch_key(s, key.id, NOW))
    async with db.read() as s:
        found = await people.key_by_hash(s, "h")
        assert found is not None
        assert (found[0].seen, found[0].scope, found[1].id) == (NOW, "chat", owner)
        assert [row.prefix for row in await people.keys_of(s, owner)] == ["nd_ab"]
        assert await people.key_by_hash(s, "other") is None
    stranger = await add_person(db, "Eve")
    assert not await db.write(lambda s: people.drop_key(s, key.id, stranger))
    assert await db.write(lambda s: people.drop_key(s, key.id, owner))


async def test_of_thirty_who_claim_a_link_at_once_one_gets_it(db: Database) -> None:
    await db.write(lambda s: people.add_link(s, kind="setup", token_hash="h", expires=NOW + 1))
    claims = await asyncio.gather(
        *(db.write(lambda s: people.claim_link(s, "setup", "h", NOW)) for _ in range(30))
    )
    assert sum(claim is not None for claim in claims) == 1


async def test_a_link_of_another_kind_or_time_or_token_is_not_claimed(db: Database, owner: UserId) -> None:
    await db.write(lambda s: people.add_link(s, kind="sign-in", token_hash="h", expires=NOW + 1, user=owner))
    for kind, token, now in (("setup", "h", NOW), ("sign-in", "x", NOW), ("sign-in", "h", NOW + 1)):
        async with db.read() as s:
            assert await people.link_by_hash(s, kind, token, now) is None
        assert await db.write(lambda s, of=(kind, token, now): people.claim_link(s, *of)) is None  # type: ignore[misc]
    async with db.read() as s:
        assert await people.link_by_hash(s, "sign-in", "h", NOW) is not None
    claimed = await db.write(lambda s: people.claim_link(s, "sign-in", "h", NOW))
    assert claimed is not None
    assert (claimed.user, claimed.used) == (owner, NOW)


async def test_a_new_link_ends_the_unused_one_before_it(db: Database, owner: UserId) -> None:
    other = await add_person(db, "Eve")
    for token, user in (("first", owner), ("hers", other), ("second", owner)):
        await db.write(
            lambda s, token=token, user=user: people.add_link(  # type: ignore[misc]
                s, kind="sign-in", token_hash=token, expires=NOW + 1, user=user
            )
        )
    async with db.read() as s:
        left = [t for t in ("first", "hers", "second") if await people.link_by_hash(s, "sign-in", t, NOW)]
    assert left == ["hers", "second"]
