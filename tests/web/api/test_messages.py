"""Posting messages: accepted once, refused clearly, and waiting for their turn."""

from pathlib import Path
from typing import Any

from app.core.ids import new_id
from tests.web.api.world import World, problem, world


async def stored(here: World, chat: str) -> list[str]:
    """The texts of the messages that people have in the chat, queued ones last."""
    opened = (await here.ada.get(f"/api/v1/chats/{chat}")).json()
    messages = [*opened["messages"], *opened["queued"]]
    return [
        part["text"] for m in messages if m["role"] == "user" for part in m["parts"] if part["type"] == "text"
    ]


# --- accepted ---------------------------------------------------------------------------------------------


async def test_a_message_is_accepted_with_its_reply(here: World):
    chat = await here.chat()
    answer = await here.post(chat, "Hello")
    assert answer.status_code == 202
    said = answer.json()
    assert said["message"]["parts"] == [{"type": "text", "text": "Hello"}]
    assert said["reply"]["input"] == said["message"]["id"]
    assert said["reply"]["chat"] == chat
    assert said["queued"] is False


async def test_with_wait_the_answer_is_the_whole_reply(here: World):
    said = await here.said(await here.chat())
    reply = said["reply"]
    request = await here.upstream.received(1)
    assert reply["state"] == "complete"
    assert reply["text"] == request.text
    assert reply["messages"][0]["parts"] == [{"type": "text", "text": request.text}]
    assert reply["usage"]["output_tokens"] > 0
    assert reply["stop_reason"] == "end_turn"


async def test_with_wait_a_reply_that_fails_is_told_whole_too(here: World):
    here.upstream.script("normal", "status?code=401")
    reply = (await here.said(await here.chat()))["reply"]
    assert reply["state"] == "failed"
    assert reply["error"]["code"] == "key-refused"


async def test_with_wait_a_queued_message_is_answered_after_its_turn(here: World):
    chat = await here.chat()
    here.upstream.script("normal", "normal?tokens=40&tps=200", "normal?tokens=5")
    first = (await here.post(chat, "First")).json()
    second = await here.said(chat, "Second")
    assert second["reply"]["id"] != first["reply"]["id"]
    assert second["reply"]["state"] == "complete"
    assert second["queued"] is False
    assert second["message"]["queued"] is False


async def test_with_wait_a_message_whose_turn_does_not_come_is_answered_as_queued(here: World):
    chat = await here.chat(model="endless")
    reply = await here.running(chat)
    waiting = here.desk.house.tasks.start("waiting", here.post(chat, "Second", wait=True))
    while not (await here.ada.get(f"/api/v1/chats/{chat}")).json()["queued"]:
        pass
    await here.ada.post(f"/api/v1/replies/{reply}/stop")
    answer = await waiting
    assert answer.status_code == 202
    assert answer.json()["queued"] is True
    assert answer.json()["reply"] is None


async def test_revoking_the_key_ends_the_wait(here: World):
    chat = await here.chat(model="endless")
    waiting = here.desk.house.tasks.start("waiting", here.post(chat, wait=True))
    await here.upstream.received(1)
    (key,) = (await here.ada.get("/api/v1/keys")).json()["items"]
    await here.ada.delete(f"/api/v1/keys/{key['id']}")
    assert problem(await waiting) == (401, "sign-in", None)


async def test_a_client_may_choose_the_id(here: World):
    chat, id = await here.chat(), new_id()
    assert (await here.post(chat, id=id)).json()["message"]["id"] == id
    taken = await here.post(await here.chat(), id=id)
    assert problem(taken)[:2] == (409, "key-reused")


async def test_sampling_reaches_the_model(here: World):
    await here.said(await here.chat(), sampling={"temperature": 0.25, "stop": ["END"]})
    body = (await here.upstream.received(1)).body
    assert body["temperature"] == 0.25
    assert body["stop"] == ["END"]


async def test_a_parent_makes_a_branch(here: World):
    chat = await here.chat()
    first = (await here.said(chat, "First"))["message"]
    beside = (await here.said(chat, "Instead", parent=None))["message"]
    assert beside["parent"] is None
    assert beside["siblings"] == [first["id"], beside["id"]]
    assert await stored(here, chat) == ["Instead"]
    back = await here.ada.post(f"/api/v1/chats/{chat}/branch", json={"message": first["id"]})
    assert [m["role"] for m in back.json()["messages"]] == ["user", "assistant"]
    assert await stored(here, chat) == ["First"]


# --- once -------------------------------------------------------------------------------------------------


async def test_the_same_key_gives_the_same_answer(here: World):
    chat, key = await here.chat(), new_id()
    first = (await here.said(chat, key=key))["reply"]
    again = await here.post(chat, key=key)
    assert again.status_code == 202
    assert again.json()["reply"]["id"] == first["id"]
    assert await stored(here, chat) == ["Hello"]


async def test_the_same_key_with_other_content_is_refused(here: World):
    chat, key = await here.chat(), new_id()
    await here.said(chat, "One", key=key)
    assert problem(await here.post(chat, "Two", key=key))[:2] == (409, "key-reused")
    assert problem(await here.post(await here.chat(), "One", key=key))[:2] == (409, "key-reused")
    assert await stored(here, chat) == ["One"]


async def test_without_a_usable_key_nothing_is_sent(here: World):
    chat = await here.chat()
    unusable: list[dict[str, str]] = [{}, {"idempotency-key": ""}, {"idempotency-key": "k" * 201}]
    for headers in unusable:
        answer = await here.ada.post(f"/api/v1/chats/{chat}/messages", json={"text": "Hi"}, headers=headers)
        assert problem(answer) == (400, "invalid", "Idempotency-Key")
    assert await stored(here, chat) == []


# --- refused ----------------------------------------------------------------------------------------------

BODIES = {
    "no JSON": b"text=Hello",
    "nothing": b"",
    "cut off": b'{"text": "Hel',
    "a list": b'["text"]',
    "a number that is none": b'{"text": "Hello", "sampling": {"temperature": NaN}}',
    "not UTF-8": b'{"text": "\xff"}',
    "a field twice": b'{"text": "One", "text": "Two"}',
    "NUL": rb'{"text": "a\u0000b"}',
    "half a pair": rb'{"text": "a\ud800b"}',
    "nested without end": b'{"text": "a", "sampling": ' + b'{"a":' * 5000 + b"1" + b"}" * 5000 + b"}",
}


async def test_a_body_that_cannot_be_read_is_refused(here: World):
    chat = await here.chat()
    for name, body in BODIES.items():
        headers = {"idempotency-key": new_id(), "content-type": "application/json"}
        answer = await here.ada.post(f"/api/v1/chats/{chat}/messages", content=body, headers=headers)
        assert problem(answer)[:2] == (400, "invalid"), name
    assert await stored(here, chat) == []


FIELDS: list[tuple[dict[str, Any], str]] = [
    ({"text": None}, "text"),
    ({"text": 7}, "text"),
    ({"text": " \n"}, "text"),
    ({"mode": "ask"}, "mode"),
    ({"owner": new_id()}, "owner"),
    ({"id": "not-an-id"}, "id"),
    ({"parent": "x"}, "parent"),
    ({"files": "x"}, "files"),
    ({"files": [7]}, "files"),
    ({"sampling": {"model": "another"}}, "sampling"),
    ({"sampling": {"temperature": True}}, "sampling"),
    ({"busy": "wait"}, "busy"),
]


async def test_a_field_that_cannot_be_is_named(here: World):
    chat = await here.chat()
    for fields, field in FIELDS:
        assert problem(await here.post(chat, **fields)) == (400, "invalid", field), fields
    assert await stored(here, chat) == []


async def test_odd_text_is_kept_as_it_is(here: World):
    chat, text = await here.chat(), "שלום \u202eevil\u202c e\u0301 👩‍👩‍👧 \t\n end"
    await here.said(chat, text)
    assert await stored(here, chat) == [text]


async def test_two_megabytes_are_too_much_and_nothing_is_stored(here: World):
    chat = await here.chat()
    assert problem(await here.post(chat, "x" * 2_000_000))[:2] == (413, "too-long")
    assert await stored(here, chat) == []


async def test_a_text_above_the_limit_is_too_long(here: World):
    chat = await here.chat()
    assert problem(await here.post(chat, "ä" * 140_000)) == (413, "too-long", "text")
    assert await stored(here, chat) == []


async def test_an_unknown_model_is_refused_and_never_another_one_taken(here: World):
    chat = await here.chat()
    for model in (new_id(), "gpt-4"):
        assert problem(await here.post(chat, model=model))[:2] == (422, "unknown-model")
    assert await stored(here, chat) == []


async def test_an_archived_chat_takes_no_message(here: World):
    chat = await here.chat()
    await here.ada.patch(f"/api/v1/chats/{chat}", json={"archived": True})
    assert problem(await here.post(chat))[:2] == (409, "archived")


async def test_too_many_messages_are_slowed_down(tmp_path: Path):
    async with world(tmp_path / "data", messages_per_minute=1) as here:
        bob = await here.browser("bob")
        chat = await here.chat(bob, model="endless")
        answers = [await here.post(chat, by=bob) for _ in range(3)]
        assert problem(answers[-1])[:2] == (429, "too-many-tries")
        assert int(answers[-1].headers["retry-after"]) > 0


# --- while a reply runs -----------------------------------------------------------------------------------


async def test_busy_reject_names_the_reply_that_runs(here: World):
    chat = await here.chat(model="endless")
    reply = await here.running(chat)
    answer = await here.post(chat, "Second", busy="reject")
    assert problem(answer)[:2] == (409, "busy")
    assert answer.json()["reply"] == reply
    assert await stored(here, chat) == ["Hello"]


async def test_busy_replace_stops_what_runs_and_says_this_instead(here: World):
    chat = await here.chat(model="endless")
    reply = await here.running(chat)
    second = await here.said(chat, "Second", busy="replace", model=here.models["normal"])
    assert second["reply"]["state"] == "complete"
    assert (await here.ada.get(f"/api/v1/replies/{reply}")).json()["state"] == "stopped"


async def test_a_queued_message_can_be_changed_removed_and_sent(here: World):
    chat = await here.chat(model="endless")
    reply = await here.running(chat)
    second, third = [(await here.post(chat, text)).json() for text in ("Second", "Third")]
    assert second["queued"] is True
    assert second["reply"] is None
    path = f"/api/v1/messages/{second['message']['id']}"
    assert (await here.ada.patch(path, json={"text": "Other words"})).json()["parts"][0][
        "text"
    ] == "Other words"
    assert (await here.ada.delete(f"/api/v1/messages/{third['message']['id']}")).status_code == 204
    assert problem(await here.ada.post(f"{path}/send-now"))[:2] == (409, "busy")
    await here.ada.post(f"/api/v1/replies/{reply}/stop")
    sent = await here.ada.post(f"{path}/send-now")
    assert sent.status_code == 202
    assert sent.json()["reply"]["input"] == second["message"]["id"]
    assert (await here.ada.post(f"{path}/send-now")).json()["reply"]["id"] == sent.json()["reply"]["id"]
    assert problem(await here.ada.patch(path, json={"text": "Too late"}))[:2] == (410, "not-open")
    assert problem(await here.ada.delete(path))[:2] == (410, "not-open")
    assert await stored(here, chat) == ["Hello", "Other words"]
