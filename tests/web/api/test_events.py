"""The event streams as a program meets them: over a socket, with its key."""

import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import uvicorn

from tests.web.api.world import World, problem

Event = tuple[str, str, Any]


@asynccontextmanager
async def connected(here: World) -> AsyncIterator[httpx.AsyncClient]:
    """Ada's program at a real server."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(here.desk.app, ws="none", lifespan="off", log_config=None))
    serving = here.desk.house.tasks.start("serve", server.serve(sockets=[listening]))
    headers = {"authorization": here.ada.headers["authorization"]}
    address = f"http://127.0.0.1:{listening.getsockname()[1]}"
    async with httpx.AsyncClient(base_url=address, headers=headers) as client:
        yield client
    server.should_exit = True
    await serving


async def events(answer: httpx.Response) -> AsyncIterator[Event]:
    """The id, type and data of each event as it comes."""
    fields: dict[str, str] = {}
    async for line in answer.aiter_lines():
        name, _, value = line.partition(": ")
        if line:
            fields[name] = value
        elif fields.get("data"):
            yield fields.get("id", ""), fields.get("event", ""), json.loads(fields["data"])
            fields = {}


async def test_a_reply_is_followed_to_its_end_and_gone_on_with(here: World):
    here.upstream.script("normal", "normal?tokens=30&tps=200")
    reply = (await here.post(await here.chat())).json()["reply"]["id"]
    path = f"/api/v1/replies/{reply}/events"
    async with connected(here) as client:
        async with client.stream("GET", path) as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            assert answer.headers["cache-control"] == "no-store"
            seen = [event async for event in events(answer)]
        whole = (await here.ada.get(f"/api/v1/replies/{reply}")).json()
        (_, first, state), (last_id, last, finished) = seen[0], seen[-1]
        assert (first, last) == ("state", "finished")
        said = "".join(data["data"]["text"] for _, kind, data in seen if kind == "text")
        assert state["text"] + said == whole["text"]
        assert finished["data"]["state"] == "complete"
        assert all(id or kind in ("status", "tool_progress") for id, kind, _ in seen)
        assert (await client.get(path, headers={"last-event-id": last_id})).status_code == 204
        assert (await client.get(path, params={"after": last_id})).status_code == 204


async def test_a_person_is_told_of_replies_and_may_follow_one_along(here: World):
    chat = await here.chat(model="endless")
    reply = await here.running(chat)
    async with connected(here) as client, client.stream("GET", f"/api/v1/events?reply={reply}") as answer:
        found = events(answer)
        seen: dict[str, Any] = {}
        while "snapshot" not in seen or "reply.state" not in seen:
            _, kind, data = await anext(found)
            seen[kind] = data
        assert chat in str(seen["snapshot"]["running"])
        await here.ada.post(f"/api/v1/replies/{reply}/stop")
        while "reply.finished" not in seen:
            _, kind, data = await anext(found)
            seen[kind] = data
        assert seen["reply.finished"]["data"]["state"] == "stopped"


async def test_revoking_the_key_closes_its_streams(here: World):
    reply = await here.running(await here.chat(model="endless"))
    (key,) = (await here.ada.get("/api/v1/keys")).json()["items"]
    async with connected(here) as client, client.stream("GET", f"/api/v1/replies/{reply}/events") as answer:
        found = events(answer)
        await anext(found)
        await here.ada.delete(f"/api/v1/keys/{key['id']}")
        assert [kind async for _, kind, _ in found if kind == "finished"] == []


async def test_a_stream_of_nothing_is_refused(here: World):
    assert problem(await here.ada.get("/api/v1/events", params={"reply": "x"}))[:2] == (400, "invalid")
