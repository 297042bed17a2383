"""Coming in, going out, and looking after accounts in a browser, all of it without script."""

import asyncio
import html
import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from app.core.ids import ChatId, UserId
from app.store import chats, drafts
from app.store.engine import Session
from tests.support.desk import HERE, PASSWORD, Desk, desk, hidden

NEW = "another set of quiet words"


@pytest.fixture
async def there(tmp_path: Path) -> AsyncIterator[Desk]:
    async with desk(tmp_path) as made:
        yield made


def cookies(answer: httpx.Response) -> list[str]:
    return answer.headers.get_list("set-cookie")


# --- the first start --------------------------------------------------------------------------------------


async def test_the_setup_link_makes_the_first_administrator_and_signs_them_in(there: Desk):
    visitor = there.visitor()
    page = await visitor.get(f"/setup?token={await there.setup_token()}")
    fields = {"token": hidden(page.text, "token"), "name": "ada", "password": PASSWORD}
    answer = await visitor.send("/setup", fields)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert (await visitor.get("/settings/users")).status_code == 200
    assert (await visitor.get(f"/setup?token={fields['token']}")).status_code == 403


async def test_thirty_who_post_the_setup_form_at_once_make_one_administrator(there: Desk):
    token = await there.setup_token()

    async def claim(i: int) -> int:
        fields = {"token": token, "name": f"admin {i}", "password": PASSWORD}
        return (await there.visitor(peer=f"192.0.2.{i}").send("/setup", fields)).status_code

    outcomes = await asyncio.gather(*(claim(i) for i in range(30)))
    assert outcomes.count(303) == 1
    assert set(outcomes) <= {303, 403, 429}
    assert len(await there.house.people.everybody()) == 1


async def test_without_the_link_there_is_no_setup(there: Desk):
    await there.setup_token()
    for token in ("", "x" * 43):
        assert (await there.visitor().get(f"/setup?token={token}")).status_code == 403
        fields = {"token": token, "name": "eve", "password": PASSWORD}
        assert (await there.visitor().send("/setup", fields)).status_code == 403
    assert await there.house.people.everybody() == []


async def test_a_poor_choice_is_said_beside_its_field_and_the_name_is_still_there(there: Desk):
    token = await there.setup_token()
    page = await there.visitor().send("/setup", {"token": token, "name": "Ada", "password": "short"})
    assert page.status_code == 400
    assert "at least 12 characters" in page.text
    assert 'value="Ada"' in page.text
    assert 'value="short"' not in page.text
    assert hidden(page.text, "token") == token


async def test_the_sign_in_page_says_where_to_begin_while_nobody_has_an_account(there: Desk):
    assert "setup link" in (await there.visitor().get("/sign-in")).text
    await there.member("boss", "admin")
    assert "setup link" not in (await there.visitor().get("/sign-in")).text


# --- signing in -------------------------------------------------------------------------------------------


async def test_signing_in_leads_to_where_the_person_was_going(there: Desk):
    await there.member("ada")
    visitor = there.visitor()
    page = await visitor.get((await visitor.get("/settings/about?x=1")).headers["location"])
    fields = {"name": "ada", "password": PASSWORD, "next": html.unescape(hidden(page.text, "next"))}
    answer = await visitor.send("/sign-in", fields)
    assert (answer.status_code, answer.headers["location"]) == (303, "/settings/about?x=1")
    assert (await visitor.get(answer.headers["location"])).status_code == 200
    assert (await visitor.get("/sign-in?next=/settings")).headers["location"] == "/settings"


@pytest.mark.parametrize(
    "evil",
    [
        *(
            "//evil.example",
            "/\\evil.example",
            "///evil.example",
            "https:evil.example",
            "https://evil.example",
        ),
        *(
            "\t//evil.example",
            "/\t/evil.example",
            "/\n/evil.example",
            "javascript:alert(1)",
            "evil.example",
            "",
        ),
        *("/\\/evil.example", "\\\\evil.example", " //evil.example", "/\x00", "/\u2028"),
    ],
)
async def test_signing_in_leads_nowhere_else(there: Desk, evil: str):
    await there.member("ada")
    fields = {"name": "ada", "password": PASSWORD, "next": evil}
    answer = await there.visitor().send("/sign-in", fields)
    assert answer.headers.get("location", "/") == "/"


async def test_the_cookie_is_kept_from_scripts_and_other_sites(there: Desk):
    await there.member("ada")
    answer = await there.visitor().send("/sign-in", {"name": "ada", "password": PASSWORD})
    (cookie,) = cookies(answer)
    assert re.fullmatch(r"sid=[\w-]{43}; HttpOnly; Max-Age=7776000; Path=/; SameSite=lax", cookie)


async def test_over_https_the_cookie_is_for_https_alone(there: Desk):
    await there.member("ada")
    visitor = there.visitor(HERE.replace("http", "https"))
    ours = {"origin": HERE.replace("http", "https")}
    answer = await visitor.send("/sign-in", {"name": "ada", "password": PASSWORD}, **ours)
    (cookie,) = cookies(answer)
    assert re.fullmatch(
        r"__Host-sid=[\w-]{43}; HttpOnly; Max-Age=7776000; Path=/; SameSite=lax; Secure", cookie
    )
    assert answer.headers["strict-transport-security"].startswith("max-age=")
    assert (await visitor.get("/settings")).status_code == 200


async def test_plain_http_on_the_home_network_works_although_the_browser_says_little(there: Desk):
    """There a GET carries neither Sec-Fetch-Site nor Origin, and a form Origin alone."""
    await there.member("ada")
    web = there.client("http://nas:8787", peer="192.168.1.30")
    fields = {"name": "ada", "password": PASSWORD}
    answer = await web.post("/sign-in", data=fields, headers={"origin": "http://nas:8787"})
    assert answer.status_code == 303
    page = await web.get("/settings", headers={"accept": "text/html"})
    assert page.status_code == 200
    assert "not private" in page.text


async def test_a_planted_session_is_never_taken_over(there: Desk):
    await there.member("ada")
    planted = "p" * 43
    visitor = there.visitor()
    visitor.web.cookies.set("sid", planted)
    answer = await visitor.send("/sign-in", {"name": "ada", "password": PASSWORD})
    assert planted not in cookies(answer)[0]
    assert await there.house.sessions.by_token(planted) is None


async def test_signing_in_again_ends_the_session_that_was_there(there: Desk):
    ada = await there.member("ada")
    before = ada.web.cookies["sid"]
    await ada.send("/sign-in", {"name": "ada", "password": PASSWORD})
    assert await there.house.sessions.by_token(before) is None


async def test_wrong_name_and_wrong_password_look_the_same(there: Desk):
    await there.member("ada")
    told: list[tuple[int, str]] = []
    for name in ("ada", "bob"):
        page = await there.visitor(peer=f"192.0.2.{len(told)}").send(
            "/sign-in", {"name": name, "password": NEW}
        )
        told.append((page.status_code, page.text.replace(f'value="{name}"', "")))
    assert told[0] == told[1]
    assert told[0][0] == 403
    assert "Name and password don’t match." in told[0][1]
    assert NEW not in told[0][1]


async def test_too_many_tries_are_told_with_the_time_to_wait(there: Desk):
    await there.member("ada")
    for _ in range(10):
        await there.visitor().send("/sign-in", {"name": "ada", "password": NEW})
    page = await there.visitor().send("/sign-in", {"name": "ada", "password": PASSWORD})
    assert page.status_code == 429
    assert 50 <= int(page.headers["retry-after"]) <= 60
    assert "Try again in" in page.text


async def test_a_text_typed_while_the_session_ended_is_in_the_composer_after_signing_in(there: Desk):
    ada = await there.member("ada")
    assert ada.person is not None
    me = ada.person.id

    async def new_chat(s: Session) -> ChatId:
        return ChatId((await chats.create(s, me)).id)

    chat = await there.house.db.write(new_chat)
    await there.house.sessions.sign_out(ada.person, "")
    typed = 'A long thought,\nwith "quotes" & <b>\n\n  and space'
    back = f"{HERE}/chats/{chat}"
    page = await ada.send(f"/chats/{chat}/messages", {"text": typed, "key": "k"}, referer=back)
    assert page.status_code == 401
    assert "What you typed is kept." in page.text
    found = re.search(r'<textarea name="kept" hidden>\n?(.*?)</textarea>', page.text, re.DOTALL)
    assert found
    assert html.unescape(found[1]) == typed
    fields = {"name": "ada", "kept": html.unescape(found[1]), "next": hidden(page.text, "next")}
    again = await ada.send("/sign-in", fields | {"password": "wrong for the first time"})
    assert html.escape("A long thought,") in again.text
    answer = await ada.send("/sign-in", fields | {"password": PASSWORD})
    assert answer.headers["location"] == f"/chats/{chat}"
    async with there.house.db.read() as s:
        assert await drafts.get(s, me, chat) == typed


async def test_a_form_that_says_it_came_from_no_address_at_all_leads_to_the_sign_in_page(there: Desk):
    page = await there.visitor().send("/chats", {"text": "hello", "key": "k"}, referer="http://[")
    assert page.status_code == 401
    assert hidden(page.text, "next") == ""
    assert "hello" in page.text


async def test_a_text_kept_from_somebody_elses_chat_goes_into_a_new_one(there: Desk):
    """Two people share a browser: the second signs in where the session of the first had ended."""
    ada, bob = await there.member("ada"), await there.member("bob")
    assert ada.person is not None
    assert bob.person is not None
    owner, other = ada.person.id, bob.person.id

    async def new_chat(s: Session) -> ChatId:
        return ChatId((await chats.create(s, owner)).id)

    chat = await there.house.db.write(new_chat)
    fields = {"name": "bob", "password": PASSWORD, "kept": "hello", "next": f"/chats/{chat}"}
    await there.visitor().send("/sign-in", fields)
    async with there.house.db.read() as s:
        assert await drafts.get(s, owner, chat) == ""
        assert await drafts.get(s, other, None) == "hello"


# --- links ------------------------------------------------------------------------------------------------


def link_on(page: str) -> str:
    found = re.search(
        r'<code id="link">http://127\.0\.0\.1:8787(/sign-in/link\?token=[\w-]{43})</code>', page
    )
    assert found
    return found[1]


async def test_an_administrator_invites_somebody_who_chooses_their_own_password(there: Desk):
    boss = await there.member("boss", "admin")
    page = await boss.send("/settings/users", {"name": "Bob", "role": "member"})
    link = link_on(page.text)
    bob = there.visitor()
    welcome = await bob.get(link)
    assert "Welcome, Bob" in welcome.text
    assert (
        await there.house.people.welcome(hidden(welcome.text, "token"))
    ) is not None  # looking uses nothing up
    answer = await bob.send("/sign-in/link", {"token": hidden(welcome.text, "token"), "password": PASSWORD})
    assert answer.status_code == 303
    assert (await bob.get("/settings/account")).status_code == 200
    assert (await there.visitor().get(link)).status_code == 403
    assert link not in (await boss.get("/settings/users")).text


async def test_a_spent_or_made_up_link_is_told_as_such(there: Desk):
    for token in ("", "x" * 43):
        page = await there.visitor().get(f"/sign-in/link?token={token}")
        assert page.status_code == 403
        assert "used already or is too old" in page.text


async def test_an_invitation_needs_a_password(there: Desk):
    boss = await there.member("boss", "admin")
    token = link_on((await boss.send("/settings/users", {"name": "Bob"})).text).partition("token=")[2]
    page = await there.visitor().send("/sign-in/link", {"token": token, "password": ""})
    assert page.status_code == 400
    assert "Choose a password" in page.text


async def test_a_link_with_a_new_password_lets_in_whose_session_it_ends(there: Desk):
    """Somebody who is still signed in here uses the link that was made for them."""
    ada = await there.member("ada")
    token = await there.house.people.reset("ada")
    answer = await ada.send("/sign-in/link", {"token": token, "password": NEW})
    assert answer.headers["location"] == "/"
    token = cookies(answer)[0].partition("=")[2].partition(";")[0]
    assert await there.house.sessions.by_token(token) is not None


# --- one's own account ------------------------------------------------------------------------------------


async def test_signing_out_ends_the_session_and_forgets_the_cookie(there: Desk):
    ada = await there.member("ada")
    token = ada.web.cookies["sid"]
    answer = await ada.send("/sign-out")
    assert answer.headers["location"] == "/sign-in"
    assert "Max-Age=0" in cookies(answer)[0]
    assert await there.house.sessions.by_token(token) is None


async def test_sessions_are_listed_and_one_of_them_is_ended(there: Desk):
    ada = await there.member("ada")
    other = await there.sign_in("ada")
    assert other.person is not None
    page = (await ada.get("/settings/account")).text
    assert page.count("<strong>Firefox on Linux</strong>") == 2
    assert "This one" in page
    await ada.send(f"/settings/account/sessions/{other.person.session}/end")
    assert (await other.get("/settings/account")).status_code == 303
    assert (await ada.get("/settings/account")).status_code == 200


async def test_all_other_sessions_are_ended_at_once(there: Desk):
    ada = await there.member("ada")
    others = [await there.sign_in("ada") for _ in range(3)]
    await ada.send("/settings/account/sessions/end-others")
    assert [(await other.get("/settings")).status_code for other in others] == [303] * 3
    assert (await ada.get("/settings")).status_code == 200


async def test_a_key_is_shown_once(there: Desk):
    ada = await there.member("ada")
    page = (await ada.send("/settings/account/keys", {"name": "backup", "scope": "read"})).text
    found = re.search(r'<code id="made">(nd_[\w-]{43})</code>', page)
    assert found
    script = there.client(headers={"authorization": f"Bearer {found[1]}"})
    assert (await script.get("/api/v1/me")).json()["name"] == "ada"
    page = (await ada.get("/settings/account")).text
    assert found[1] not in page
    assert found[1][:9] in page
    key = re.search(r"/settings/account/keys/([0-9a-f-]{36})/end", page)
    assert key
    await ada.send(f"/settings/account/keys/{key[1]}/end")
    assert (await script.get("/api/v1/me")).status_code == 401


async def test_a_password_is_changed_with_the_old_one(there: Desk):
    ada = await there.member("ada")
    page = await ada.send("/settings/account/password", {"old": "a wrong password", "password": NEW})
    assert page.status_code == 400
    assert "not the password you have now" in page.text
    answer = await ada.send("/settings/account/password", {"old": PASSWORD, "password": NEW})
    assert answer.headers["location"] == "/settings/account"
    assert (await there.visitor().send("/sign-in", {"name": "ada", "password": NEW})).status_code == 303


async def test_the_name_for_models_and_the_time_zone_are_kept(there: Desk):
    ada = await there.member("ada")
    where = "/settings/account/profile"
    assert (await ada.send(where, {"display_name": " Ada ", "time_zone": "Europe/Zurich"})).status_code == 303
    page = (await ada.get("/settings/account")).text
    assert 'value="Ada"' in page
    assert 'value="Europe/Zurich"' in page
    page2 = await ada.send(where, {"display_name": "Ada", "time_zone": "../../etc/passwd"})
    assert page2.status_code == 400


async def test_a_house_of_one_has_no_password_to_change(tmp_path: Path):
    async with desk(tmp_path / "one", single_user=True) as there:
        page = (await there.visitor().get("/settings/account")).text
        assert "API keys" in page
        assert 'name="password"' not in page
        assert (await there.visitor().get("/sign-in")).headers["location"] == "/"


# --- the others' ------------------------------------------------------------------------------------------


async def user_named(there: Desk, name: str) -> UserId:
    (found,) = [user for user in await there.house.people.everybody() if user.name == name]
    return UserId(found.id)


async def test_an_administrator_disables_and_enables(there: Desk):
    boss, ada = await there.member("boss", "admin"), await there.member("ada")
    where = f"/settings/users/{await user_named(there, 'ada')}"
    assert (await boss.send(f"{where}/disable")).status_code == 303
    assert "Disabled" in (await boss.get("/settings/users")).text
    assert (await ada.get("/settings")).status_code == 303
    page = await there.visitor().send("/sign-in", {"name": "ada", "password": PASSWORD})
    assert "This account is disabled" in page.text
    await boss.send(f"{where}/enable")
    assert (await there.visitor().send("/sign-in", {"name": "ada", "password": PASSWORD})).status_code == 303


async def test_a_role_is_changed_and_what_cannot_be_done_is_said_in_place(there: Desk):
    boss = await there.member("boss", "admin")
    await there.member("ada")
    ada = f"/settings/users/{await user_named(there, 'ada')}"
    mine = f"/settings/users/{await user_named(there, 'boss')}"
    page = await boss.send(f"{mine}/role", {"role": "member"})
    assert page.status_code == 403
    assert "Somebody has to stay administrator" in page.text
    assert (await boss.send(f"{ada}/role", {"role": "admin"})).status_code == 303
    assert (await boss.send(f"{ada}/role", {"role": "owner"})).status_code == 400


async def test_somebody_locked_out_gets_a_new_link(there: Desk):
    boss = await there.member("boss", "admin")
    await there.member("ada")
    page = await boss.send(f"/settings/users/{await user_named(there, 'ada')}/link")
    answer = await there.visitor().send(
        "/sign-in/link", {"token": link_on(page.text).partition("token=")[2], "password": NEW}
    )
    assert answer.status_code == 303
    assert (await there.visitor().send("/sign-in", {"name": "ada", "password": NEW})).status_code == 303


async def test_text_of_one_person_is_only_text_on_the_page_of_another(there: Desk):
    boss = await there.member("boss", "admin")
    await boss.send("/settings/users", {"name": "<img src=x onerror=alert(1)>"})
    page = (await boss.get("/settings/users")).text
    assert "<img" not in page
    assert "&lt;img src=x" in page
