"""Replies: read while they are written and after, stopped, asked for anew, and gone on with."""

from pathlib import Path

from app.core.ids import new_id
from tests.support.desk import desk
from tests.web.api.world import World, problem, world


async def test_a_reply_is_read_while_it_is_written(here: World):
    reply = await here.running(await here.chat(model="endless"))
    said = (await here.ada.get(f"/api/v1/replies/{reply}")).json()
    assert said["state"] == "running"
    assert said["text"] != ""
    assert said["messages"][-1]["parts"][0]["text"] == said["text"]
    assert said["ended"] is None


async def test_an_ended_reply_reads_the_same_after_a_restart(tmp_path: Path):
    async with world(tmp_path / "data") as here:
        reply = (await here.said(await here.chat(model="reasoning")))["reply"]
        assert reply["reasoning"] != ""
        assert (await here.ada.get(f"/api/v1/replies/{reply['id']}")).json() == reply
        headers = {"authorization": here.ada.headers["authorization"]}
    async with desk(tmp_path / "data") as again, again.client(headers=headers) as ada:
        assert (await ada.get(f"/api/v1/replies/{reply['id']}")).json() == reply


async def test_stop_answers_with_the_stored_outcome_and_changes_nothing_twice(here: World):
    reply = await here.running(await here.chat(model="endless"))
    stopped = await here.ada.post(f"/api/v1/replies/{reply}/stop")
    assert stopped.status_code == 202
    assert stopped.json()["state"] == "stopped"
    assert stopped.json()["text"] != ""
    assert (await here.upstream.received(1)).client_closed
    again = await here.ada.post(f"/api/v1/replies/{reply}/stop")
    assert again.json() == stopped.json()


async def test_regenerate_makes_a_sibling_once_for_each_key(here: World):
    said = await here.said(await here.chat())
    path, headers = f"/api/v1/replies/{said['reply']['id']}/regenerate", {"idempotency-key": new_id()}
    made = await here.ada.post(path, headers=headers)
    assert made.status_code == 202
    assert made.json()["input"] == said["message"]["id"]
    assert made.json()["id"] != said["reply"]["id"]
    assert (await here.ada.post(path, headers=headers)).json()["id"] == made.json()["id"]
    other = await here.ada.post(path, json={"model": here.models["reasoning"]}, headers=headers)
    assert problem(other)[:2] == (409, "key-reused")


async def test_regenerate_stops_the_running_reply_and_takes_another_model(here: World):
    reply = await here.running(await here.chat(model="endless"))
    path = f"/api/v1/replies/{reply}/regenerate"
    assert problem(await here.ada.post(path, json={"model": new_id()}))[:2] == (422, "unknown-model")
    made = await here.ada.post(path, json={"model": here.models["normal"]})
    assert made.status_code == 202
    assert (await here.ada.get(f"/api/v1/replies/{reply}")).json()["state"] == "stopped"
    assert (await here.upstream.received(2)).model == "normal"


async def test_a_stopped_reply_goes_on_with_what_it_had_written(here: World):
    reply = await here.running(await here.chat(model="endless"))
    kept = (await here.ada.post(f"/api/v1/replies/{reply}/stop")).json()["text"]
    made = await here.ada.post(f"/api/v1/replies/{reply}/continue", json={"model": here.models["normal"]})
    assert made.status_code == 202
    assert made.json()["continues"] == reply
    await here.upstream.received(2)
    text = (await here.ada.get(f"/api/v1/replies/{made.json()['id']}")).json()["text"]
    assert text.startswith(kept)


async def test_a_whole_reply_has_nothing_to_continue(here: World):
    reply = (await here.said(await here.chat()))["reply"]["id"]
    assert problem(await here.ada.post(f"/api/v1/replies/{reply}/continue"))[:2] == (410, "not-open")


async def test_another_reply_of_the_chat_holds_its_lane(here: World):
    chat = await here.chat()
    first = (await here.said(chat))["reply"]["id"]
    running = await here.running(chat, model=here.models["endless"])
    answer = await here.ada.post(f"/api/v1/replies/{first}/regenerate")
    assert problem(answer)[:2] == (409, "busy")
    assert answer.json()["reply"] == running


async def test_what_was_sent_is_listed_for_each_model_call(here: World):
    said = await here.said(await here.chat())
    (sent,) = (await here.ada.get(f"/api/v1/replies/{said['reply']['id']}/requests")).json()["items"]
    assert sent["message"] == said["reply"]["messages"][0]["id"]
    assert (sent["model"], sent["endpoint"]) == ("normal", "Upstream")
    assert sent["request"]["last"] == said["message"]["id"]
