"""Which model a call gets, and what becomes of endpoints, their keys and the models they offer."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from app.accounts.vault import Vault
from app.core.errors import (
    BrokenStream,
    IdleTimeout,
    Invalid,
    KeyRefused,
    ModelMissing,
    NotFound,
    Overloaded,
    ProviderError,
    RateLimited,
    Refused,
    UnknownModel,
    Unreachable,
    WrongProtocol,
)
from app.core.ids import EndpointId, ModelId, UserId
from app.core.messages import Usage, user_message
from app.outbound import Outbound
from app.providers.base import (
    Done,
    EndpointConfig,
    FoundModel,
    ProviderEvent,
    ReasoningSeen,
    Request,
    TextSeen,
    UsageSeen,
)
from app.providers.discover import Found
from app.providers.table import Table
from app.replies.models import EndpointSettings, Models
from app.store import audit, ledger, people, secrets
from app.store.engine import Database, Session
from app.store.folder import DataFolder
from app.store.tables import Endpoint, Model
from app.tasks import Tasks
from tests.support.upstream import Upstream

SMALL = FoundModel("smollm2", "SmolLM2 135M", context_length=2048)
UP = "http://up.test/v1"


class Puppets:
    """Endpoints by address: a list of models, or the error that asking for it gives; `said` is what calls get."""

    def __init__(self) -> None:
        self.lists: dict[str, list[FoundModel] | Exception] = {UP: [FoundModel("big"), FoundModel("small")]}
        self.said: list[ProviderEvent | Exception] = [TextSeen("Hi"), Done("end_turn", "stop")]
        self.opened: list[EndpointConfig] = []
        self.requests: list[Request] = []
        self.hang = False

    def open(self, config: EndpointConfig) -> "Puppet":
        self.opened.append(config)
        return Puppet(self, config)


@dataclass
class Puppet:
    house: Puppets
    config: EndpointConfig

    async def models(self) -> list[FoundModel]:
        found = self.house.lists.get(self.config.base_url, Unreachable("cannot be reached"))
        if isinstance(found, Exception):
            raise found
        return found

    async def stream(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        self.house.requests.append(request)
        for event in self.house.said:
            if isinstance(event, Exception):
                raise event
            yield event
        if self.house.hang:
            await asyncio.Event().wait()


@dataclass
class World:
    db: Database
    vault: Vault
    tasks: Tasks
    puppets: Puppets = field(default_factory=Puppets)
    user: UserId = field(init=False)

    def models(self, **options: Any) -> Models:
        providers = options.pop("providers", self.puppets)
        return Models(self.db, providers, self.vault, self.tasks, **options)

    async def add(
        self, models: Models, name: str = "Up", url: str = UP, **more: Any
    ) -> tuple[Endpoint, list[Model]]:
        return await models.add_endpoint(name, "openai-chat", url, **more)

    async def key_of(self, endpoint: Endpoint) -> bool:
        async with self.db.read() as s:
            return await secrets.get(s, endpoint.id, "key") is not None

    async def actions(self) -> list[tuple[str, str]]:
        async with self.db.read() as s:
            rows, _ = await audit.audit(s)
        return sorted((row.action, row.target) for row in rows)


@asynccontextmanager
async def world_in(folder: Path) -> AsyncIterator[World]:
    tasks = Tasks("test")
    place = DataFolder(folder)
    db = await Database.open(place, tasks)
    world = World(db, await Vault.unlock(db, place), tasks)

    async def person(s: Session) -> str:
        return (await people.add_user(s, name="Ada", name_folded="ada", role="admin", password=None)).id

    world.user = UserId(await db.write(person))
    yield world
    await tasks.close(grace=5)
    await db.close()


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with world_in(tmp_path / "data") as world:
        yield world


def named(models: Models, wire_name: str) -> ModelId:
    return ModelId(next(m.id for _, found in models.all() for m in found if m.wire_name == wire_name))


# --- which model a call gets ----------------------------------------------------------------------------------


async def test_the_embedded_model_is_there_from_the_start(world: World) -> None:
    models = world.models(embedded=(SMALL,))
    await models.start()
    ((model, endpoint),) = models.usable()
    assert (model.name, endpoint.name, endpoint.api) == ("SmolLM2 135M", "Local model", "local")
    assert models.default() is model
    await models.start()
    assert len(models.all()) == 1


async def test_a_model_that_somebody_added_is_taken_before_the_embedded_one(world: World) -> None:
    models = world.models(embedded=(SMALL,))
    await models.start()
    world.puppets.lists[UP] = [FoundModel("text-embedding-3"), FoundModel("whisper-1"), FoundModel("gpt-5")]
    await world.add(models)
    default = models.default()
    assert default is not None
    assert default.wire_name == "gpt-5"


async def test_a_pick_is_taken_and_the_provider_stays_the_same(world: World) -> None:
    models = world.models()
    await world.add(models, key="sk-1")
    choice = await models.choose(named(models, "small"))
    assert (choice.model.wire_name, choice.endpoint.name, choice.config.key) == ("small", "Up", "sk-1")
    assert await models.open(choice) is await models.open(await models.choose(named(models, "big")))
    assert "sk-1" not in repr(choice.config)


async def test_an_unknown_pick_is_an_error_and_never_another_model(world: World) -> None:
    models = world.models()
    await world.add(models)
    with pytest.raises(UnknownModel, match="no longer there"):
        await models.choose(ModelId("gone"))


async def test_without_any_model_it_says_what_to_do(world: World) -> None:
    models = world.models()
    await models.start()
    assert models.default() is None
    with pytest.raises(UnknownModel, match="Settings, Models"):
        await models.choose(None)


async def test_what_cannot_be_used_says_why(world: World) -> None:
    models = world.models(embedded=(SMALL,))
    await models.start()
    endpoint, _ = await world.add(models)
    big, small, tiny = (named(models, name) for name in ("big", "small", "smollm2"))
    await models.update_model(small, enabled=False)
    world.puppets.lists[UP] = [FoundModel("small")]
    await models.check(EndpointId(endpoint.id))
    for pick, why in ((big, "'Up' no longer offers 'big'"), (small, "'small' of 'Up' is switched off")):
        with pytest.raises(UnknownModel, match=why):
            await models.choose(pick)
    await models.update_endpoint(EndpointId(endpoint.id), enabled=False)
    with pytest.raises(UnknownModel, match="'Up' is switched off"):
        await models.choose(small)
    assert [model.wire_name for model, _ in models.usable()] == ["smollm2"]
    without = world.models()
    await without.start()
    with pytest.raises(UnknownModel, match="left out"):
        await without.choose(tiny)
    assert without.usable() == []


async def test_roles_have_models_of_their_own(world: World) -> None:
    models = world.models()
    await world.add(models)
    big, small = named(models, "big"), named(models, "small")
    assert models.chosen("title") is None
    await models.set_default("title", small)
    assert (await models.choose(None, "title")).model.id == small
    assert (await models.choose(None, "compact")).model.id == big
    assert (await models.choose(None)).model.id == big
    await models.set_default("title", None)
    assert (await models.choose(None, "title")).model.id == big
    with pytest.raises(UnknownModel):
        await models.choose(None, "embed")
    with pytest.raises(UnknownModel):
        await models.set_default("chat", ModelId("gone"))
    with pytest.raises(Invalid):
        await models.set_default("poet", big)  # type: ignore[arg-type]


async def test_a_default_that_was_set_and_is_gone_is_not_replaced(world: World) -> None:
    models = world.models(embedded=(SMALL,))
    await models.start()
    endpoint, _ = await world.add(models)
    await models.set_default("chat", named(models, "big"))
    await models.update_endpoint(EndpointId(endpoint.id), enabled=False)
    assert models.default() is None
    with pytest.raises(UnknownModel, match="switched off"):
        await models.choose(None)
    await models.delete_endpoint(EndpointId(endpoint.id))
    assert (await models.choose(None)).model.wire_name == "smollm2"


async def test_what_was_chosen_is_there_after_a_restart(world: World) -> None:
    models = world.models()
    await world.add(models, key="sk-1")
    await models.set_default("chat", named(models, "small"))
    again = world.models()
    await again.start()
    choice = await again.choose(None)
    assert (choice.model.wire_name, choice.config.key) == ("small", "sk-1")


# --- endpoints ------------------------------------------------------------------------------------------------


async def test_adding_reads_the_models_and_is_noted(world: World) -> None:
    models = world.models()
    endpoint, found = await world.add(models, key=" sk-1 ")
    assert (endpoint.base_url, endpoint.fault, endpoint.checked is not None) == (UP, None, True)
    assert [model.wire_name for model in found] == ["big", "small"]
    assert world.puppets.opened[0].key == "sk-1"
    assert await world.actions() == [("secret set", "Up"), ("setting changed", "Up")]


@pytest.mark.parametrize(
    ("change", "at_fault"),
    [
        ({"name": " "}, "name"),
        ({"name": "a" * 81}, "name"),
        ({"name": "a\x07"}, "name"),
        ({"api": "carrier-pigeon"}, "api"),
        ({"base_url": "up.test"}, "base_url"),
        ({"key": "a b"}, "api_key"),
        ({"key": "ключ"}, "api_key"),
        ({"key": "a\r\nb"}, "api_key"),
    ],
)
async def test_what_cannot_be_an_endpoint_is_refused_by_field(
    world: World, change: dict[str, str], at_fault: str
) -> None:
    given: dict[str, Any] = {"name": "Up", "api": "openai-chat", "base_url": UP} | change
    with pytest.raises(Invalid) as caught:
        await world.models().add_endpoint(**given)
    assert caught.value.field == at_fault
    assert world.puppets.opened == []


async def test_two_endpoints_never_share_a_name(world: World) -> None:
    models = world.models()
    await world.add(models)
    other, _ = await world.add(models, name="Other")
    with pytest.raises(Invalid, match="already"):
        await world.add(models, name="UP")
    with pytest.raises(Invalid, match="already"):
        await models.update_endpoint(EndpointId(other.id), name="uP")
    assert (await models.update_endpoint(EndpointId(other.id), name="OTHER")).name == "OTHER"


@pytest.mark.parametrize(
    "fault",
    [
        Unreachable("down"),
        KeyRefused("key"),
        RateLimited("much"),
        Overloaded("busy"),
        IdleTimeout("slow"),
        WrongProtocol("html"),
    ],
)
async def test_an_endpoint_that_does_not_answer_is_not_kept(world: World, fault: ProviderError) -> None:
    models = world.models()
    world.puppets.lists[UP] = fault
    with pytest.raises(type(fault)):
        await world.add(models, key="sk-1")
    await models.refresh()
    assert models.all() == []
    assert await world.actions() == []


@pytest.mark.parametrize("fault", [WrongProtocol("html"), ModelMissing("404"), BrokenStream("rubbish")])
async def test_an_address_without_v1_is_tried_with_it(world: World, fault: ProviderError) -> None:
    models = world.models()
    world.puppets.lists["http://up.test"] = fault
    endpoint, found = await world.add(models, url="http://up.test/")
    assert (endpoint.base_url, len(found)) == (UP, 2)


async def test_the_sentence_says_that_v1_was_tried_in_vain(world: World) -> None:
    world.puppets.lists["http://other.test"] = WrongProtocol("It is a web page.")
    with pytest.raises(WrongProtocol, match="web page") as caught:
        await world.add(world.models(), url="http://other.test")
    assert "http://other.test/v1" in caught.value.person


async def test_a_check_keeps_what_a_person_set_and_notes_what_vanished(world: World) -> None:
    models = world.models()
    endpoint, _ = await world.add(models)
    await models.update_model(named(models, "small"), name="My own", context_length=8000, price_input=0.5)
    world.puppets.lists[UP] = [FoundModel("small", "Theirs", context_length=4096), FoundModel("new")]
    _, found = await models.check(EndpointId(endpoint.id))
    told = {model.wire_name: (model.name, model.context_length, model.vanished) for model in found}
    assert told == {"big": ("big", 0, True), "small": ("My own", 8000, False), "new": ("new", 0, False)}


async def test_a_failed_check_is_remembered_until_one_succeeds(world: World) -> None:
    models = world.models()
    endpoint, _ = await world.add(models)
    good = world.puppets.lists[UP]
    world.puppets.lists[UP] = KeyRefused("The key for 'Up' was refused.")
    with pytest.raises(KeyRefused):
        await models.check(EndpointId(endpoint.id))
    assert models.all()[0][0].fault == "The key for 'Up' was refused."
    assert len(models.usable()) == 2
    world.puppets.lists[UP] = good
    await models.check(EndpointId(endpoint.id))
    assert models.all()[0][0].fault is None
    with pytest.raises(NotFound):
        await models.check(EndpointId("gone"))


@pytest.mark.parametrize(
    ("moved_to", "is_kept"),
    [
        ("http://up.test/v2", True),
        ("https://up.test/v1", False),
        ("http://up.test:8080/v1", False),
        ("http://evil.test/v1", False),
    ],
)
async def test_a_key_goes_nowhere_but_to_its_origin(world: World, moved_to: str, is_kept: bool) -> None:
    models = world.models()
    world.puppets.lists[moved_to] = [FoundModel("big"), FoundModel("small")]
    endpoint, _ = await world.add(models, key="sk-1")
    await models.update_endpoint(EndpointId(endpoint.id), base_url=moved_to)
    assert {config.key for config in world.puppets.opened if config.base_url == moved_to} == {
        "sk-1" if is_kept else None
    }
    assert (await models.choose(None)).config.key == ("sk-1" if is_kept else None)
    assert await world.key_of(endpoint) is is_kept
    assert (("secret removed", "Up") in await world.actions()) is not is_kept


async def test_a_new_address_may_bring_its_key_along(world: World) -> None:
    models = world.models()
    world.puppets.lists["http://new.test/v1"] = [FoundModel("big")]
    endpoint, _ = await world.add(models, key="sk-1")
    await models.update_endpoint(EndpointId(endpoint.id), base_url="http://new.test/v1", key="sk-2")
    assert world.puppets.opened[-1].key == "sk-2"
    await models.update_endpoint(EndpointId(endpoint.id), key="")
    assert (await models.choose(None)).config.key is None
    assert not await world.key_of(endpoint)


async def test_a_change_is_kept_though_the_new_address_does_not_answer(world: World) -> None:
    models = world.models()
    endpoint, _ = await world.add(models)
    changed = await models.update_endpoint(EndpointId(endpoint.id), base_url="http://down.test/v1")
    assert (changed.base_url, changed.fault) == ("http://down.test/v1", "cannot be reached")


async def test_other_changes_ask_nobody(world: World) -> None:
    models = world.models()
    endpoint, _ = await world.add(models)
    asked = len(world.puppets.opened)
    changed = await models.update_endpoint(
        EndpointId(endpoint.id), name="New  name", idle_timeout=5, enabled=False
    )
    assert (changed.name, changed.idle_timeout, changed.enabled) == ("New name", 5, False)
    assert len(world.puppets.opened) == asked
    with pytest.raises(Invalid):
        await models.update_endpoint(EndpointId(endpoint.id), idle_timeout=0)


async def test_deleting_takes_models_and_key_along(world: World) -> None:
    models = world.models()
    endpoint, _ = await world.add(models, key="sk-1")
    await models.delete_endpoint(EndpointId(endpoint.id))
    assert models.all() == []
    assert not await world.key_of(endpoint)
    with pytest.raises(NotFound):
        await models.delete_endpoint(EndpointId(endpoint.id))


async def test_the_embedded_endpoint_can_be_switched_off_alone(world: World) -> None:
    models = world.models(embedded=(SMALL,))
    await models.start()
    id = EndpointId(models.all()[0][0].id)
    with pytest.raises(Refused):
        await models.delete_endpoint(id)
    for change in ({"base_url": "http://evil.test"}, {"key": "k"}, {"api": "openai-chat"}):
        with pytest.raises(Refused):
            await models.update_endpoint(id, **change)
    await models.update_endpoint(id, enabled=False)
    assert models.usable() == []


async def test_a_key_that_cannot_be_opened_takes_no_other_endpoint_away(world: World) -> None:
    models = world.models()
    endpoint, _ = await world.add(models, key="sk-1")
    await world.add(models, name="Other", key="sk-2")

    async def spoil(s: Session) -> None:
        row = await secrets.get(s, endpoint.id, "key")
        assert row is not None
        row.sealed = b"\x01" + bytes(60)

    await world.db.write(spoil)
    await models.refresh()
    assert sorted(
        str(config.key)
        for config in {(await models.choose(ModelId(m.id))).config for m, _ in models.usable()}
    ) == [
        "None",
        "sk-2",
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"name": ""},
        {"name": 5},
        {"context_length": -1},
        {"context_length": True},
        {"price_input": -1},
        {"price_input": float("nan")},
        {"price_input": "1"},
        {"enabled": "yes"},
        {"wire_name": "x"},
    ],
)
async def test_a_model_takes_no_senseless_value(world: World, change: dict[str, Any]) -> None:
    models = world.models()
    await world.add(models)
    with pytest.raises(Invalid):
        await models.update_model(named(models, "big"), **change)


# --- from outside ---------------------------------------------------------------------------------------------


async def test_the_environments_key_becomes_an_endpoint_at_the_first_start_alone(world: World) -> None:
    world.puppets.lists["https://api.openai.com/v1"] = [FoundModel("gpt-5")]
    models = world.models(embedded=(SMALL,))
    await models.start("sk-env")
    async with asyncio.timeout(5):
        while len(models.usable()) < 2:  # noqa: ASYNC110 - asked in the background
            await asyncio.sleep(0.01)
    choice = await models.choose(None)
    assert (choice.endpoint.name, choice.endpoint.came_from, choice.config.key) == (
        "OpenAI",
        "environment",
        "sk-env",
    )
    await models.delete_endpoint(EndpointId(choice.endpoint.id))
    await models.start("sk-env")
    assert [endpoint.name for endpoint, _ in models.all()] == ["Local model"]


async def test_a_base_address_alone_is_taken_over_and_waited_for_by_nobody(world: World) -> None:
    models = world.models()
    await models.start(None, "http://box.lan:8000/v1/")
    ((endpoint, _),) = models.all()
    assert (endpoint.name, endpoint.base_url) == ("box.lan:8000", "http://box.lan:8000/v1")


async def test_a_senseless_environment_stops_no_start(world: World) -> None:
    models = world.models()
    await models.start("a key", "no address")
    assert models.all() == []


async def test_servers_on_this_machine_are_offered_until_they_are_endpoints(world: World) -> None:
    class Discovery:
        async def found(self) -> tuple[Found, ...]:
            return (Found("Ollama", UP, ("big",)), Found("vLLM", "http://127.0.0.1:8000/v1", ()))

    models = world.models(discovery=Discovery())
    assert [found.name for found in await models.found_locally()] == ["Ollama", "vLLM"]
    await world.add(models, came_from="discovered")
    assert [found.name for found in await models.found_locally()] == ["vLLM"]
    assert await world.models().found_locally() == []


async def test_two_endpoints_never_have_one_name(world: World) -> None:
    models = world.models()
    made = await asyncio.gather(world.add(models), world.add(models, name="UP"), return_exceptions=True)
    assert sum(isinstance(each, Invalid) for each in made) == 1
    assert len(models.all()) == 1


# --- a bare call ----------------------------------------------------------------------------------------------


async def used(world: World) -> ledger.Sum:
    async with world.db.read() as s:
        (total,) = await ledger.sums(s, world.user, by="model")
    return total


async def test_a_bare_call_gives_its_text_and_its_row(world: World) -> None:
    models = world.models()
    await world.add(models)
    await models.update_model(named(models, "big"), price_input=1.0, price_output=2.0, max_output=50)
    world.puppets.said[1:1] = [ReasoningSeen("hm"), TextSeen(" there"), UsageSeen(Usage(1_000_000, 500_000))]
    assert await models.call("title", (user_message("Hello"),), world.user) == "Hi there"
    total = await used(world)
    assert (total.calls, total.input_tokens, total.output_tokens, total.cost, total.estimated) == (
        1,
        1_000_000,
        500_000,
        2.0,
        False,
    )
    assert (world.puppets.requests[0].model, world.puppets.requests[0].max_output) == ("big", 50)


@pytest.mark.parametrize(
    ("last", "raised"),
    [
        (Done(None), BrokenStream),
        (Done("error", "content_filter"), ProviderError),
        (IdleTimeout("silent"), IdleTimeout),
    ],
)
async def test_a_call_that_fails_has_its_row_too(world: World, last: Any, raised: type[Exception]) -> None:
    models = world.models()
    await world.add(models)
    world.puppets.said = [TextSeen("four byt" * 10), last]
    with pytest.raises(raised):
        await models.call("title", (user_message("Hello you"),), world.user)
    total = await used(world)
    assert (total.calls, total.output_tokens, total.estimated) == (1, 20, True)
    assert total.input_tokens > 0


async def test_a_call_that_is_cancelled_has_its_row_too(world: World) -> None:
    models = world.models()
    await world.add(models)
    world.puppets.said, world.puppets.hang = [TextSeen("four")], True
    call = asyncio.ensure_future(models.call("title", (user_message("Hello"),), world.user))
    async with asyncio.timeout(5):
        while not world.puppets.requests:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert (await used(world)).estimated


# --- with a real adapter and a real server --------------------------------------------------------------------


@pytest.fixture
async def upstream() -> AsyncIterator[Upstream]:
    server = Upstream()
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def real(world: World) -> AsyncIterator[Models]:
    outbound = Outbound()
    yield world.models(providers=Table(outbound.http("provider"), None), settings=EndpointSettings())  # type: ignore[arg-type]
    await outbound.close()


async def test_a_real_endpoint_is_added_without_its_v1_and_called(
    world: World, real: Models, upstream: Upstream
) -> None:
    endpoint, found = await world.add(real, url=upstream.url.removesuffix("/v1"))
    assert endpoint.base_url == upstream.url
    await real.set_default("title", ModelId(found[0].id))
    assert await real.call("title", (user_message("Hello"),), world.user)


@pytest.mark.parametrize(
    ("said", "raised"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 6\r\n\r\n<html>", WrongProtocol),
        (b"HTTP/1.1 401 No\r\ncontent-length: 2\r\n\r\n{}", KeyRefused),
        (b"HTTP/1.1 503 No\r\ncontent-length: 2\r\n\r\n{}", Overloaded),
    ],
)
async def test_a_real_endpoint_that_is_none_is_told_in_a_sentence(
    world: World, real: Models, said: bytes, raised: type[ProviderError]
) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(said)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        with pytest.raises(raised, match="Up") as caught:
            await world.add(
                real, url=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", key="sk-secret-1"
            )
    assert "sk-secret-1" not in f"{caught.value} {caught.value.person}"


async def test_nothing_there_is_told_in_a_sentence(world: World, real: Models) -> None:
    with pytest.raises(Unreachable, match="Up"):
        await world.add(real, url="http://127.0.0.1:9/v1")


async def test_a_call_that_was_turned_down_costs_nothing(world: World) -> None:
    models = world.models()
    await world.add(models)
    world.puppets.said = [KeyRefused("refused")]
    with pytest.raises(KeyRefused):
        await models.call("title", (user_message("Hello"),), world.user)
    async with world.db.read() as s:
        assert await ledger.sums(s, world.user) == []


@pytest.mark.parametrize("error", [IdleTimeout("silent"), BrokenStream("cut")])
async def test_a_call_that_may_have_cost_something_has_its_row(world: World, error: Exception) -> None:
    models = world.models()
    await world.add(models)
    world.puppets.said = [error]
    with pytest.raises(type(error)):
        await models.call("title", (user_message("Hello"),), world.user)
    assert (await used(world)).estimated


async def test_a_call_that_goes_round_in_circles_is_cut_off(world: World) -> None:
    models = world.models()
    await world.add(models)
    world.puppets.said = [TextSeen("round and " * 1000)] * 12
    world.puppets.hang = True
    with pytest.raises(BrokenStream):
        await models.call("title", (user_message("Hello"),), world.user)
    assert (await used(world)).calls == 1
