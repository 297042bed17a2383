"""Open streams are a second door: whoever loses the right to look stops seeing at once."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from starlette.requests import Request
from starlette.types import Message

from app.accounts.access import Person, Role
from app.core.errors import SignInNeeded
from app.core.ids import EndpointId, UserId, new_id
from app.providers.base import FoundModel
from app.store import endpoints
from app.store.engine import Session
from app.web.follow import page_events
from tests.support.ask import Answer, Asked, ask
from tests.support.desk import PASSWORD
from tests.web.place import Place

# The reply goes on until it is stopped.
ENDLESS = 'script:{"turns": [[{"text": "hello"}, {"hang": true}]]}'
STREAMS = ["/events", "/events?chat={chat}&reply={reply}", "/api/v1/events", "/api/v1/replies/{reply}/events"]


async def endless_reply(place: Place) -> dict[str, str]:
    """A reply of the owner's that is being written; its id and its chat's."""

    async def add(s: Session) -> str:
        made = await endpoints.add(s, name="E", api="scripted", base_url=ENDLESS, idle_timeout=600)
        (model,) = await endpoints.put_models(s, EndpointId(made.id), [FoundModel("script")])
        return str(model.id)

    model = await place.desk.house.db.write(add)
    await place.desk.house.models.refresh()
    script = place.desk.client(headers=await place.key("owner", "all"))
    chat = (await script.post("/api/v1/chats", json={"model": model})).json()["id"]
    posted = await script.post(
        f"/api/v1/chats/{chat}/messages", json={"text": "hi"}, headers={"idempotency-key": new_id()}
    )
    return {"chat": chat, "reply": posted.json()["reply"]["id"]}


@asynccontextmanager
async def watching(
    place: Place, path: str, headers: Mapping[str, str]
) -> AsyncIterator["asyncio.Task[Answer]"]:
    """A stream that is open and has begun; the task ends when the server closes it."""
    asked = Asked(place.desk.app, "GET", path, headers)
    running = asyncio.ensure_future(asked.run())
    try:
        await asyncio.wait_for(asked.begun.wait(), 20)
        assert asked.answer.status == 200, asked.answer
        assert not running.done()
        yield running
    finally:
        asked.leave()
        await asyncio.wait_for(running, 20)


async def sign_out(place: Place, person: Person, boss: Person) -> None:
    await place.desk.house.sessions.sign_out(person, "")


async def end_it_from_elsewhere(place: Place, person: Person, boss: Person) -> None:
    sessions = place.desk.house.sessions
    signed_in = await sessions.sign_in("owner", PASSWORD, "", "")
    await sessions.revoke_others(signed_in.person, "")


async def change_the_password(place: Place, person: Person, boss: Person) -> None:
    token = await place.desk.house.people.reset("owner")
    await place.desk.house.people.claim_link(token, "another set of quiet words", "", "")


async def disable(place: Place, person: Person, boss: Person) -> None:
    await place.desk.house.people.disable(person.id, boss, "")
    await place.desk.house.people.enable(person.id, boss, "")


async def change_the_role(place: Place, person: Person, boss: Person) -> None:
    role: Role = "member" if person.role == "admin" else "admin"
    await place.desk.house.people.set_role(person.id, role, boss, "")


End = Callable[[Place, Person, Person], Awaitable[None]]


async def person_of(place: Place, headers: Mapping[str, str]) -> Person:
    found = await place.desk.house.sessions.by_token(headers["cookie"].removeprefix("sid="))
    assert found is not None
    return found


@pytest.mark.parametrize(
    "end", [sign_out, end_it_from_elsewhere, change_the_password, disable, change_the_role]
)
async def test_every_stream_of_a_session_ends_with_it(place: Place, end: End):
    boss = await person_of(place, await place.session("boss"))
    for path in STREAMS:
        things = await endless_reply(place)
        headers = await place.session("owner")
        async with watching(place, path.format(**things), headers) as running:
            await end(place, await person_of(place, headers), boss)
            await asyncio.wait_for(running, 5)


async def test_every_stream_of_a_key_ends_with_it(place: Place):
    things = await endless_reply(place)
    owner = await person_of(place, await place.session("owner"))
    for path in STREAMS[2:]:
        headers = await place.key("owner", "chat")
        key = (await place.desk.house.sessions.keys_of(UserId(owner.id)))[-1].id
        async with watching(place, path.format(**things), headers) as running:
            await place.desk.house.sessions.revoke_key(owner, key, "")
            await asyncio.wait_for(running, 5)


async def test_a_stream_that_was_let_in_before_its_session_ended_tells_nothing(place: Place):
    person = await person_of(place, await place.session("owner"))
    scope: dict[str, Any] = {"type": "http", "method": "GET", "path": "/events", "query_string": b""}
    scope |= {"headers": [], "app": place.desk.app, "state": {"person": person}}
    stream = await page_events(Request(scope))
    await place.desk.house.sessions.sign_out(person, "")
    sent: list[Message] = []

    async def receive() -> Message:
        return await asyncio.Future()

    async def send(message: Message) -> None:
        sent.append(message)

    with pytest.raises(SignInNeeded):
        await stream(scope, receive, send)
    assert sent == []


async def test_a_disabled_account_stops_its_replies(place: Place):
    things = await endless_reply(place)
    owner, boss = [await person_of(place, await place.session(name)) for name in ("owner", "boss")]
    await place.desk.house.people.disable(owner.id, boss, "")
    await place.desk.house.people.enable(owner.id, boss, "")
    script = place.desk.client(headers=await place.key("owner", "read"))
    assert (await script.get(f"/api/v1/replies/{things['reply']}")).json()["state"] == "stopped"


async def test_nobody_watches_what_is_not_theirs(place: Place):
    """With the reply's id alone, live or long after, and from whatever number on."""
    things = await endless_reply(place)
    for name in ("stranger", "boss"):
        for path in (STREAMS[1], STREAMS[3]):
            for after in ({}, {"last-event-id": "0000000000-0"}, {"last-event-id": "0000000000-99"}):
                answer = await ask(
                    place.desk.app, "GET", path.format(**things), await place.session(name) | after
                )
                assert answer.status == 404, (name, path)
                assert b"hello" not in answer.body


async def test_a_page_elsewhere_opens_no_stream(place: Place):
    things = await endless_reply(place)
    for path in STREAMS:
        for foreign in ({"origin": "https://evil.example"}, {"sec-fetch-site": "same-site"}):
            headers = await place.session("owner")
            del headers["sec-fetch-site"]
            answer = await ask(place.desk.app, "GET", path.format(**things), headers | foreign)
            assert answer.status == 403
