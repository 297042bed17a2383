"""Models and endpoints: what can be picked, and what an administrator keeps of it."""

from typing import Any

import pytest

from app.core.ids import new_id
from tests.support.upstream import Upstream
from tests.web.api.world import World, problem

SECRET = "sk-canary-7f3a"


async def test_usable_models_are_listed_with_one_default(here: World):
    bob = await here.program("bob")
    items = (await bob.get("/api/v1/models")).json()["items"]
    assert {model["name"]: model["id"] for model in items} == here.models
    assert [model["endpoint"] for model in items] == ["Upstream"] * 3
    assert sum(model["default"] for model in items) == 1
    assert items[0]["context_length"] == 8192


async def test_a_model_switched_off_is_offered_no_more(here: World):
    model = here.models["normal"]
    changed = await here.ada.patch(
        f"/api/v1/models/{model}", json={"enabled": False, "price_input": 2.5, "sampling": {"seed": 7}}
    )
    said = changed.json()
    assert (said["enabled"], said["price_input"], said["sampling"]) == (False, 2.5, {"seed": 7})
    listed = [found["id"] for found in (await here.ada.get("/api/v1/models")).json()["items"]]
    assert model not in listed
    chat = await here.ada.post("/api/v1/chats", json={"model": model})
    assert problem(chat)[:2] == (422, "unknown-model")


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"context_length": -1}, "context_length"),
        ({"price_output": "2"}, "price_output"),
        ({"id": new_id()}, "id"),
    ],
)
async def test_a_model_cannot_be_made_nonsense(here: World, fields: dict[str, Any], field: str):
    answer = await here.ada.patch(f"/api/v1/models/{here.models['normal']}", json=fields)
    assert problem(answer) == (400, "invalid", field)
    assert problem(await here.ada.patch(f"/api/v1/models/{new_id()}", json={}))[:2] == (404, "not-found")


async def test_an_endpoint_is_added_once_and_its_key_is_never_told(here: World):
    second = Upstream(key=SECRET)
    await second.start()
    new = {"name": "Second", "api": "openai-chat", "base_url": second.url, "api_key": SECRET}
    headers = {"idempotency-key": new_id()}
    made, again = [await here.ada.post("/api/v1/endpoints", json=new, headers=headers) for _ in range(2)]
    assert made.status_code == again.status_code == 201
    assert made.json() == again.json()
    assert made.json()["api_key"] == {"set": True}
    assert len(made.json()["models"]) == 3
    listed = (await here.ada.get("/api/v1/endpoints")).json()["items"]
    assert [endpoint["name"] for endpoint in listed] == ["Upstream", "Second"]
    everything = (
        made.text
        + (await here.ada.get("/api/v1/endpoints")).text
        + (await here.ada.get("/api/v1/audit")).text
    )
    assert SECRET not in everything
    await second.stop()


@pytest.mark.parametrize(
    ("fields", "refusal"),
    [
        ({"name": " "}, (400, "invalid", "name")),
        ({"name": "upstream"}, (400, "invalid", "name")),
        ({"api": "smoke-signals"}, (400, "invalid", "api")),
        ({"base_url": "ftp://example.com"}, (400, "invalid", "base_url")),
        ({"base_url": "http://127.0.0.1:9/v1"}, (502, "unreachable", None)),
        ({"api_key": "two words"}, (400, "invalid", "api_key")),
        ({"password": "x"}, (400, "invalid", "password")),
    ],
)
async def test_an_endpoint_that_cannot_be_is_not_kept(here: World, fields: dict[str, Any], refusal: Any):
    new = {"name": "Second", "api": "openai-chat", "base_url": here.upstream.url} | fields
    assert problem(await here.ada.post("/api/v1/endpoints", json=new)) == refusal
    assert len((await here.ada.get("/api/v1/endpoints")).json()["items"]) == 1


async def test_an_endpoint_is_changed_asked_again_and_deleted(here: World):
    (endpoint,) = (await here.ada.get("/api/v1/endpoints")).json()["items"]
    path = f"/api/v1/endpoints/{endpoint['id']}"
    changed = await here.ada.patch(path, json={"name": "Renamed", "idle_timeout": 20})
    assert (changed.json()["name"], changed.json()["idle_timeout"]) == ("Renamed", 20)
    here.upstream.models.append("prose")
    checked = (await here.ada.post(f"{path}/check")).json()
    assert [model["name"] for model in checked["models"]] == ["normal", "reasoning", "endless", "prose"]
    assert (await here.ada.get(path)).json() == checked
    assert (await here.ada.delete(path)).status_code == 204
    assert problem(await here.ada.get(path))[:2] == (404, "not-found")
    assert problem(await here.ada.delete(path))[:2] == (404, "not-found")
    assert (await here.ada.get("/api/v1/models")).json()["items"] == []


async def test_deleting_an_endpoint_stops_what_its_models_write(here: World):
    reply = await here.running(await here.chat(model="endless"))
    (endpoint,) = (await here.ada.get("/api/v1/endpoints")).json()["items"]
    await here.ada.delete(f"/api/v1/endpoints/{endpoint['id']}")
    assert (await here.ada.get(f"/api/v1/replies/{reply}")).json()["state"] == "stopped"


async def test_roles_get_their_models(here: World):
    assert (await here.ada.get("/api/v1/roles")).json() == {"chat": None, "title": None}
    changed = await here.ada.patch("/api/v1/roles", json={"chat": here.models["reasoning"]})
    assert changed.json() == {"chat": here.models["reasoning"], "title": None}
    (default,) = [m["name"] for m in (await here.ada.get("/api/v1/models")).json()["items"] if m["default"]]
    assert default == "reasoning"
    assert problem(await here.ada.patch("/api/v1/roles", json={"title": new_id()}))[:2] == (
        422,
        "unknown-model",
    )
    assert problem(await here.ada.patch("/api/v1/roles", json={"embed": None}))[:2] == (400, "invalid")


async def test_usage_is_summed_up(here: World):
    bob = await here.program("bob")
    said = await here.said(await here.chat())
    await here.said(await here.chat(bob), by=bob)
    (mine,) = (await here.ada.get("/api/v1/usage", params={"by": "model"})).json()["items"]
    assert mine["group"] == "normal"
    assert (
        mine["output_tokens"] >= said["reply"]["usage"]["output_tokens"] > 0
    )  # the title is written down, too
    assert len((await here.ada.get("/api/v1/usage", params={"by": "user"})).json()["items"]) == 2
    assert len((await bob.get("/api/v1/usage", params={"by": "user"})).json()["items"]) == 1
    assert problem(await bob.get("/api/v1/usage", params={"by": "hour"})) == (400, "invalid", "by")
