"""Chats: begun once, listed newest first, found by their words, changed and deleted; and never anybody else's."""

from typing import Any

import pytest

from app.core.ids import new_id
from app.replies.feed import News, PersonFollower
from tests.web.api.world import World, problem


async def test_a_chat_is_begun_with_what_was_asked(here: World):
    new = {"kind": "chat", "title": "  On   tides ", "model": here.models["normal"]}
    made = await here.ada.post("/api/v1/chats", json=new)
    assert made.status_code == 201
    chat = made.json()
    assert (chat["title"], chat["model"], chat["running_reply"]) == ("On tides", here.models["normal"], None)
    opened = (await here.ada.get(f"/api/v1/chats/{chat['id']}")).json()
    assert opened == chat | {"messages": [], "queued": [], "interaction": None}


async def test_a_chat_needs_nothing_said_of_it(here: World):
    assert (await here.ada.post("/api/v1/chats")).json()["title"] == ""


async def test_the_same_key_gives_the_same_chat(here: World):
    headers = {"idempotency-key": new_id()}
    first, again = [await here.ada.post("/api/v1/chats", json={}, headers=headers) for _ in range(2)]
    assert (again.status_code, again.json()["id"]) == (201, first.json()["id"])
    other = await here.ada.post("/api/v1/chats", json={"title": "Other"}, headers=headers)
    assert problem(other)[:2] == (409, "key-reused")
    assert len((await here.ada.get("/api/v1/chats")).json()["items"]) == 1


async def test_a_key_of_somebody_else_means_nothing(here: World):
    bob, headers = await here.program("bob"), {"idempotency-key": new_id()}
    mine = await here.ada.post("/api/v1/chats", json={}, headers=headers)
    his = await bob.post("/api/v1/chats", json={}, headers=headers)
    assert his.status_code == 201
    assert his.json()["id"] != mine.json()["id"]


@pytest.mark.parametrize(
    ("fields", "refusal"),
    [
        ({"title": "x" * 201}, (413, "too-long", "title")),
        ({"title": None}, (400, "invalid", "title")),
        ({"kind": "agent"}, (400, "invalid", "kind")),
        ({"owner": new_id()}, (400, "invalid", "owner")),
        ({"temporary": "yes"}, (400, "invalid", "temporary")),
        ({"model": new_id()}, (422, "unknown-model", None)),
    ],
)
async def test_a_chat_that_cannot_be_is_refused(here: World, fields: dict[str, Any], refusal: Any):
    assert problem(await here.ada.post("/api/v1/chats", json=fields)) == refusal
    assert (await here.ada.get("/api/v1/chats")).json()["items"] == []


# --- listed and found -------------------------------------------------------------------------------------


async def test_the_list_is_newest_first_whatever_is_pinned_and_comes_in_pieces(here: World):
    chats = [await here.chat(title=str(number)) for number in range(5)]
    await here.ada.patch(f"/api/v1/chats/{chats[0]}", json={"pinned": True})
    found: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        piece = (await here.ada.get("/api/v1/chats", params={"limit": 2, "cursor": cursor})).json()
        found += [chat["id"] for chat in piece["items"]]
        cursor = piece["next"]
    assert found == chats[::-1]


async def test_the_list_is_narrowed_by_folder_and_archive(here: World):
    first, second, third = [await here.chat(title=title) for title in ("First", "Second", "Third")]
    await here.ada.patch(f"/api/v1/chats/{second}", json={"folder": "Garden"})
    await here.ada.patch(f"/api/v1/chats/{third}", json={"archived": True})
    await here.chat(temporary=True)

    async def listed(**query: Any) -> list[str]:
        items = (await here.ada.get("/api/v1/chats", params=query)).json()["items"]
        return [chat["id"] for chat in items]

    assert await listed() == [second, first]
    assert await listed(folder="Garden") == [second]
    assert await listed(archived="true") == [third]


async def test_words_are_found_with_a_marked_and_escaped_snippet(here: World):
    chat = await here.chat()
    said = await here.said(chat, "The <b>tide</b> & the moon")
    (hit,) = [
        hit
        for hit in (await here.ada.get("/api/v1/chats", params={"q": "moon tide"})).json()["items"]
        if hit["message"] == said["message"]["id"]
    ]
    assert hit["id"] == chat
    assert hit["snippet"] == "The &lt;b&gt;<mark>tide</mark>&lt;/b&gt; &amp; the <mark>moon</mark>"


async def test_a_cursor_that_is_not_ours_is_refused(here: World):
    for query in ({"cursor": "zz"}, {"cursor": "zz", "q": "tide"}, {"limit": "0"}, {"limit": "many"}):
        answer = await here.ada.get("/api/v1/chats", params=query)
        assert problem(answer)[:2] == (400, "invalid"), query


# --- opened -----------------------------------------------------------------------------------------------


async def test_a_chat_opens_with_its_last_messages_and_goes_back_from_there(here: World):
    chat = await here.chat()
    here.upstream.script("normal", "normal?tokens=1")
    for number in range(26):
        await here.said(chat, f"Number {number}")
    opened = (await here.ada.get(f"/api/v1/chats/{chat}")).json()
    assert len(opened["messages"]) == 50
    first = opened["messages"][0]
    for before in (first["id"], first["position"]):
        earlier = (await here.ada.get(f"/api/v1/chats/{chat}", params={"before": before})).json()
        assert [m["role"] for m in earlier["messages"]] == ["user", "assistant"]
        assert earlier["messages"][-1]["id"] == first["parent"]
    assert problem(await here.ada.get(f"/api/v1/chats/{chat}", params={"before": "top"}))[:2] == (
        400,
        "invalid",
    )


async def test_a_running_reply_is_named_and_the_queue_shown(here: World):
    chat = await here.chat(model="endless")
    reply = await here.running(chat)
    second = (await here.post(chat, "Second")).json()["message"]
    opened = (await here.ada.get(f"/api/v1/chats/{chat}")).json()
    assert opened["running_reply"] == reply
    assert [message["id"] for message in opened["queued"]] == [second["id"]]
    (listed,) = (await here.ada.get("/api/v1/chats")).json()["items"]
    assert listed["running_reply"] == reply


# --- changed ----------------------------------------------------------------------------------------------


async def test_a_chat_is_changed_in_what_is_named_alone(here: World):
    chat = await here.chat(title="Before")
    changed = await here.ada.patch(
        f"/api/v1/chats/{chat}", json={"folder": " Kitchen  garden ", "unread": True}
    )
    said = changed.json()
    assert (said["title"], said["folder"], said["unread"]) == ("Before", "Kitchen garden", True)
    said = (await here.ada.patch(f"/api/v1/chats/{chat}", json={"folder": None, "model": None})).json()
    assert (said["folder"], said["model"], said["unread"]) == (None, None, True)


@pytest.mark.parametrize(
    ("fields", "refusal"),
    [
        ({"title": "  "}, (400, "invalid", "title")),
        ({"title": None}, (400, "invalid", "title")),
        ({"pinned": 1}, (400, "invalid", "pinned")),
        ({"leaf": new_id()}, (400, "invalid", "leaf")),
        ({"model": "gpt-4"}, (422, "unknown-model", None)),
    ],
)
async def test_a_change_that_cannot_be_changes_nothing(here: World, fields: dict[str, Any], refusal: Any):
    chat = await here.chat(title="Before")
    before = (await here.ada.get(f"/api/v1/chats/{chat}")).json()
    answer = await here.ada.patch(f"/api/v1/chats/{chat}", json={"folder": "Garden"} | fields)
    assert problem(answer) == refusal
    assert (await here.ada.get(f"/api/v1/chats/{chat}")).json() == before


async def test_other_pages_are_told_of_changes(here: World):
    (ada,) = [user for user in await here.desk.house.people.everybody() if user.name == "ada"]
    with here.desk.house.bulletin.attach(ada.id) as page:  # type: ignore[arg-type]
        page.take()
        chat = await here.chat()
        await here.ada.patch(f"/api/v1/chats/{chat}", json={"title": "Renamed"})
        await here.ada.patch(f"/api/v1/chats/{chat}", json={"pinned": True})
        await here.ada.delete(f"/api/v1/chats/{chat}")
        assert [(news.kind, news.data["change"]) for news in told(page)] == [
            ("chat", "created"),
            ("chat", "renamed"),
            ("chat", "moved"),
            ("chat", "deleted"),
        ]


def told(page: PersonFollower) -> list[News]:
    return page.take()[1]


async def test_deleting_a_chat_stops_its_reply_first(here: World):
    chat = await here.chat(model="endless")
    reply = await here.running(chat)
    assert (await here.ada.delete(f"/api/v1/chats/{chat}")).status_code == 204
    assert (await here.upstream.received(1)).client_closed
    assert problem(await here.ada.get(f"/api/v1/chats/{chat}"))[:2] == (404, "not-found")
    assert problem(await here.ada.get(f"/api/v1/replies/{reply}"))[:2] == (404, "not-found")


async def test_drafts_are_kept_for_each_chat_and_for_the_next_one(here: World):
    chat = await here.chat()
    for path in (f"/api/v1/chats/{chat}/draft", "/api/v1/draft"):
        assert (await here.ada.get(path)).json() == {"text": ""}
        assert (await here.ada.put(path, json={"text": f"For {path}"})).status_code == 204
        assert (await here.ada.get(path)).json() == {"text": f"For {path}"}
    too_long = await here.ada.put("/api/v1/draft", json={"text": "ä" * 140_000})
    assert problem(too_long) == (413, "too-long", "text")
    await here.said(chat)
    assert (await here.ada.get(f"/api/v1/chats/{chat}/draft")).json() == {"text": ""}


# --- somebody else's --------------------------------------------------------------------------------------


async def test_what_is_somebody_elses_does_not_exist(here: World):
    """Also for an administrator; and a stale id, or none at all, is told the same."""
    bob = await here.program("bob")
    chat = await here.chat(bob, model="endless")
    accepted = (await here.post(chat, by=bob)).json()
    queued = (await here.post(chat, "Second", by=bob)).json()["message"]["id"]
    ids = {"chats": chat, "replies": accepted["reply"]["id"], "messages": queued}
    before = (await bob.get(f"/api/v1/chats/{chat}")).json()
    for kind in (ids, dict.fromkeys(ids, new_id()), dict.fromkeys(ids, "1")):
        for method, path, body in EVERYTHING:
            path = path.format(**kind)
            answer = await here.ada.request(
                method, f"/api/v1{path}", json=body, headers={"idempotency-key": new_id()}
            )
            assert problem(answer)[:2] == (404, "not-found"), f"{method} {path}"
    assert (await bob.get(f"/api/v1/chats/{chat}")).json() == before


EVERYTHING: list[tuple[str, str, dict[str, Any] | None]] = [
    ("GET", "/chats/{chats}", None),
    ("PATCH", "/chats/{chats}", {"title": "Mine"}),
    ("DELETE", "/chats/{chats}", None),
    ("POST", "/chats/{chats}/messages", {"text": "Hello"}),
    ("POST", "/chats/{chats}/branch", {"message": new_id()}),
    ("GET", "/chats/{chats}/draft", None),
    ("PUT", "/chats/{chats}/draft", {"text": "Mine"}),
    ("PATCH", "/messages/{messages}", {"text": "Mine"}),
    ("DELETE", "/messages/{messages}", None),
    ("POST", "/messages/{messages}/send-now", None),
    ("GET", "/replies/{replies}", None),
    ("GET", "/replies/{replies}/events", None),
    ("GET", "/replies/{replies}/requests", None),
    ("POST", "/replies/{replies}/stop", None),
    ("POST", "/replies/{replies}/regenerate", {}),
    ("POST", "/replies/{replies}/continue", {}),
]


async def test_what_is_somebody_elses_cannot_be_named_in_ones_own(here: World):
    bob, chat = await here.program("bob"), await here.chat()
    his = await here.chat(bob)
    foreign = (await here.said(his, by=bob))["message"]["id"]
    upload = await bob.post("/api/v1/files", files={"file": ("a.txt", b"text")})
    assert problem(await here.post(chat, parent=foreign))[:2] == (404, "not-found")
    assert problem(await here.post(chat, files=[upload.json()["id"]]))[:2] == (404, "not-found")
    branch = await here.ada.post(f"/api/v1/chats/{chat}/branch", json={"message": foreign})
    assert problem(branch)[:2] == (404, "not-found")
    opened = await here.ada.get(f"/api/v1/chats/{chat}", params={"before": foreign})
    assert problem(opened)[:2] == (404, "not-found")
    assert (await here.ada.get(f"/api/v1/chats/{chat}")).json()["messages"] == []
