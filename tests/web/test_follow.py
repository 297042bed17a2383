"""The streams on the wire: where they begin, how they go on, and when they end."""

import asyncio
import socket
import zlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from app.core.ids import ReplyId, new_id
from app.web import follow
from app.web.middleware import guarded
from app.web.protocol import HttpToolsProtocol
from tests.support.desk import Desk, Visitor, desk, hidden
from tests.support.following import Event, PageModel, following, served, text_of
from tests.support.upstream import Upstream

SLOW, QUICK, HANG = "echo?tps=40&size=4", "echo?size=2", "hang?after=3"


@dataclass
class Place:
    """A served Nightdesk with the person `ada`, and an upstream that says again what it is asked."""

    desk: Desk
    url: str
    ada: Visitor
    web: httpx.AsyncClient

    def client(self, visitor: Visitor, url: str | None = None) -> httpx.AsyncClient:
        """`visitor`'s browser, over the wire."""
        url = url or self.url
        cookies = {cookie.name: cookie.value or "" for cookie in visitor.web.cookies.jar}
        headers = {"x-csrf-token": visitor.csrf, "origin": url}
        return httpx.AsyncClient(base_url=url, cookies=cookies, headers=headers, timeout=20)

    async def ask(self, text: str, model: str = SLOW, chat: str | None = None) -> tuple[str, str]:
        """Ask in a chat, a new one if none is given; the ids of the chat and of the reply."""
        if chat is None:
            chat = (await self.web.post("/api/v1/chats", json={"kind": "chat"})).json()["id"]
        models = (await self.web.get("/api/v1/models")).json()["items"]
        picked = next(found["id"] for found in models if found["name"] == model)
        answer = await self.web.post(
            f"/api/v1/chats/{chat}/messages",
            json={"text": text, "model": picked},
            headers={"idempotency-key": new_id()},
        )
        assert answer.status_code == 202, answer.text
        return str(chat), str(answer.json()["reply"]["id"])

    async def ended(self, reply: str) -> None:
        """Wait until the reply has its outcome."""
        async with following(self.web, f"/api/v1/replies/{reply}/events") as events:
            await events.rest()


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    upstream = Upstream(models=(SLOW, QUICK, HANG))
    await upstream.start()
    async with AsyncExitStack() as stack:
        stack.push_async_callback(upstream.stop)
        made = await stack.enter_async_context(desk(tmp_path / "data", drain=0.0))
        await made.house.models.add_endpoint("up", "openai-chat", upstream.url)
        url = await stack.enter_async_context(served(made))
        ada = await made.member("ada", "admin")
        place = Place(made, url, ada, httpx.AsyncClient())
        place.web = await stack.enter_async_context(place.client(ada))
        yield place


async def test_a_new_follower_gets_everything_so_far_and_then_each_event(place: Place) -> None:
    _, reply = await place.ask("Some words to say again, one after the other.")
    async with following(place.web, f"/api/v1/replies/{reply}/events") as events:
        headers = events.response.headers
        state, *more = await events.rest()
    assert headers["content-type"].startswith("text/event-stream")
    assert headers["cache-control"] == "no-store"
    assert headers["x-accel-buffering"] == "no"
    assert state.type == "state"
    assert state.data["id"] == reply
    assert (state.data["text"] + text_of(more)).endswith("Some words to say again, one after the other.")
    assert more[-1].type == "finished"
    run, first = str(state.id).split("-")
    numbers = [int(event.id.split("-")[1]) for event in more if event.id]
    assert numbers == list(range(int(first) + 1, int(first) + 1 + len(numbers)))
    assert {event.id.split("-")[0] for event in more if event.id} == {run}


async def test_events_have_the_shape_of_the_seam(place: Place) -> None:
    _, reply = await place.ask("Words.")
    async with following(place.web, f"/api/v1/replies/{reply}/events") as events:
        found = await events.rest()
    for event in found[1:]:
        names = {"round", "data"} if event.type in ("text", "reasoning") else {"ts", "round", "data"}
        assert set(event.data) == names
        assert (event.id is None) == (event.type in ("status", "tool_progress"))


async def test_a_follower_that_comes_back_gets_what_came_since_alone(place: Place) -> None:
    _, reply = await place.ask(
        "A longer text that is said in many small pieces, so that one can leave in between."
    )
    path = f"/api/v1/replies/{reply}/events"
    seen: list[Event] = []
    last: str | None = None
    for _ in range(6):
        headers = {"last_event_id": last} if last else {}
        async with following(place.web, path, **headers) as events:
            for _ in range(4):
                if (event := await events.next()) is not None:
                    seen.append(event)
                    last = event.id or last
    async with following(place.web, path, last_event_id=str(last)) as events:
        seen += await events.rest()
    state, *more = seen
    assert [event.type for event in seen].count("state") == 1
    numbers = [int(event.id.split("-")[1]) for event in more if event.id]
    assert numbers == sorted(set(numbers))
    assert (state.data["text"] + text_of(more)).endswith("so that one can leave in between.")


async def test_the_header_wins_over_the_query(place: Place) -> None:
    _, reply = await place.ask("Words to come back to.", QUICK)
    await place.ended(reply)
    path = f"/api/v1/replies/{reply}/events"
    async with following(place.web, path) as events:
        (state,) = await events.rest()
    run, last = str(state.id).split("-")
    async with following(
        place.web, f"{path}?after={run}-1", last_event_id=f"{run}-{int(last) - 1}"
    ) as events:
        assert [event.type for event in await events.rest()] == ["finished"]
    async with following(place.web, f"{path}?after={run}-{int(last) - 2}") as events:
        assert len(await events.rest()) == 2


@pytest.mark.parametrize("point", ["{run}-999999", "0123456789-3", "nonsense", "-1", "{run}-"])
async def test_a_follower_of_another_run_or_from_the_future_gets_the_state(place: Place, point: str) -> None:
    _, reply = await place.ask("Words.", QUICK)
    await place.ended(reply)
    generation = place.desk.house.registry.find(ReplyId(reply))
    assert generation is not None
    after = point.format(run=generation.run)
    async with following(place.web, f"/api/v1/replies/{reply}/events?after={after}") as events:
        assert (await events.rest())[0].type == "state"


async def test_after_the_end_there_is_nothing_to_come_back_for(place: Place) -> None:
    _, reply = await place.ask("Words.", QUICK)
    await place.ended(reply)
    path = f"/api/v1/replies/{reply}/events"
    async with following(place.web, path) as events:
        (state,) = await events.rest()
    assert (await place.web.get(path, headers={"last-event-id": str(state.id)})).status_code == 204
    assert (await place.web.get(f"{path}?after={state.id}")).status_code == 204


async def test_somebody_elses_reply_does_not_exist(place: Place) -> None:
    chat, reply = await place.ask("Words.", QUICK)
    async with place.client(await place.desk.member("bob")) as bob:
        for path in (
            f"/api/v1/replies/{reply}/events",
            f"/api/v1/events?reply={reply}",
            f"/events?chat={chat}",
            f"/events?reply={reply}",
        ):
            assert (await bob.get(path)).status_code == 404
    async with httpx.AsyncClient(base_url=place.url) as nobody:
        assert (await nobody.get("/api/v1/events")).status_code == 401
        assert (await nobody.get("/events", headers={"accept": "text/event-stream"})).status_code == 401


async def test_each_event_can_be_read_when_it_comes_though_the_stream_is_packed(place: Place) -> None:
    _, reply = await place.ask("Small pieces of text, packed one by one.")
    headers = {"accept-encoding": "gzip"}
    unpack, plain, chunks = zlib.decompressobj(16 + zlib.MAX_WBITS), b"", 0
    async with place.web.stream("GET", f"/api/v1/replies/{reply}/events", headers=headers) as response:
        assert response.headers["content-encoding"] == "gzip"
        async for chunk in response.aiter_raw():
            plain += unpack.decompress(chunk)
            chunks += 1
            # Whatever has arrived ends with a whole event.
            assert plain.endswith(b"\n\n")
    assert chunks > 5
    assert unpack.eof
    assert b"event: finished" in plain


async def test_deltas_are_joined_for_those_who_are_behind_and_no_others(place: Place) -> None:
    _, reply = await place.ask("Words that come all at once, faster than anybody reads them.", QUICK)
    await place.ended(reply)
    path = f"/api/v1/replies/{reply}/events"
    generation = place.desk.house.registry.find(ReplyId(reply))
    assert generation is not None
    async with following(place.web, f"{path}?after={generation.run}-2") as events:
        behind = [event for event in await events.rest() if event.type == "text"]
    assert len(behind) == 1
    assert behind[0].data["data"]["text"].endswith("faster than anybody reads them.")


async def test_one_who_leaves_or_does_not_read_holds_up_nobody(place: Place) -> None:
    _, reply = await place.ask("Words that others read to their end. " * 3)
    path = f"/api/v1/replies/{reply}/events"
    async with following(place.web, path) as left:
        await left.next()
    reader, writer = await asyncio.open_connection(*place.url.removeprefix("http://").split(":"))
    cookie = "; ".join(f"{name}={value}" for name, value in place.web.cookies.items())
    writer.write(f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncookie: {cookie}\r\n\r\n".encode())
    await writer.drain()
    async with following(place.web, path) as events:
        assert (await events.rest())[-1].type == "finished"
    writer.close()
    assert reader is not None


async def test_one_who_does_not_read_is_let_go(place: Place) -> None:
    class Impatient(HttpToolsProtocol):
        unread = 0.2

    gone = asyncio.Event()

    async def endless(request: Request) -> Response:
        async def pieces() -> AsyncIterator[bytes]:
            try:
                while True:
                    yield b"x" * 65_536
                    await asyncio.sleep(0)
            finally:
                gone.set()

        return StreamingResponse(pieces())

    routes = [Route("/endless", guarded(endless, "member", "chat"))]
    async with served(place.desk.with_routes(routes), Impatient) as url:
        host, _, port = url.removeprefix("http://").partition(":")
        cookie = "; ".join(f"{name}={value}" for name, value in place.web.cookies.items())
        with socket.create_connection((host, int(port))) as silent:
            silent.sendall(f"GET /endless HTTP/1.1\r\nhost: {host}\r\ncookie: {cookie}\r\n\r\n".encode())
            async with asyncio.timeout(20):
                await gone.wait()


async def test_a_page_that_attaches_has_its_chat_read(place: Place) -> None:
    chat, reply = await place.ask("Words.", QUICK)
    await place.ended(reply)
    assert (await place.web.get(f"/api/v1/chats/{chat}")).json()["unread"]
    async with following(place.web, f"/events?chat={chat}") as events:
        await events.until("snapshot")
    assert not (await place.web.get(f"/api/v1/chats/{chat}")).json()["unread"]


async def test_a_person_is_told_first_what_is_going_on_and_then_what_changes(place: Place) -> None:
    async with following(place.web, "/api/v1/events") as events:
        (snapshot,) = await events.until("snapshot")
        assert snapshot.data == {"running": [], "waiting": [], "unread": [], "queues": {}}
        chat, reply = await place.ask("Words.", QUICK)
        found = await events.until("toast")
    told = [(event.type, event.data.get("state")) for event in found if event.type == "reply"]
    assert told == [("reply", "running"), ("reply", "complete")]
    assert all(event.id is None for event in found)
    assert found[-1].data["chat"] == chat
    assert reply


async def test_a_reply_comes_along_under_its_own_names(place: Place) -> None:
    _, reply = await place.ask("Words that come along.")
    async with following(place.web, f"/api/v1/events?reply={reply}") as events:
        found = await events.until("reply.finished")
        assert [event.type for event in found][:2] == ["snapshot", "reply.state"]
        assert all((event.id is not None) <= event.type.startswith("reply.") for event in found)
        # The person's stream goes on.
        await place.ask("Another.", QUICK)
        await events.until("toast")


async def test_a_page_gets_frames_that_add_up(place: Place) -> None:
    text = "# Head\n\nSome *words*.\n\n- one\n- two\n\n```py\nx = 1\n```\n\nThe end."
    chat, reply = await place.ask(text)
    page = PageModel()
    async with following(place.web, f"/events?chat={chat}&reply={reply}&after=") as events:
        found = await events.until("ended")
    sync = next(event for event in found if event.type == "sync")
    assert f'id="reply-{reply}"' in sync.data["html"]
    assert found[-1].data["state"] == "complete"
    assert 'aria-busy="false"' in found[-1].data["html"]
    assert "The end" not in found[-1].data["html"]
    assert page.frames == 0


async def test_a_page_that_shows_a_reply_which_ended_meanwhile_gets_it_whole(place: Place) -> None:
    chat, reply = await place.ask("Words.", QUICK)
    await place.ended(reply)
    async with following(place.web, f"/events?chat={chat}&reply={reply}&after=") as events:
        found = await events.until("sync")
    assert 'aria-busy="false"' in found[-1].data["html"]
    assert "Words." in found[-1].data["html"]


async def test_a_page_that_is_seen_keeps_its_chat_read(place: Place) -> None:
    chat, _ = await place.ask("Seen.", SLOW)
    async with following(place.web, f"/events?chat={chat}") as events:
        found = await events.until("reply")
        assert place.desk.house.bulletin.watched(place.ada.person.id, chat)  # type: ignore[union-attr, arg-type]
    assert found
    assert not (await place.web.get(f"/api/v1/chats/{chat}")).json()["unread"]


async def test_a_queue_is_drawn_for_the_page_that_shows_it(place: Place) -> None:
    chat, _ = await place.ask("First.", HANG)
    async with following(place.web, f"/events?chat={chat}") as events:
        await events.until("snapshot")
        await place.web.post(
            f"/api/v1/chats/{chat}/messages", json={"text": "Later."}, headers={"idempotency-key": "later"}
        )
        (fragment,) = [event for event in await events.until("fragment") if event.type == "fragment"]
    assert fragment.data["id"] == "queue"
    assert "Later." in fragment.data["html"]


async def test_a_fifth_page_of_one_session_takes_the_place_of_the_one_shown_longest_ago(place: Place) -> None:
    async with AsyncExitStack() as stack:
        pages = [await stack.enter_async_context(following(place.web, "/events")) for _ in range(4)]
        for page in pages:
            await page.until("snapshot")
        await stack.enter_async_context(following(place.web, "/events"))
        assert [event.type for event in await pages[0].rest()] == ["yield"]
        other = await place.desk.sign_in("ada")
        elsewhere = await stack.enter_async_context(place.client(other))
        await stack.enter_async_context(following(elsewhere, "/events"))
        await place.ask("Words.", QUICK)
        assert (await pages[1].until("reply"))[-1].type == "reply"


async def test_signing_out_closes_every_stream_at_once(place: Place) -> None:
    chat, reply = await place.ask("Words.", HANG)
    async with AsyncExitStack() as stack:
        paths = (f"/events?chat={chat}&reply={reply}", "/api/v1/events", f"/api/v1/replies/{reply}/events")
        streams = [await stack.enter_async_context(following(place.web, path)) for path in paths]
        for stream in streams:
            await stream.next()
        settings = await place.web.get("/settings/account", headers={"accept": "text/html"})
        assert hidden(settings.text, "csrf")
        await place.web.post("/sign-out", data={"csrf": place.ada.csrf})
        for stream in streams:
            await stream.rest()
    assert place.desk.house.views.followed == 0
    assert place.desk.house.views.pages == {}


async def test_a_stream_that_has_nothing_to_say_says_that_it_is_there(place: Place) -> None:
    class Impatient(follow.PersonEvents):
        beat = 0.03

    class ImpatientPage(follow.PageEvents):
        beat = 0.03

    async def person(request: Request) -> Response:
        return Impatient(request, None, None)

    async def page(request: Request) -> Response:
        return ImpatientPage(request, None, None, None)

    routes = [
        Route("/api/person", guarded(person, "member", "chat")),
        Route("/page", guarded(page, "member", "chat")),
    ]
    async with served(place.desk.with_routes(routes)) as url, place.client(place.ada, url) as web:
        async with following(web, "/api/person") as events:
            assert (await events.until(":"))[-1].type == ":"
        async with following(web, "/page") as events:
            assert (await events.until("beat"))[-1].type == "beat"


async def test_closing_the_house_lets_followers_go(place: Place) -> None:
    chat, reply = await place.ask("Words.", HANG)
    async with AsyncExitStack() as stack:
        paths = (f"/events?chat={chat}&reply={reply}", "/api/v1/events", f"/api/v1/replies/{reply}/events")
        streams = [await stack.enter_async_context(following(place.web, path)) for path in paths]
        for stream in streams:
            await stream.next()
        await place.desk.house.registry.close(0)
        place.desk.house.bulletin.close()
        for stream in streams:
            await stream.rest()
