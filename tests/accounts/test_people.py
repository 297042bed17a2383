import asyncio
import sqlite3
import stat
from contextlib import closing

import pytest

from app.accounts.people import LinkSpent
from app.accounts.sessions import digest
from app.core.clock import now_ms
from app.core.errors import Invalid, NightdeskError, NotAllowed, NotFound
from app.core.ids import UserId
from app.store import people
from app.store.tables import OneTimeLink
from tests.accounts.conftest import PASSWORD, Door, open_door

NEW = "another set of quiet words"


def token_of(link: str | None) -> str:
    assert link is not None
    return link.partition("token=")[2]


# --- the first start --------------------------------------------------------------------------------------


async def test_thirty_who_claim_the_setup_link_at_once_make_one_administrator(door: Door):
    """Check first and insert then made as many administrators as there were requests, in a peer."""
    token = token_of(await door.people.setup_link())
    door.rates.link = lambda address: None  # type: ignore[method-assign]
    claims = [
        open_door(door.db, door.folder, door.tasks).people.claim_setup(token, f"admin {i}", PASSWORD)
        for i in range(30)
    ]
    outcomes = await asyncio.gather(*claims, return_exceptions=True)
    assert sum(isinstance(outcome, LinkSpent) for outcome in outcomes) == 29
    (user,) = await door.people.everybody()
    assert user.role == "admin"
    (signed_in,) = [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]
    assert signed_in.person.id == user.id


async def test_the_setup_link_lies_in_a_file_that_only_its_owner_reads_until_it_is_used(door: Door):
    link = await door.people.setup_link("http://127.0.0.1:8787")
    file = door.folder.path / "setup-link"
    assert file.read_text().strip() == link
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    await door.people.claim_setup(token_of(link), "ada", PASSWORD)
    assert not file.exists()
    assert await door.people.setup_link() is None


async def test_each_start_gives_a_new_setup_link_and_ends_the_one_before(door: Door):
    first = token_of(await door.people.setup_link())
    second = token_of(await door.people.setup_link())
    assert first != second
    with pytest.raises(LinkSpent):
        await door.people.claim_setup(first, "ada", PASSWORD)
    await door.people.claim_setup(second, "ada", PASSWORD)


@pytest.mark.parametrize("token", ["", "x", "a" * 43, "\ud800", "a" * 10_000])
async def test_setup_without_its_link_is_refused(door: Door, token: str):
    await door.people.setup_link()
    with pytest.raises(LinkSpent):
        await door.people.claim_setup(token, "ada", PASSWORD)
    assert await door.people.everybody() == []


async def age_links(door: Door, by: int) -> None:
    from sqlalchemy import update

    await door.db.write(lambda s: s.execute(update(OneTimeLink).values(expires=OneTimeLink.expires - by)))


async def test_the_setup_link_dies_after_a_day(door: Door):
    token = token_of(await door.people.setup_link())
    await age_links(door, 24 * 3600 * 1000)
    with pytest.raises(LinkSpent):
        await door.people.claim_setup(token, "ada", PASSWORD)


async def test_a_poor_password_does_not_use_up_the_setup_link(door: Door):
    token = token_of(await door.people.setup_link())
    with pytest.raises(Invalid) as refused:
        await door.people.claim_setup(token, "ada", "short")
    assert refused.value.field == "password"
    await door.people.claim_setup(token, "ada", PASSWORD)


async def test_an_administrator_made_on_the_command_line_ends_the_setup_link(door: Door):
    token = token_of(await door.people.setup_link())
    await door.add("ada", "admin")
    with pytest.raises(LinkSpent):
        await door.people.claim_setup(token, "eve", PASSWORD)
    assert [user.name for user in await door.people.everybody()] == ["ada"]


async def test_a_house_of_one_belongs_to_its_first_administrator(door: Door):
    made = await door.people.move_in("csrf")
    assert (made.role, made.via, made.csrf) == ("admin", "single-user", "csrf")
    assert (await door.people.move_in("csrf")).id == made.id
    door.sessions.be_single(made)
    await door.sessions.set_preferences(made, {"theme": "dark"})
    assert door.sessions.single_user().preferences == {"theme": "dark"}


# --- links ------------------------------------------------------------------------------------------------


async def test_an_invitation_lets_its_person_in_once_with_a_password_of_their_own(door: Door):
    boss = await door.signed_in("boss", "admin")
    token = await door.people.invite("ada", "member", boss)
    welcome = await door.people.welcome(token)
    assert welcome is not None
    assert (welcome.name, welcome.password) == ("ada", False)
    with pytest.raises(Invalid):
        await door.people.claim_link(token, None, "", "")
    signed_in = await door.people.claim_link(token, NEW, "", "")
    assert signed_in.person.name == "ada"
    await door.sign_in("ada", NEW)
    with pytest.raises(LinkSpent):
        await door.people.claim_link(token, NEW, "", "")


async def test_of_twenty_who_use_a_link_at_once_one_comes_in(door: Door):
    await door.add()
    token = await door.people.reset("ada")
    tries = [
        open_door(door.db, door.folder, door.tasks).people.claim_link(token, None, "", "") for _ in range(20)
    ]
    outcomes = await asyncio.gather(*tries, return_exceptions=True)
    assert sum(isinstance(outcome, LinkSpent) for outcome in outcomes) == 19


async def test_reset_lets_somebody_in_who_has_lost_their_password(door: Door):
    await door.add()
    before = await door.sign_in()
    signed_in = await door.people.claim_link(await door.people.reset("ADA"), NEW, "", "")
    assert await door.sessions.by_token(before.token) is None
    assert await door.sessions.by_token(signed_in.token) is not None
    await door.sign_in("ada", NEW)


async def test_a_reset_may_keep_the_password_and_then_ends_no_session(door: Door):
    await door.add()
    before = await door.sign_in()
    await door.people.claim_link(await door.people.reset("ada"), None, "", "")
    assert await door.sessions.by_token(before.token) is not None
    await door.sign_in()


async def test_a_new_link_ends_the_one_before(door: Door):
    await door.add()
    first = await door.people.reset("ada")
    await door.people.reset("ada")
    assert await door.people.welcome(first) is None


async def test_a_sign_in_link_dies_and_is_no_setup_link(door: Door):
    await door.add()
    token = await door.people.reset("ada")
    with pytest.raises(LinkSpent):
        await door.people.claim_setup(token, "eve", PASSWORD)
    await age_links(door, 24 * 3600 * 1000)
    with pytest.raises(LinkSpent):
        await door.people.claim_link(token, None, "", "")


async def test_only_the_hash_of_a_link_is_stored(door: Door):
    await door.add()
    token = await door.people.reset("ada")
    async with door.db.read() as s:
        found = await people.link_by_hash(s, "sign-in", digest(token), now_ms())
    assert found is not None
    assert token not in repr(vars(found))


async def test_nobody_is_reset_who_is_not_there(door: Door):
    with pytest.raises(NotFound, match="nobody"):
        await door.people.reset("nobody")


# --- accounts ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("same", ["ada", "ADA", " Ada  ", "Ａｄａ"])
async def test_two_people_do_not_have_one_name(door: Door, same: str):
    await door.add("Ada")
    with pytest.raises(Invalid) as refused:
        await door.add(same)
    assert refused.value.field == "name"


@pytest.mark.parametrize(
    "name", ["", "  ", "a" * 61, "a\x00b", "a\u202eb", "line\nbreak\x07", "\u200b", "\ud800"]
)
async def test_a_name_is_one_line_that_can_be_seen(door: Door, name: str):
    with pytest.raises(Invalid) as refused:
        await door.add(name)
    assert refused.value.field == "name"


async def test_a_name_may_be_of_any_script(door: Door):
    assert (await door.add("  Ωmega 大  Ж ")).name == "Ωmega 大 Ж"


async def test_a_new_password_ends_every_other_session_with_its_streams(door: Door):
    await door.add()
    here, there = await door.sign_in(), await door.sign_in()
    closed: list[str] = []
    door.sessions.on_revoked(here.person, lambda: closed.append("here"))
    door.sessions.on_revoked(there.person, lambda: closed.append("there"))
    await door.people.change_password(here.person, PASSWORD, NEW, "")
    assert closed == ["there"]
    assert await door.sessions.by_token(there.token) is None
    assert await door.sessions.by_token(here.token) is not None
    with pytest.raises(NotAllowed):
        await door.sign_in("ada", PASSWORD)
    await door.sign_in("ada", NEW)


@pytest.mark.parametrize("by", ["change", "link"])
async def test_streams_close_once_it_is_stored_that_their_session_ended(door: Door, by: str):
    """Whoever is cut off comes back at once. Before the commit their session would be found, and kept in memory."""
    await door.add()
    here, there = await door.sign_in(), await door.sign_in()
    left: list[int] = []

    def look() -> None:
        with closing(sqlite3.connect(door.folder.database)) as other:
            found = other.execute("SELECT count(*) FROM login_session WHERE id = ?", [there.person.session])
            left.append(found.fetchone()[0])

    door.sessions.on_revoked(there.person, look)
    if by == "change":
        await door.people.change_password(here.person, PASSWORD, NEW, "")
    else:
        await door.people.claim_link(await door.people.reset("ada"), NEW, "", "")
    assert left == [0]


async def test_the_old_password_is_asked_for_and_its_tries_are_counted(door: Door):
    person = await door.signed_in()
    for _ in range(10):
        with pytest.raises(Invalid) as refused:
            await door.people.change_password(person, "a wrong password", NEW, "")
        assert refused.value.field == "old"
    with pytest.raises(NightdeskError, match="Too many tries"):
        await door.people.change_password(person, PASSWORD, NEW, "")


async def test_disabling_shuts_somebody_out_at_once_and_enabling_lets_them_in(door: Door):
    boss, ada = await door.signed_in("boss", "admin"), await door.signed_in("ada")
    stopped: list[str] = []

    async def stop(user: UserId) -> None:
        stopped.append(user)

    door.people.on_disabled(stop)
    token = (await door.sign_in("ada")).token
    key = await door.sessions.add_key(ada.id, "script")
    program = await door.sessions.by_key(key)
    closed: list[str] = []
    assert program is not None
    door.sessions.on_revoked(ada, lambda: closed.append("page"))
    door.sessions.on_revoked(program, lambda: closed.append("script"))
    await door.people.disable(ada.id, boss, "")
    assert sorted(closed) == ["page", "script"]
    assert stopped == [ada.id]
    assert await door.sessions.by_token(token) is None
    assert await door.sessions.by_key(key) is None
    with pytest.raises(NotAllowed):
        await door.people.reset("ada")
    await door.people.enable(ada.id, boss, "")
    assert await door.sessions.by_key(key) is not None
    assert await door.sessions.by_token(token) is None
    await door.sign_in("ada")


async def test_a_link_does_not_let_in_whom_somebody_has_disabled_since(door: Door):
    boss, ada = await door.signed_in("boss", "admin"), await door.add()
    token = await door.people.reset("ada")
    await door.people.disable(UserId(ada.id), boss, "")
    with pytest.raises(LinkSpent):
        await door.people.claim_link(token, NEW, "", "")


async def test_a_role_that_was_taken_away_is_gone_with_the_next_request(door: Door):
    boss, second = await door.signed_in("boss", "admin"), await door.signed_in("second", "admin")
    key = await door.sessions.add_key(second.id, "script")
    await door.people.set_role(second.id, "member", boss, "")
    assert await door.sessions.sessions_of(second.id) == []
    program = await door.sessions.by_key(key)
    assert program is not None
    assert program.role == "member"


async def test_there_is_always_an_administrator(door: Door):
    boss, ada = await door.signed_in("boss", "admin"), await door.signed_in("ada")
    with pytest.raises(NotAllowed):
        await door.people.set_role(boss.id, "member", boss, "")
    with pytest.raises(NotAllowed):
        await door.people.disable(boss.id, boss, "")
    with pytest.raises(NotAllowed):
        await door.people.disable(boss.id, ada, "")
    assert (await door.people.everybody())[0].role == "admin"


async def test_everything_that_is_done_to_accounts_is_in_the_audit_log(door: Door):
    token = token_of(await door.people.setup_link())
    boss = (await door.people.claim_setup(token, "boss", PASSWORD, "192.0.2.7")).person
    await door.people.invite("ada", "member", boss)
    ada = UserId((await door.people.everybody())[1].id)
    await door.people.set_role(ada, "admin", boss, "")
    await door.people.disable(ada, boss, "")
    await door.people.enable(ada, boss, "")
    await door.people.change_password(boss, PASSWORD, NEW, "")
    await door.sessions.sign_out(boss, "")
    log = list(reversed(await door.log()))
    assert [row.action for row in log] == [
        *("setup", "account made", "sign-in link made", "role changed"),
        *("account disabled", "account enabled", "password changed", "sign-out"),
    ]
    assert {row.actor_name for row in log} == {"boss"}
    assert log[0].address == "192.0.2.7"
    written = repr([(row.target, row.detail) for row in log])
    assert PASSWORD not in written
    assert NEW not in written
