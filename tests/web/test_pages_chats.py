"""The pages of chats, asked as a browser without script asks them, and as the page's own scripts do."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from app.core.ids import new_id
from tests.support.desk import OURS, Visitor, desk, hidden
from tests.web.api.world import World, world

SCRIPT = OURS | {"accept": "application/json"}


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[World]:
    async with world(tmp_path / "data") as found:
        yield found


@pytest.fixture
async def ada(here: World) -> Visitor:
    return await here.desk.sign_in("ada")


async def said(here: World, ada: Visitor, text: str = "Hello", **fields: str) -> str:
    """Send a first message by the form and wait for its reply; the path of the chat."""
    page = (await ada.get("/")).text
    answer = await ada.send("/chats", {"key": hidden(page, "key"), "text": text} | fields)
    assert answer.status_code == 303, answer.text
    path = answer.headers["location"]
    for running in (await by_script(ada, "GET", "/sidebar")).text.split("spin")[1:]:
        assert running  # it may have ended already
    await ended(here, path)
    return path


def found(pattern: str, text: str) -> str:
    """What the first group of `pattern` holds in `text`."""
    match = re.search(pattern, text)
    assert match is not None
    return match[1]


async def ended(here: World, path: str) -> None:
    """Wait until nothing runs in the chat."""
    chat = (await here.ada.get(f"/api/v1{path}")).json()
    if (reply := chat["running_reply"]) is not None:
        running = here.desk.house.registry.find(reply)
        assert running is not None
        source = await here.desk.house.registry.follow_source(reply, running.user)
        while source.state.finished is None:
            await source.feed.wait(len(source.feed.entries), source.feed.passing_count)


async def by_script(ada: Visitor, method: str, path: str, **options) -> httpx.Response:
    headers = SCRIPT | {"x-csrf-token": ada.csrf} | options.pop("headers", {})
    return await ada.web.request(method, path, headers=headers, **options)


async def test_a_new_chat_shows_what_was_said_and_the_reply(here: World, ada: Visitor):
    path = await said(here, ada, "Hello there")
    page = (await ada.get(path)).text
    assert "Hello there" in page
    assert 'aria-busy="false"' in page
    assert 'data-phase="complete"' in page


async def test_a_form_sent_twice_makes_one_chat(here: World, ada: Visitor):
    fields = {"key": new_id(), "text": "Once"}
    first, second = [(await ada.send("/chats", fields)).headers["location"] for _ in range(2)]
    assert first == second


async def test_a_script_is_given_the_message_and_its_reply(here: World, ada: Visitor):
    path, id = await said(here, ada), new_id()
    key = {"idempotency-key": new_id()}
    answer = await by_script(ada, "POST", f"{path}/messages", data={"text": "More", "id": id}, headers=key)
    assert answer.status_code == 202
    drawn = answer.json()["html"]
    assert f'id="message-{id}"' in drawn
    assert re.search(r'<article class="reply" id="reply-[^"]+"', drawn)


async def test_what_is_sent_while_a_reply_runs_waits_in_the_queue(here: World, ada: Visitor):
    path = await said(here, ada)
    reply = await here.running(path.removeprefix("/chats/"), model=here.models["endless"])
    key = {"idempotency-key": new_id()}
    answer = await by_script(ada, "POST", f"{path}/messages", data={"text": "And then?"}, headers=key)
    assert 'class="queued"' in answer.json()["html"]
    assert "And then?" in (await ada.get(path)).text
    await ada.send(f"/replies/{reply}/stop")
    page = (await ada.get(path)).text
    assert "Stopped." in page
    assert "Send now" in page


async def test_what_a_form_is_refused_with_stays_in_the_composer(here: World, ada: Visitor):
    path = await said(here, ada)
    fields = {"key": new_id(), "text": "Keep this", "model": new_id()}
    refused = await ada.send(f"{path}/messages", fields)
    assert refused.status_code == 422
    assert "Keep this</textarea>" in (await ada.get(path)).text


async def test_a_page_that_refuses_a_form_gives_back_what_was_typed(here: World, ada: Visitor):
    path = await said(here, ada)
    message = found(r'id="message-([^"]+)"', (await ada.get(path)).text)
    fields = {"key": new_id(), "text": "Other <words>", "model": new_id()}
    refused = await ada.send(f"/messages/{message}/resend", fields)
    assert refused.status_code == 422
    assert "Other &lt;words&gt;</textarea>" in refused.text
    stale = await ada.send(f"{path}/messages", {"key": new_id(), "text": "From before", "csrf": "x"})
    assert stale.status_code == 403
    assert "From before</textarea>" in stale.text
    queued = await ada.send(f"/messages/{message}/edit", {f"text-{message}": "Too late"})
    assert queued.status_code == 410
    assert "Too late</textarea>" in queued.text


async def test_regenerating_gives_another_version_and_the_arrows_between(here: World, ada: Visitor):
    path = await said(here, ada)
    reply = found(r'id="reply-([^"]+)"', (await ada.get(path)).text)
    assert (await ada.send(f"/replies/{reply}/regenerate", {"key": new_id()})).headers["location"] == path
    await ended(here, path)
    page = (await ada.get(path)).text
    assert "2 of 2" in page
    earlier = found(r'name="message" value="([^"]+)" aria-label="Earlier version"', page)
    await ada.send(f"{path}/branch", {"message": earlier})
    assert "1 of 2" in (await ada.get(path)).text


async def test_other_words_stand_as_a_version_beside_the_first(here: World, ada: Visitor):
    path = await said(here, ada, "First words")
    message = found(r'id="message-([^"]+)"', (await ada.get(path)).text)
    edit = (await ada.get(f"{path}?edit={message}")).text
    assert "First words</textarea>" in edit
    await ada.send(f"/messages/{message}/resend", {"key": new_id(), "text": "Other words"})
    page = (await ada.get(path)).text
    assert "Other words" in page
    assert "2 of 2" in page
    assert "First words" not in re.sub(r"<(title|h1|a class=\"chat-link\")[^>]*>.*?</", "", page)


async def test_a_reply_that_failed_is_a_sentence_in_its_place(here: World, ada: Visitor):
    here.upstream.script("normal", "status?code=401")
    path = await said(here, ada)
    page = (await ada.get(path)).text
    notice = re.search(
        r'<article class="reply".*?<div class="notice danger" role="alert">(.*?)</article>', page, re.S
    )
    assert notice
    assert "Retry" in notice[1]


async def test_a_reply_that_failed_stays_where_it_was_when_the_chat_goes_on(here: World, ada: Visitor):
    here.upstream.script("normal", "status?code=401")
    path = await said(here, ada)
    await ada.send(f"{path}/messages", {"key": new_id(), "text": "Again"})
    await ended(here, path)
    assert (await ada.get(path)).text.count("notice danger") == 2


async def test_opening_an_unread_chat_clears_the_mark(here: World, ada: Visitor):
    path = await said(here, ada)
    await here.ada.patch(f"/api/v1{path}", json={"unread": True})
    assert (await by_script(ada, "GET", "/marks")).json()["unread"] == 1
    assert "unread" in (await ada.get("/")).text
    await ada.get(path)
    assert (await by_script(ada, "GET", "/marks")).json() == {"unread": 0, "running": 0, "waiting": 0}


@pytest.mark.parametrize("path", ["/chats/{}", "/chats/{}/rename", "/chats/{}/messages", "/replies/{}/stop"])
async def test_what_is_somebody_elses_does_not_exist(here: World, ada: Visitor, path: str):
    mine = await said(here, ada)
    page = (await ada.get(mine)).text
    id = found(r'id="reply-([^"]+)"', page) if "replies" in path else mine.removeprefix("/chats/")
    eve = await here.desk.member("eve")
    fields = {"key": new_id(), "text": "x", "title": "x"}
    answer = await (eve.get(path.format(id)) if path == "/chats/{}" else eve.send(path.format(id), fields))
    assert answer.status_code == 404
    assert "Nothing here" in answer.text


@pytest.mark.parametrize("path", ["/chats/nonsense", "/chats/019f0000-0000-7000-8000-000000000000", "/gone"])
async def test_a_stale_address_is_a_page_with_a_way_out(ada: Visitor, path: str):
    answer = await ada.get(path)
    assert answer.status_code in (400, 404)
    assert "Go to your chats" in answer.text


async def test_a_chat_is_renamed_pinned_moved_archived_and_deleted(here: World, ada: Visitor):
    path = await said(here, ada)
    await ada.send(f"{path}/rename", {"title": "  My   title "})
    await ada.send(f"{path}/pin", {"pinned": "1"})
    page = (await ada.get(path)).text
    assert '<h1 class="clip" id="title" dir="auto">My title</h1>' in page
    assert "Pinned</span></h2>" in page
    await ada.send(f"{path}/pin", {"pinned": ""})
    await ada.send(f"{path}/folder", {"folder": "House"})
    assert "House</span></h2>" in (await ada.get(path)).text
    await ada.send(f"{path}/archive", {"archived": "1"})
    archived = (await ada.get(path)).text
    assert "This chat is archived" in archived
    assert '<textarea id="text"' not in archived
    assert "My title" in (await ada.get("/search?archived=1")).text
    assert (await ada.send(f"{path}/delete")).headers["location"] == "/"
    assert (await ada.get(path)).status_code == 404


async def test_a_temporary_chat_is_not_listed(here: World, ada: Visitor):
    page = (await ada.get("/?temporary=1")).text
    assert hidden(page, "temporary") == "1"
    path = await said(here, ada, "Off the record", temporary="1")
    assert path not in (await ada.get("/")).text


async def test_a_long_chat_is_shown_by_the_page(here: World, ada: Visitor):
    path = await said(here, ada, "Question 0")
    for number in range(1, 30):
        await here.said(path.removeprefix("/chats/"), f"Question {number}")
    end = (await ada.get(path)).text
    assert "Question 29</div>" in end
    assert "Question 1</div>" not in end
    earlier = found(r'href="([^"]+\?before=\d+)"', end)
    above = (await ada.get(earlier)).text
    assert "Question 1</div>" in above
    assert "Back to the end of the chat" in above
    piece = (await ada.web.get(earlier, headers={"hx-request": "true"} | OURS)).text
    assert "Question 1</div>" in piece
    assert "<html" not in piece


async def test_what_was_found_is_landed_on(here: World, ada: Visitor):
    path = await said(here, ada, "A needle in it")
    for number in range(30):
        await here.said(path.removeprefix("/chats/"), f"Hay {number}")
    hits = (await ada.get("/search?q=needle")).text
    landing = found(rf'href="({path}\?at=[^"]+)#at"', hits)
    page = (await ada.get(landing)).text
    assert page.index('id="at"') < page.index("A needle in it</div>")


async def test_a_snippet_marks_what_was_found_and_nothing_else(here: World, ada: Visitor):
    await said(here, ada, "a <b>needle</b> & more")
    found = (await ada.get("/search?q=needle")).text
    assert "&lt;b&gt;<mark>needle</mark>&lt;/b&gt; &amp; more" in found


async def test_a_draft_is_there_on_every_device_until_it_is_sent(here: World, ada: Visitor):
    path = await said(here, ada)
    assert (
        await by_script(ada, "PUT", f"{path}/draft", json={"text": "half a <thought>"})
    ).status_code == 204
    other = await here.desk.sign_in("ada")
    assert "half a &lt;thought&gt;</textarea>" in (await other.get(path)).text
    await ada.send(f"{path}/messages", {"key": new_id(), "text": "whole"})
    assert "half a" not in (await other.get(path)).text


async def test_text_of_a_person_is_text(here: World, ada: Visitor):
    text = "<script>alert(1)</script> **not bold** & \u202e"
    page = (await ada.get(await said(here, ada, text))).text
    assert "&lt;script&gt;alert(1)&lt;/script&gt; **not bold** &amp; \u202e</div>" in page


async def test_a_page_says_what_it_weighs_no_more_than_it_must(here: World, ada: Visitor):
    path = await said(here, ada)
    packed = await ada.get(path, accept_encoding="gzip")
    assert packed.headers["content-encoding"] == "gzip"
    assert int(packed.headers["content-length"]) < 10_000


@pytest.mark.parametrize(("at", "said"), [("http://127.0.0.1:8787", False), ("http://desk.lan:8787", True)])
async def test_a_connection_that_others_can_read_along_says_so(here: World, at: str, said: bool):
    found = await here.desk.house.sessions.sign_in("ada", "four quiet lamps at dusk", "192.168.1.2", "")
    visitor = Visitor(here.desk.client(at, cookies={"sid": found.token}), found.person)
    assert ("This connection is not private" in (await visitor.get("/")).text) is said


async def test_a_list_of_more_rows_than_a_number_can_say_is_a_list(ada: Visitor):
    assert (await ada.get(f"/sidebar?rows={'9' * 5000}")).status_code == 200


async def test_below_a_root_path_every_address_of_a_page_lies_below_it(tmp_path: Path):
    async with desk(tmp_path / "below", root_path="/desk") as below:
        ada = await below.member("ada", "admin")
        for path in ("/", "/settings", "/settings/appearance", "/search?q=x", "/chats/nothing"):
            page = (await ada.get("/desk" + path)).text
            addresses = re.findall(
                r'(?:href|src|action|formaction|hx-get|hx-post|data-events)="(/[^"]*)"', page
            )
            assert addresses
            assert all(address.startswith("/desk/") for address in addresses), path
        location = (await ada.send("/desk/settings/appearance", {"theme": "dark"})).headers["location"]
        assert location == "/desk/settings/appearance"
