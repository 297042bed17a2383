"""Which model and endpoint a call gets, the providers that are open, and a model call outside of replies.

Everything that a reply asks here is answered from memory: the catalogue is loaded anew after each change.
"""

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol, cast, get_args

from app.accounts import audit
from app.accounts.access import Person
from app.core.errors import Invalid, NightdeskError, ProviderError, UnknownModel
from app.core.ids import ChatId, EndpointId, ModelId, UserId
from app.core.messages import Message, Usage
from app.providers.base import EndpointConfig, FoundModel, Provider, ProviderEvent, Providers, Request
from app.replies.bare import Answer
from app.replies.endpoints import EMBEDDED, Endpoints, EndpointSettings, Secrets, config_of
from app.replies.meter import cost_of
from app.store import endpoints, ledger, settings
from app.store.engine import Database, Session
from app.store.tables import Endpoint, Model
from app.tasks import Tasks

__all__ = ["Choice", "EndpointSettings", "Found", "Models", "Role", "Secrets"]

logger = logging.getLogger(__name__)

Role = Literal["chat", "title", "compact", "extract", "embed"]
ROLES = get_args(Role)
_ROLES_SETTING = "roles"  # {role: model id}

# Lists of models hold many that do not chat. It decides only what is taken where nobody has chosen anything.
_NO_CHAT = re.compile(
    r"embed|rerank|whisper|tts|dall-e|image|audio|realtime|transcribe|moderation|guard|sora", re.I
)

_LIMITS = {"context_length": 100_000_000, "max_output": 100_000_000}
_PRICES = ("price_input", "price_output", "price_cached")
_LONGEST_NAME = 120


class Found(Protocol):
    """A server of models found on this machine."""

    @property
    def name(self) -> str: ...
    @property
    def url(self) -> str: ...
    @property
    def models(self) -> Sequence[str]: ...


class Discovery(Protocol):
    async def found(self) -> Sequence[Found]:
        """What was found lately; never waits for a slow one."""
        ...


@dataclass(frozen=True, slots=True)
class Choice:
    """A model, where it is, and how it is reached; `config` holds the decrypted key."""

    model: Model
    endpoint: Endpoint
    config: EndpointConfig


@dataclass(frozen=True, slots=True)
class _Catalogue:
    """All endpoints and models as of the last change. `faults` says why a model can't be used now."""

    rows: Sequence[tuple[Endpoint, list[Model]]] = ()
    choices: Mapping[str, Choice] = field(default_factory=dict)
    faults: Mapping[str, str] = field(default_factory=dict)
    roles: Mapping[str, str] = field(default_factory=dict)


class Models:
    """The models of this house. `start` before anything else; `embedded` is empty where there is none."""

    def __init__(
        self,
        db: Database,
        providers: Providers,
        secrets: Secrets,
        tasks: Tasks,
        *,
        embedded: Sequence[FoundModel] = (),
        discovery: Discovery | None = None,
        settings: EndpointSettings = EndpointSettings(),  # noqa: B008 - frozen
    ) -> None:
        self._db = db
        self._providers = providers
        self._secrets = secrets
        self._tasks = tasks
        self._embedded = embedded
        self._discovery = discovery
        self._endpoints = Endpoints(db, providers, secrets, settings, self.refresh)
        self._catalogue = _Catalogue()
        self._open: dict[EndpointConfig, Provider] = {}
        self._loading = asyncio.Lock()

    async def start(self, openai_api_key: str | None = None, openai_base_url: str | None = None) -> None:
        """Load the catalogue. At the first start, make an endpoint of what the environment holds; it is asked
        for its models in the background. (ANTHROPIC_API_KEY is taken over once that API can be spoken.)"""
        taken = None
        if openai_api_key or openai_base_url:
            taken = await self._endpoints.take_over(openai_api_key, openai_base_url)
        if self._embedded:
            await self._endpoints.offer_embedded(self._embedded)
        await self.refresh()
        if taken is not None:
            self._tasks.start("first look at the endpoint of the environment", self._look(taken))

    async def _look(self, endpoint_id: EndpointId) -> None:
        try:
            await self._endpoints.check(endpoint_id)
        except NightdeskError as error:
            logger.warning("the endpoint of the environment does not answer: %s", error)

    async def refresh(self) -> None:
        """Load the catalogue from the store."""
        async with self._loading:
            async with self._db.read() as s:
                rows = await endpoints.all(s)
                configs = {row.id: await self._config(s, row) for row, _ in rows}
                roles = (await settings.read_all(s)).get(_ROLES_SETTING, {})
            choices, faults = {}, {}
            for endpoint, models in rows:
                for model in models:
                    choices[model.id] = Choice(model, endpoint, configs[endpoint.id])
                    if (fault := self._fault(model, endpoint)) is not None:
                        faults[model.id] = fault
            self._catalogue = _Catalogue(rows, choices, faults, roles)
            used = set(configs.values())
            self._open = {config: provider for config, provider in self._open.items() if config in used}

    async def _config(self, s: Session, endpoint: Endpoint) -> EndpointConfig:
        try:
            return await config_of(s, self._secrets, endpoint)
        except NightdeskError as error:
            # One key that can't be opened must not take the others' endpoints away; this one will be refused.
            logger.error("the key of endpoint %s cannot be opened: %s", endpoint.name, error)
            return EndpointConfig(endpoint.name, endpoint.api, endpoint.base_url, None, endpoint.idle_timeout)

    def _fault(self, model: Model, endpoint: Endpoint) -> str | None:
        where = f"'{endpoint.name}'"
        if endpoint.came_from == EMBEDDED and not self._embedded:
            return "The local model is left out of this installation. Pick another one."
        if not endpoint.enabled:
            return (
                f"{where} is switched off, and '{model.name}' with it. Pick another model, or switch it on."
            )
        if model.vanished:
            return f"{where} no longer offers '{model.name}'. Pick another model."
        if not model.enabled:
            return f"'{model.name}' of {where} is switched off. Pick another model."
        return None

    # --- choosing ------------------------------------------------------------------------------------------

    def all(self) -> Sequence[tuple[Endpoint, list[Model]]]:
        """Every endpoint with its models, usable or not."""
        return self._catalogue.rows

    def usable(self) -> list[tuple[Model, Endpoint]]:
        """The models that can be picked, in order."""
        catalogue = self._catalogue
        return [
            (choice.model, choice.endpoint)
            for model_id, choice in catalogue.choices.items()
            if model_id not in catalogue.faults
        ]

    def chosen(self, role: Role) -> Model | None:
        """The model that somebody set for the role, usable or not."""
        choice = self._catalogue.choices.get(self._catalogue.roles.get(role, ""))
        return choice.model if choice else None

    def default(self, role: Role = "chat") -> Model | None:
        """The model that a call of this role gets where none is picked."""
        choice = self._default(role)
        return choice.model if choice and choice.model.id not in self._catalogue.faults else None

    async def choose(self, pick: ModelId | None, role: Role = "chat") -> Choice:
        """The pick, or the role's model. Never another one silently. Raises UnknownModel, which says why."""
        choice = self._catalogue.choices.get(pick) if pick is not None else self._default(role)
        if choice is None:
            raise UnknownModel(_NONE_AT_ALL if pick is None else _GONE)
        if (fault := self._catalogue.faults.get(choice.model.id)) is not None:
            raise UnknownModel(fault)
        return choice

    def _default(self, role: Role) -> Choice | None:
        """The role's model if one is set, usable or not, else the chat's, else the first that is no toy.

        A set one that can't be used is not replaced: the next one may be somebody else's computer.
        """
        if (model := self.chosen(role)) is not None:
            return self._catalogue.choices[model.id]
        if role == "embed":
            return None
        if role != "chat":
            return self._default("chat")
        usable = [self._catalogue.choices[model.id] for model, _ in self.usable()]
        talking = [choice for choice in usable if not _NO_CHAT.search(choice.model.wire_name)]
        large = [choice for choice in talking if choice.endpoint.came_from != EMBEDDED]
        return next(iter(large or talking), None)

    async def open(self, choice: Choice) -> Provider:
        """The provider of the choice's endpoint, the same one while its settings stay the same."""
        provider = self._open.get(choice.config)
        if provider is None:
            provider = self._open[choice.config] = self._providers.open(choice.config)
        return provider

    # --- a bare call ---------------------------------------------------------------------------------------

    async def call(
        self,
        role: Role,
        messages: Sequence[Message],
        user: UserId,
        *,
        chat: ChatId | None = None,
        system: str = "",
        max_output: int | None = None,
    ) -> str:
        """One model call outside of a reply, and its ledger row, also when it breaks off or is cancelled; one that
        was turned down has none.

        Raises UnknownModel and every ProviderError.
        """
        choice = await self.choose(None, role)
        provider = await self.open(choice)
        model = choice.model
        request = Request(
            model.wire_name,
            tuple(messages),
            system,
            max_output=max_output or model.max_output or None,
            sampling=model.sampling,
        )
        answer, turned_down = Answer(), False
        stream = cast(AsyncGenerator[ProviderEvent, None], provider.stream(request))
        try:
            async with aclosing(stream) as events:
                async for event in events:
                    answer.take(event)
                    if answer.is_too_long:
                        break
        except ProviderError as error:
            turned_down = answer.is_empty and not error.may_cost
            raise
        finally:
            if not turned_down:
                await self._write_down(role, choice, answer.usage(request), user, chat)
        return answer.whole(choice.endpoint.name)

    async def _write_down(
        self, role: Role, choice: Choice, usage: Usage, user: UserId, chat: ChatId | None
    ) -> None:
        row = asdict(usage) | {
            "user": user,
            "chat": chat,
            "role": role,
            "model": choice.model.id,
            "model_name": choice.model.name,
            "endpoint": choice.endpoint.name,
            "cost": cost_of(choice.model, usage),
        }

        async def write(s: Session) -> None:
            await ledger.add(s, **row)

        await self._db.write(write)

    # --- administration ------------------------------------------------------------------------------------

    async def add_endpoint(
        self,
        name: str,
        api: str,
        base_url: str,
        key: str | None = None,
        came_from: str = "person",
        by: Person | None = None,
    ) -> tuple[Endpoint, list[Model]]:
        """As `Endpoints.add`."""
        return await self._endpoints.add(name, api, base_url, key, came_from, by)

    async def check(self, endpoint_id: EndpointId) -> tuple[Endpoint, list[Model]]:
        """As `Endpoints.check`."""
        return await self._endpoints.check(endpoint_id)

    async def update_endpoint(self, endpoint_id: EndpointId, **fields: Any) -> Endpoint:
        """As `Endpoints.update`."""
        return await self._endpoints.update(endpoint_id, **fields)

    async def delete_endpoint(self, endpoint_id: EndpointId, by: Person | None = None) -> None:
        """With its models and key; the roles that its models had are free again. Raises NotFound, Refused."""
        gone = await self._endpoints.delete(endpoint_id, by)
        await self._set_roles(
            {role: None for role, model in self._catalogue.roles.items() if model in gone}, by
        )

    async def update_model(self, model_id: ModelId, *, by: Person | None = None, **fields: Any) -> Model:
        """Change name, enabled, context_length, max_output, price_input, price_output, price_cached,
        capabilities, sampling or position; a later check keeps them. Raises UnknownModel, Invalid."""
        for name, value in fields.items():
            _check_field(name, value)

        async def write(s: Session) -> Model:
            model = await endpoints.update_model(s, model_id, **fields)
            await audit.note(s, "setting changed", by, target=model.name, detail=fields)
            return model

        model = await self._db.write(write)
        await self.refresh()
        return model

    async def set_default(self, role: Role, model_id: ModelId | None, *, by: Person | None = None) -> None:
        """Give the role its model; None leaves it to `default`. Raises UnknownModel, Invalid."""
        if role not in ROLES:
            raise Invalid(f"There is no role '{str(role)[:40]}'.", "role")
        if model_id is not None:
            await self.choose(model_id)
        await self._set_roles({role: model_id}, by)

    async def _set_roles(self, changes: Mapping[str, ModelId | None], by: Person | None) -> None:
        async def write(s: Session) -> None:
            roles = (await settings.read_all(s)).get(_ROLES_SETTING, {}) | changes
            await settings.put(s, _ROLES_SETTING, {role: model for role, model in roles.items() if model})
            await audit.note(s, "setting changed", by, target=_ROLES_SETTING, detail=dict(changes))

        if changes:
            await self._db.write(write)
        await self.refresh()

    async def found_locally(self) -> list[Found]:
        """Servers of models on this machine that are no endpoint yet. Does not wait for slow ones."""
        if self._discovery is None:
            return []
        known = {endpoint.base_url for endpoint, _ in self._catalogue.rows}
        return [found for found in await self._discovery.found() if found.url not in known]


_GONE = "The model that was picked is no longer there. Pick another one."
_NONE_AT_ALL = "There is no model for this yet. Add an endpoint or choose a model under Settings, Models."


def _check_field(name: str, value: Any) -> None:
    """Raises Invalid for a value that can't be. Which fields there are is the store's to know."""
    bad = False
    if name == "name":
        bad = (
            not isinstance(value, str)
            or not 0 < len(value.strip()) <= _LONGEST_NAME
            or not value.isprintable()
        )
    elif name in _LIMITS:
        bad = type(value) is not int or not 0 <= value <= _LIMITS[name]
    elif name in _PRICES:
        bad = value is not None and (type(value) not in (int, float) or not 0 <= value < 1e9)
    elif name == "enabled":
        bad = type(value) is not bool
    if bad:
        raise Invalid(f"This value can't be used as the model's {name.replace('_', ' ')}.", name)
