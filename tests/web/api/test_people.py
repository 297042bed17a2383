"""Accounts, sessions, keys and the audit log; and what a key of a narrower scope reaches."""

from app.core.ids import new_id
from app.web.api.operation import Operation
from app.web.routes import SITES
from tests.support.desk import OURS, PASSWORD
from tests.web.api.world import World, problem


async def test_one_learns_who_one_is(here: World):
    me = (await here.ada.get("/api/v1/me")).json()
    assert (me["name"], me["role"], me["via"], me["scope"]) == ("ada", "admin", "key", "all")
    wanted = {"preferences": {"theme": "dark"}}
    assert (await here.ada.patch("/api/v1/me", json=wanted)).status_code == 204
    assert (await here.ada.get("/api/v1/me")).json()["preferences"]["theme"] == "dark"
    wrong = await here.ada.patch("/api/v1/me", json={"preferences": {"theme": "neon"}})
    assert problem(wrong) == (400, "invalid", "theme")


async def test_somebody_is_invited_once_by_a_link(here: World):
    headers = {"idempotency-key": new_id()}
    made, again = [
        await here.ada.post("/api/v1/users", json={"name": "Cleo", "role": "member"}, headers=headers)
        for _ in range(2)
    ]
    assert made.status_code == 201
    assert again.json() == made.json() | {"link": None}
    page = await here.desk.visitor().get(made.json()["link"])
    assert page.status_code == 200
    assert "Cleo" in page.text
    users = (await here.ada.get("/api/v1/users")).json()["items"]
    assert [user["name"] for user in users] == ["ada", "Cleo"]


async def test_an_account_is_made_with_a_password_and_refused_without_a_good_one(here: World):
    new = {"name": "cleo", "password": PASSWORD}
    made = await here.ada.post("/api/v1/users", json=new)
    assert made.json()["link"] is None
    for fields, field in (
        ({"name": "CLEO"}, "name"),
        ({"password": "short"}, "password"),
        ({"role": "king"}, "role"),
    ):
        answer = await here.ada.post("/api/v1/users", json={"name": "dora", "password": PASSWORD} | fields)
        assert problem(answer) == (400, "invalid", field)


async def test_an_account_is_changed_and_let_in_by_a_new_link(here: World):
    await here.program("bob")
    (bob,) = [user for user in (await here.ada.get("/api/v1/users")).json()["items"] if user["name"] == "bob"]
    path = f"/api/v1/users/{bob['id']}"
    assert (await here.ada.patch(path, json={"role": "admin"})).json()["role"] == "admin"
    link = await here.ada.post(f"{path}/link")
    assert link.status_code == 201
    assert link.json()["link"].startswith("/sign-in/link?token=")
    assert problem(await here.ada.patch(f"/api/v1/users/{new_id()}", json={"role": "admin"}))[:2] == (
        404,
        "not-found",
    )


async def test_disabling_an_account_stops_its_replies_and_its_keys(here: World):
    bob = await here.program("bob")
    await here.running(await here.chat(bob, model="endless"), by=bob)
    (row,) = [user for user in (await here.ada.get("/api/v1/users")).json()["items"] if user["name"] == "bob"]
    assert (await here.ada.patch(f"/api/v1/users/{row['id']}", json={"disabled": True})).json()["disabled"]
    assert (await here.upstream.received(1)).client_closed
    assert problem(await bob.get("/api/v1/me"))[:2] == (401, "sign-in")
    await here.ada.patch(f"/api/v1/users/{row['id']}", json={"disabled": False})
    assert (await bob.get("/api/v1/me")).status_code == 200


async def test_sessions_are_listed_and_ended(here: World):
    browser = await here.browser_of("ada")
    (_, _, *others) = sessions = (await browser.get("/api/v1/sessions")).json()["items"]
    assert others == []
    assert [session["current"] for session in sessions].count(True) == 1
    assert (await browser.delete("/api/v1/sessions")).status_code == 204
    (left,) = (await browser.get("/api/v1/sessions")).json()["items"]
    assert left["current"]
    assert problem(await here.ada.delete(f"/api/v1/sessions/{new_id()}"))[:2] == (404, "not-found")
    assert (await here.ada.delete(f"/api/v1/sessions/{left['id']}")).status_code == 204
    assert problem(await browser.get("/api/v1/sessions"))[:2] == (401, "sign-in")


async def test_a_key_is_made_told_once_and_revoked(here: World):
    new, headers = {"name": "cron", "scope": "read"}, {"idempotency-key": new_id()}
    made, again = [await here.ada.post("/api/v1/keys", json=new, headers=headers) for _ in range(2)]
    assert made.status_code == again.status_code == 201
    assert again.json() == made.json() | {"token": None}
    token = made.json()["token"]
    assert token not in (await here.ada.get("/api/v1/keys")).text
    reader = here.desk.client(headers={"authorization": f"Bearer {token}"})
    assert (await reader.get("/api/v1/me")).json()["scope"] == "read"
    assert (await here.ada.delete(f"/api/v1/keys/{made.json()['id']}")).status_code == 204
    assert problem(await reader.get("/api/v1/me"))[:2] == (401, "sign-in")
    await reader.aclose()


async def test_the_audit_log_comes_newest_first_in_pieces(here: World):
    seen: list[int] = []
    cursor: str | None = ""
    while cursor is not None:
        piece = (await here.ada.get("/api/v1/audit", params={"limit": 2, "cursor": cursor})).json()
        seen += [line["seq"] for line in piece["items"]]
        cursor = piece["next"]
    assert seen == list(range(len(seen), 0, -1))
    actions = [line["action"] for line in (await here.ada.get("/api/v1/audit")).json()["items"]]
    assert {"account made", "key made", "setting changed"} <= set(actions)


async def test_who_comes_from_nowhere_is_asked_to_sign_in(here: World):
    nobody = here.desk.client(headers=OURS)
    for site in SITES:
        if isinstance(site.handler, Operation) and site.needs != "nobody":
            path = site.path.replace("{id}", new_id())
            answer = await nobody.request(site.methods[0], path)
            assert problem(answer)[:2] == (401, "sign-in"), path
            assert answer.headers["www-authenticate"] == "Bearer"
    await nobody.aclose()


async def test_a_reading_key_changes_nothing(here: World):
    reader = await here.program("bob", "admin", "read")
    chat = await here.ada.get("/api/v1/chats")
    assert chat.status_code == (await reader.get("/api/v1/chats")).status_code == 200
    for site in SITES:
        if isinstance(site.handler, Operation) and site.methods[0] != "GET":
            path = site.path.replace("{id}", new_id())
            answer = await reader.request(site.methods[0], path, json={})
            assert problem(answer)[:2] == (403, "not-allowed"), path


async def test_a_key_for_chats_reaches_nothing_else(here: World):
    chatting = await here.program("bob", "admin", "chat")
    assert (await here.said(await here.chat(chatting), by=chatting))["reply"]["state"] == "complete"
    for site in SITES:
        if isinstance(site.handler, Operation) and site.needs != "nobody" and site.scope != "chat":
            path = site.path.replace("{id}", new_id())
            answer = await chatting.request(site.methods[0], path, json={})
            assert problem(answer)[:2] == (403, "not-allowed"), path


async def test_a_member_administers_nothing(here: World):
    bob = await here.program("bob")
    for site in SITES:
        if isinstance(site.handler, Operation) and site.needs == "admin":
            path = site.path.replace("{id}", new_id())
            answer = await bob.request(site.methods[0], path, json={})
            assert problem(answer)[:2] == (403, "not-allowed"), path


async def test_a_session_changes_something_only_with_its_token(here: World):
    browser = await here.browser_of("ada")
    del browser.headers["x-csrf-token"]
    assert (await browser.get("/api/v1/chats")).status_code == 200
    assert problem(await browser.post("/api/v1/chats", json={}))[:2] == (403, "not-allowed")
