import asyncio

import pytest
from sqlalchemy import update

from app.accounts.access import Person
from app.accounts.sessions import IDLE, LONGEST, SignedIn, WrongCredentials, digest
from app.core.clock import now_ms
from app.core.errors import Invalid, NotAllowed, NotFound, StorageFault
from app.core.ids import UserId, new_id
from app.store import people
from app.store.tables import LoginSession
from tests.accounts.conftest import PASSWORD, Door, open_door


async def session_row(door: Door, person: Person) -> LoginSession:
    return (await door.sessions.sessions_of(person.id))[0]


async def test_a_token_stands_for_the_person_who_signed_in(door: Door):
    user = await door.add("Ada")
    signed_in = await door.sign_in("ADA ")
    found = await door.sessions.by_token(signed_in.token)
    assert found is not None
    assert (found.id, found.name, found.via) == (user.id, "Ada", "session")
    assert found == signed_in.person


async def test_each_sign_in_gives_a_token_nobody_had(door: Door):
    await door.add()
    first, second = await door.sign_in(), await door.sign_in()
    assert first.token != second.token
    assert first.person.csrf != second.person.csrf
    assert len(first.token) == 43


async def test_only_the_hash_of_a_token_is_stored(door: Door):
    await door.add()
    token = (await door.sign_in()).token
    key = await door.sessions.add_key((await door.signed_in("bob")).id, "script")
    await door.db.close()
    stored = b"".join(path.read_bytes() for path in door.folder.path.rglob("*") if path.is_file())
    assert digest(token).encode() in stored
    assert token.encode() not in stored
    assert key.encode() not in stored
    assert PASSWORD.encode() not in stored


@pytest.mark.parametrize("wrong", [("ada", "a wrong password"), ("nobody", PASSWORD), ("ada", ""), ("", "")])
async def test_a_wrong_name_and_a_wrong_password_are_told_the_same(door: Door, wrong: tuple[str, str]):
    await door.add()
    with pytest.raises(WrongCredentials) as refused:
        await door.sign_in(*wrong)
    assert refused.value.person == "Name and password don’t match. Try again."


async def test_the_hash_of_a_password_is_not_a_password(door: Door):
    user = await door.add()
    assert user.password is not None
    with pytest.raises(WrongCredentials):
        await door.sign_in("ada", user.password)


async def test_the_last_tries_are_counted_down(door: Door):
    await door.add()
    said = []
    for _ in range(10):
        with pytest.raises(WrongCredentials) as refused:
            await door.sign_in("ada", "a wrong password")
        said.append(refused.value.person)
    assert said[-4:] == [
        f"Name and password don’t match. {left}"
        for left in (
            "3 tries are left for now.",
            "2 tries are left for now.",
            "One try is left for now.",
            "Try again in a minute.",
        )
    ]


async def test_a_known_token_costs_no_query(door: Door):
    await door.add()
    token = (await door.sign_in()).token
    await door.sessions.by_token(token)
    await door.db.close()
    door.folder.database.write_bytes(b"rubbish")
    assert await door.sessions.by_token(token) is not None
    with pytest.raises(StorageFault):
        await door.sessions.by_token("x" * 43)


async def test_a_token_lasts_over_a_restart(door: Door):
    await door.add()
    token = (await door.sign_in()).token
    assert await open_door(door.db, door.folder, door.tasks).sessions.by_token(token) is not None


async def set_times(door: Door, person: Person, *, seen: int, expires: int) -> None:
    assert person.session is not None
    session = person.session
    await door.db.write(lambda s: people.touch_session(s, session, seen, expires))
    door.sessions.forget(user=person.id)


async def test_a_session_ends_when_its_time_is_over_and_is_swept_away(door: Door):
    await door.add()
    signed_in = await door.sign_in()
    ended: list[bool] = []
    door.sessions.on_revoked(signed_in.person, lambda: ended.append(True))
    await set_times(door, signed_in.person, seen=now_ms() - IDLE, expires=now_ms() - 1)
    assert await door.sessions.by_token(signed_in.token) is None
    await door.sessions.sweep()
    assert ended == [True]
    assert await door.sessions.sessions_of(signed_in.person.id) == []


async def ends_after_use(door: Door, signed_in: SignedIn) -> int:
    """When the session ends, as stored, once it has been used and that was noted."""
    assert await door.sessions.by_token(signed_in.token) is not None
    while len(door.tasks):
        await asyncio.wait(list(door.tasks._running))
    return (await session_row(door, signed_in.person)).expires


async def test_use_moves_the_end_of_a_session(door: Door):
    await door.add()
    signed_in = await door.sign_in()
    await set_times(door, signed_in.person, seen=now_ms() - IDLE // 2, expires=now_ms() + IDLE // 2)
    assert await ends_after_use(door, signed_in) >= now_ms() + IDLE - 10_000


async def test_no_use_moves_the_end_of_a_session_past_its_longest(door: Door):
    await door.add()
    signed_in = await door.sign_in()
    began = now_ms() - LONGEST + 60_000
    statement = update(LoginSession).values(created=began, seen=began)
    await door.db.write(lambda s: s.execute(statement))
    door.sessions.forget(user=signed_in.person.id)
    assert await ends_after_use(door, signed_in) == began + LONGEST


async def test_a_storage_fault_signs_nobody_out(door: Door):
    await door.add()
    signed_in = await door.sign_in()
    assert await door.sessions.by_token(signed_in.token) is not None
    await door.db.close()
    (door.folder.database).write_bytes(b"rubbish")
    fresh = open_door(door.db, door.folder, door.tasks)
    with pytest.raises(StorageFault):
        await fresh.sessions.by_token(signed_in.token)
    assert await door.sessions.by_token(signed_in.token) is not None


async def test_revoking_a_session_ends_it_and_its_streams_at_once(door: Door):
    await door.add()
    here, there = await door.sign_in(), await door.sign_in()
    closed: list[str] = []
    door.sessions.on_revoked(here.person, lambda: closed.append("here"))
    door.sessions.on_revoked(there.person, lambda: closed.append("there"))
    await door.sessions.by_token(there.token)
    assert there.person.session is not None
    await door.sessions.revoke(here.person, there.person.session, "")
    assert closed == ["there"]
    assert await door.sessions.by_token(there.token) is None
    assert await door.sessions.by_token(here.token) is not None


async def test_a_stream_that_has_closed_is_told_nothing(door: Door):
    await door.add()
    signed_in = await door.sign_in()
    closed: list[bool] = []
    detach = door.sessions.on_revoked(signed_in.person, lambda: closed.append(True))
    detach()
    detach()
    await door.sessions.sign_out(signed_in.person, "")
    assert closed == []


async def test_a_stream_that_was_let_in_just_before_its_session_ended_closes_at_once(door: Door):
    person = await door.signed_in()
    await door.sessions.sign_out(person, "")
    closed: list[bool] = []
    door.sessions.on_revoked(person, lambda: closed.append(True))
    assert closed == [True]


async def test_a_key_of_an_account_that_was_enabled_again_opens_streams_as_before(door: Door):
    boss, ada = await door.signed_in("boss", "admin"), await door.signed_in("ada")
    token = await door.sessions.add_key(ada.id, "script")
    await door.people.disable(ada.id, boss, "")
    await door.people.enable(ada.id, boss, "")
    found = await door.sessions.by_key(token)
    assert found is not None
    closed: list[bool] = []
    door.sessions.on_revoked(found, lambda: closed.append(True))
    assert closed == []


async def test_nobody_ends_a_session_or_key_of_somebody_else(door: Door):
    victim, attacker = await door.signed_in("victim"), await door.signed_in("attacker")
    key = await door.sessions.add_key(victim.id, "script")
    key_id = (await door.sessions.keys_of(victim.id))[0].id
    assert victim.session is not None
    with pytest.raises(NotFound):
        await door.sessions.revoke(attacker, victim.session, "")
    with pytest.raises(NotFound):
        await door.sessions.revoke_key(attacker, key_id, "")
    assert await door.sessions.by_key(key) is not None
    assert len(await door.sessions.sessions_of(victim.id)) == 1


async def test_a_lookup_that_was_under_way_does_not_bring_a_revoked_session_back(door: Door):
    """What was read before a revocation and remembered after it would have kept the session alive in memory."""
    await door.add()
    signed_in = await door.sign_in()
    door.sessions.forget(user=signed_in.person.id)
    looking = [asyncio.ensure_future(door.sessions.by_token(signed_in.token)) for _ in range(5)]
    await door.sessions.sign_out(signed_in.person, "")
    await asyncio.gather(*looking)
    assert await door.sessions.by_token(signed_in.token) is None


async def test_a_key_stands_for_its_owner_with_its_scope(door: Door):
    owner = await door.signed_in()
    token = await door.sessions.add_key(owner.id, "script", "read", by=owner)
    found = await door.sessions.by_key(token)
    assert token.startswith("nd_")
    assert found is not None
    assert (found.id, found.via, found.scope, found.csrf) == (owner.id, "key", "read", "")


async def test_a_key_is_no_cookie_and_a_cookie_is_no_key(door: Door):
    await door.add()
    signed_in = await door.sign_in()
    key = await door.sessions.add_key(signed_in.person.id, "script")
    assert await door.sessions.by_token(key) is None
    assert await door.sessions.by_key(signed_in.token) is None
    assert await door.sessions.by_key("nd_" + signed_in.token) is None


async def test_a_revoked_key_ends_with_its_streams(door: Door):
    owner = await door.signed_in()
    token = await door.sessions.add_key(owner.id, "script", by=owner)
    program = await door.sessions.by_key(token)
    assert program is not None
    closed: list[bool] = []
    door.sessions.on_revoked(program, lambda: closed.append(True))
    assert program.key is not None
    await door.sessions.revoke_key(owner, program.key, "")
    assert closed == [True]
    assert await door.sessions.by_key(token) is None


async def test_a_key_needs_a_name_and_a_scope_that_there_is(door: Door):
    owner = await door.signed_in()
    with pytest.raises(Invalid):
        await door.sessions.add_key(owner.id, "  ")
    with pytest.raises(Invalid):
        await door.sessions.add_key(owner.id, "script", "admin")  # type: ignore[arg-type]


async def test_a_disabled_account_is_told_so_only_with_the_right_password(door: Door):
    admin, user = await door.signed_in("boss", "admin"), await door.add("ada")
    await door.people.disable(UserId(user.id), admin, "")
    with pytest.raises(WrongCredentials):
        await door.sign_in("ada", "a wrong password")
    with pytest.raises(NotAllowed, match="disabled"):
        await door.sign_in("ada")


async def test_preferences_are_merged_and_seen_at_once(door: Door):
    await door.add()
    signed_in = await door.sign_in()
    await door.sessions.set_preferences(signed_in.person, {"theme": "dark", "enter": "send"})
    await door.sessions.set_preferences(signed_in.person, {"theme": "light"})
    found = await door.sessions.by_token(signed_in.token)
    assert found is not None
    assert found.preferences == {"theme": "light", "enter": "send"}


async def test_a_name_that_nobody_has_is_kept_in_no_log(door: Door):
    """It may be a password that was typed into the wrong field."""
    with pytest.raises(WrongCredentials):
        await door.sign_in("my secret password", "x")
    (row,) = await door.log()
    assert (row.action, row.target, row.address) == ("sign-in refused", "", "192.0.2.1")


async def test_a_person_of_no_session_cannot_sign_out(door: Door):
    await door.sessions.sign_out(Person(UserId(new_id()), "x", "member", "key", key=new_id()), "")
    assert await door.log() == []
