"""Settings: endpoints and models as an administrator keeps them, and what everybody may choose for themselves."""

import gzip
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from app.core.ids import EndpointId
from tests.support.desk import OURS, Visitor
from tests.support.upstream import Upstream
from tests.web.api.world import World, world


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[World]:
    async with world(tmp_path / "data") as found:
        yield found


@pytest.fixture
async def ada(here: World) -> Visitor:
    return await here.desk.sign_in("ada")


@pytest.fixture
async def second() -> AsyncIterator[Upstream]:
    upstream = Upstream(models=("alpha", "beta"))
    await upstream.start()
    yield upstream
    await upstream.stop()


def endpoint_of(here: World) -> EndpointId:
    return EndpointId(here.desk.house.models.all()[0][0].id)


async def test_an_endpoint_is_added_with_its_models(here: World, ada: Visitor, second: Upstream):
    answer = await ada.send("/settings/endpoints", {"name": "Second", "base_url": second.url})
    assert (answer.status_code, answer.headers["location"]) == (303, "/settings")
    page = (await ada.get("/settings")).text
    assert "Second" in page
    assert "alpha" in page


async def test_one_that_cannot_be_reached_is_said_and_nothing_typed_is_lost(here: World, ada: Visitor):
    fields = {"name": "Nowhere", "base_url": "http://127.0.0.1:9/v1", "api_key": "sk-canary-1234"}
    answer = await ada.send("/settings/endpoints", fields)
    assert answer.status_code == 502
    assert 'value="Nowhere"' in answer.text
    assert 'value="http://127.0.0.1:9/v1"' in answer.text
    assert 'role="alert"' in answer.text
    assert "sk-canary-1234" not in answer.text


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"name": "A", "base_url": "not an address"}, "base_url"),
        ({"name": " ", "base_url": "http://127.0.0.1:9/v1"}, "name"),
        ({"name": "Upstream", "base_url": "http://127.0.0.1:9/v1"}, "name"),
    ],
)
async def test_the_field_at_fault_is_marked(ada: Visitor, fields: dict[str, str], field: str):
    answer = await ada.send("/settings/endpoints", fields)
    assert answer.status_code == 400
    assert re.search(rf'name="{field}"[^>]*aria-invalid="true"', answer.text)


async def test_a_script_gets_the_list_alone(ada: Visitor, second: Upstream):
    fields = {"csrf": ada.csrf, "name": "Second", "base_url": second.url}
    answer = await ada.web.post("/settings/endpoints", data=fields, headers=OURS | {"hx-request": "true"})
    assert answer.status_code == 200
    assert answer.text.lstrip().startswith('<div class="stack settings-models" id="models">')
    assert "alpha" in answer.text


async def test_an_endpoint_is_renamed_and_switched_off(here: World, ada: Visitor):
    id = endpoint_of(here)
    form = (await ada.get(f"/settings?endpoint={id}")).text
    assert f'action="/settings/endpoints/{id}"' in form
    await ada.send(f"/settings/endpoints/{id}", {"name": "Renamed", "idle_timeout": "90"})
    row = here.desk.house.models.all()[0][0]
    assert (row.name, row.idle_timeout, row.enabled) == ("Renamed", 90, False)
    assert "Switched off" in (await ada.get("/settings")).text


async def test_one_that_stopped_answering_is_told_with_a_way_to_try_again(here: World, ada: Visitor):
    await here.upstream.stop()
    id = endpoint_of(here)
    answer = await ada.send(f"/settings/endpoints/{id}/check")
    assert answer.status_code == 502
    page = (await ada.get("/settings")).text
    assert "Does not answer" in page
    assert "Try again" in page


async def test_an_endpoint_is_deleted_with_its_models(here: World, ada: Visitor):
    await ada.send(f"/settings/endpoints/{endpoint_of(here)}/delete")
    assert here.desk.house.models.all() == []
    assert "No endpoint yet." in (await ada.get("/settings")).text


async def test_a_model_keeps_what_a_person_set_and_nothing_else(here: World, ada: Visitor):
    id = here.models["normal"]
    assert f'action="/settings/models/{id}"' in (await ada.get(f"/settings?model={id}")).text
    fields = {
        "name": "Everyday",
        "context_length": "4096",
        "price_input": "0,5",
        "price_output": "",
        "enabled": "1",
    }
    await ada.send(f"/settings/models/{id}", fields)
    (_, models), *_ = here.desk.house.models.all()
    model = next(model for model in models if model.id == id)
    assert (model.name, model.context_length, model.price_input) == ("Everyday", 4096, 0.5)
    assert model.edited == ["context_length", "name", "price_input"]


@pytest.mark.parametrize(
    "fields",
    [
        {"context_length": "many"},
        {"price_input": "cheap"},
        {"name": "x" * 200},
        {"context_length": "-1"},
        {"context_length": "9" * 5000},
    ],
)
async def test_what_a_model_cannot_be_is_a_sentence_at_its_form(
    here: World, ada: Visitor, fields: dict[str, str]
):
    id = here.models["normal"]
    answer = await ada.send(f"/settings/models/{id}", {"name": "Everyday"} | fields)
    assert answer.status_code == 400
    assert f'action="/settings/models/{id}"' in answer.text
    assert 'role="alert"' in answer.text


async def test_the_default_of_each_role_is_chosen(here: World, ada: Visitor):
    await ada.send("/settings/roles", {"chat": here.models["reasoning"], "title": ""})
    default = here.desk.house.models.default()
    assert default is not None
    assert default.id == here.models["reasoning"]
    assert re.search(r'<option value="[^"]+" selected>reasoning', (await ada.get("/")).text)


async def test_a_member_sees_the_models_and_changes_none(here: World, second: Upstream):
    eve = await here.desk.member("eve")
    page = (await eve.get("/settings")).text
    assert "normal" in page
    assert "Add an endpoint" not in page
    assert (await eve.send("/settings/endpoints", {"name": "S", "base_url": second.url})).status_code == 403


async def test_a_dead_endpoint_does_not_hold_up_a_page(here: World, ada: Visitor):
    await here.upstream.stop()
    for path in ("/", "/settings"):
        assert (await ada.get(path)).elapsed.total_seconds() < 5


async def test_the_look_is_kept_with_the_account(here: World, ada: Visitor):
    await ada.send(
        "/settings/appearance", {"theme": "dark", "enter": "break", "starters": "", "first_steps": ""}
    )
    other = await here.desk.sign_in("ada")
    page = (await other.get("/")).text
    assert '<html lang="en" data-theme="dark">' in page
    assert 'data-enter="break"' in page
    assert "To begin with" not in page
    assert "First steps" not in page


async def test_a_choice_that_cannot_be_is_refused(ada: Visitor):
    assert (await ada.send("/settings/appearance", {"theme": "purple"})).status_code == 400
    headers = OURS | {"x-csrf-token": ada.csrf}
    answer = await ada.web.put("/preferences", json={"role": "admin"}, headers=headers)
    assert answer.status_code == 400


async def test_a_script_tells_the_time_zone(here: World, ada: Visitor):
    headers = OURS | {"x-csrf-token": ada.csrf}
    answer = await ada.web.put("/preferences", json={"time_zone": "Asia/Tokyo"}, headers=headers)
    assert answer.status_code == 204
    assert 'data-time-zone="Asia/Tokyo"' in (await ada.get("/")).text


async def test_about_tells_what_is_running(ada: Visitor):
    page = (await ada.get("/settings/about")).text
    assert re.search(r"<dt>SQLite</dt><dd class=\"num\">3\.\d+\.\d+</dd>", page)
    assert re.search(r"<dt>Data folder</dt><dd class=\"num\">[\d.]+ [KM]B</dd>", page)


async def test_static_files_are_packed_and_kept_for_ever(here: World, ada: Visitor):
    assets = here.desk.house.render.assets
    address = f"/static/{assets.version}/app.css"
    answer = await ada.web.get(address, headers={"accept-encoding": "gzip"})
    assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert answer.headers["content-encoding"] == "gzip"
    sheet = assets.find("app.css")
    assert sheet is not None
    assert sheet.packed is not None
    plain = await ada.web.get(address, headers={"accept-encoding": "identity"})
    assert plain.content == gzip.decompress(sheet.packed)
    stale = await ada.web.get("/static/000000000000/app.css")
    assert (stale.status_code, stale.headers["cache-control"]) == (200, "no-cache")
    assert (await ada.web.get(f"/static/{assets.version}/../../run.py")).status_code == 404
