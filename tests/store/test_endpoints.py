"""Endpoints and their models: a refreshed list overwrites nothing that a person has set."""

from dataclasses import dataclass

import pytest

from app.core.errors import Invalid, NotFound, UnknownModel
from app.core.ids import EndpointId, ModelId, new_id
from app.store import endpoints, secrets
from app.store.engine import Database
from app.store.tables import Model
from tests.store.steps import count


@dataclass(frozen=True)
class Listed:
    """A model as an endpoint lists it."""

    wire_name: str
    name: str | None = None
    context_length: int | None = None
    price_input: float | None = None
    capabilities: tuple[str, ...] | None = None


async def add(db: Database, name: str = "Home") -> EndpointId:
    endpoint = await db.write(
        lambda s: endpoints.add(s, name=name, api="openai-chat", base_url="http://127.0.0.1:11434/v1")
    )
    return EndpointId(endpoint.id)


async def refresh(db: Database, id: EndpointId, *found: Listed) -> dict[str, Model]:
    models = await db.write(lambda s: endpoints.put_models(s, id, found))
    return {model.wire_name: model for model in models}


async def test_what_an_endpoint_lists_becomes_its_models_in_that_order(db: Database) -> None:
    id = await add(db)
    await refresh(db, id, Listed("b", "Bee", 4096, 0.5, ("vision", "tools")), Listed("a"))
    async with db.read() as s:
        ((endpoint, models),) = await endpoints.all(s)
    assert (endpoint.id, endpoint.name, endpoint.enabled, endpoint.came_from) == (id, "Home", True, "person")
    assert [(model.wire_name, model.name) for model in models] == [("b", "Bee"), ("a", "a")]
    assert (models[0].context_length, models[0].price_input) == (4096, 0.5)
    assert models[0].capabilities == ["vision", "tools"]
    assert (models[1].context_length, models[1].price_input, models[1].vanished) == (0, None, False)


async def test_a_model_no_longer_listed_is_marked_and_comes_back_as_the_same(db: Database) -> None:
    id = await add(db)
    before = await refresh(db, id, Listed("a"), Listed("b"))
    gone = await refresh(db, id, Listed("b"))
    assert {name: model.vanished for name, model in gone.items()} == {"a": True, "b": False}
    back = await refresh(db, id, Listed("a"), Listed("b"), Listed("c"))
    assert back["a"].id == before["a"].id
    assert not back["a"].vanished
    assert back["c"].position > back["b"].position


async def test_a_refresh_brings_models_up_to_date_but_for_what_a_person_has_set(db: Database) -> None:
    id = await add(db)
    model = (await refresh(db, id, Listed("a", "Old", 100)))["a"]
    await db.write(lambda s: endpoints.update_model(s, ModelId(model.id), name="Mine", enabled=False))
    fresh = (await refresh(db, id, Listed("a", "New", 200)))["a"]
    assert (fresh.name, fresh.context_length, fresh.enabled, fresh.edited) == ("Mine", 200, False, ["name"])
    told_less = (await refresh(db, id, Listed("a")))["a"]
    assert told_less.context_length == 200


async def test_a_list_that_names_a_model_twice_is_taken_once(db: Database) -> None:
    assert list(await refresh(db, await add(db), Listed("a", "First"), Listed("a", "Second"))) == ["a"]


async def test_endpoints_and_models_are_changed_by_name(db: Database) -> None:
    id = await add(db)
    model = (await refresh(db, id, Listed("a")))["a"]
    await db.write(lambda s: endpoints.update(s, id, name="Work", fault="No connection.", checked=5))
    await db.write(
        lambda s: endpoints.update_model(s, ModelId(model.id), sampling={"temperature": 0}, position=9)
    )
    async with db.read() as s:
        endpoint, found = await endpoints.get(s, id), await endpoints.model(s, ModelId(model.id))
    assert (endpoint.name, endpoint.fault, endpoint.checked) == ("Work", "No connection.", 5)
    assert (found.sampling, found.position) == ({"temperature": 0}, 9)
    with pytest.raises(Invalid):
        await db.write(lambda s: endpoints.update(s, id, created=1))
    with pytest.raises(Invalid):
        await db.write(lambda s: endpoints.update_model(s, ModelId(model.id), wire_name="b"))


async def test_an_endpoint_goes_with_its_models_and_its_key(db: Database) -> None:
    id, other = await add(db), await add(db, "Work")
    await refresh(db, id, Listed("a"))
    await refresh(db, other, Listed("a"))
    for owner in (id, other):
        await db.write(
            lambda s, owner=owner: secrets.put(s, owner, "key", origin="x", key_version=1, sealed=b"s")  # type: ignore[misc]
        )
    assert await db.write(lambda s: endpoints.delete(s, id))
    assert not await db.write(lambda s: endpoints.delete(s, id))
    assert await count(db, "model") == 1
    assert await count(db, "secret") == 1
    async with db.read() as s:
        assert await endpoints.count(s) == 1


async def test_what_is_not_there_is_said_in_words_that_help(db: Database) -> None:
    async with db.read() as s:
        with pytest.raises(NotFound):
            await endpoints.get(s, EndpointId(new_id()))
        with pytest.raises(UnknownModel):
            await endpoints.model(s, ModelId(new_id()))
