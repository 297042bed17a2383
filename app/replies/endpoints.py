"""Endpoints as an administrator keeps them: added, tried, changed and deleted, with keys and models.

Whoever changes an address must not get the key of the old one sent there: a key is sealed for one origin, and
goes when the origin does. No network call is awaited inside a transaction.
"""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from app.accounts import audit
from app.accounts.access import Person
from app.core.clock import now_ms
from app.core.errors import (
    BrokenStream,
    IdleTimeout,
    Invalid,
    ModelMissing,
    ProviderError,
    Refused,
    RequestRejected,
    WrongProtocol,
)
from app.core.ids import EndpointId
from app.core.urls import endpoint_url, origin_of
from app.providers.base import EndpointConfig, FoundModel, Providers
from app.store import endpoints, secrets, settings
from app.store.engine import Database, Session
from app.store.tables import Endpoint, Model

logger = logging.getLogger(__name__)

KEY = "key"
EMBEDDED = "embedded"
EMBEDDED_NAME = "Local model"
EMBEDDED_URL = "local:smollm2"
SCRIPT = "script:"
OPENAI_URL = "https://api.openai.com/v1"

_CHECK_SECONDS = 15.0
_LONGEST_NAME = 80
_LONGEST_SCRIPT = 20_000
_LONGEST_IDLE = 24 * 3600
_VERSIONED = re.compile(r"/v[0-9][a-z0-9]*(?:/|$)")
_KEY = re.compile(r"[\x21-\x7e]{1,4096}", re.ASCII)


class Secrets(Protocol):
    """What is kept encrypted; the vault."""

    async def open(self, s: Session, owner: str, field: str, origin: str) -> str | None:
        """The secret of row `owner`; None where there is none, or none for this origin."""
        ...

    async def seal(self, s: Session, owner: str, field: str, origin: str, plaintext: str) -> None:
        """Keep `plaintext`, to be opened for this origin alone."""
        ...


@dataclass(frozen=True, slots=True)
class EndpointSettings:
    apis: Collection[str] = ("openai-chat",)
    """The wire APIs that an endpoint may speak."""

    idle_timeout: int = 300
    """What a new endpoint gets: the longest silence that is borne, in seconds."""


class Endpoints:
    """`changed` is awaited after every change, so that the catalogue in memory follows."""

    def __init__(
        self,
        db: Database,
        providers: Providers,
        secrets: Secrets,
        settings: EndpointSettings,
        changed: Callable[[], Awaitable[None]],
    ) -> None:
        self._db = db
        self._providers = providers
        self._secrets = secrets
        self._settings = settings
        self._changed = changed

    async def add(
        self,
        name: str,
        api: str,
        base_url: str,
        key: str | None = None,
        came_from: str = "person",
        by: Person | None = None,
    ) -> tuple[Endpoint, list[Model]]:
        """Ask the endpoint for its models, and keep both. Nothing is kept where it can't be reached.

        Raises Invalid and every ProviderError.
        """
        config = EndpointConfig(
            label=_name(name),
            api=self._api(api),
            base_url=_address(base_url),
            key=_key(key) if key else None,
            idle_timeout=self._settings.idle_timeout,
        )
        async with self._db.read() as s:
            await _refuse_taken(s, config.label)
        base_url, found = await probe(self._providers, config)

        async def write(s: Session) -> tuple[Endpoint, list[Model]]:
            await _refuse_taken(s, config.label)
            endpoint = await self._insert(s, replace(config, base_url=base_url), came_from)
            endpoint.checked = now_ms()
            await _note(
                s,
                by,
                endpoint.name,
                {"endpoint": "added", "base_url": base_url},
                key=config.key is not None or None,
            )
            return endpoint, await endpoints.put_models(s, EndpointId(endpoint.id), found)

        added = await self._db.write(write)
        await self._changed()
        return added

    async def check(self, endpoint_id: EndpointId) -> tuple[Endpoint, list[Model]]:
        """Ask for the models once more, and keep what came of it. Raises NotFound and every ProviderError."""
        async with self._db.read() as s:
            endpoint = await endpoints.get(s, endpoint_id)
            config = await config_of(s, self._secrets, endpoint)
        try:
            base_url, found = await probe(self._providers, config)
        except ProviderError as error:
            await self._record(endpoint, fault=error.person)
            raise
        checked = await self._record(endpoint, base_url=base_url, found=found)
        return checked

    async def update(
        self,
        endpoint_id: EndpointId,
        *,
        name: str | None = None,
        api: str | None = None,
        base_url: str | None = None,
        key: str | None = None,
        idle_timeout: int | None = None,
        enabled: bool | None = None,
        by: Person | None = None,
    ) -> Endpoint:
        """Change what is given; a `key` of "" removes it. A new address, API or key is tried at once: what
        came of it stands in the row's `fault`, and the change is kept either way.

        Raises NotFound, Invalid, Refused.
        """
        wanted = {
            "name": _name(name) if name is not None else None,
            "api": self._api(api) if api is not None else None,
            "base_url": _address(base_url) if base_url is not None else None,
            "idle_timeout": _seconds(idle_timeout) if idle_timeout is not None else None,
            "enabled": enabled,
        }
        fields = {field: value for field, value in wanted.items() if value is not None}

        async def write(s: Session) -> tuple[Endpoint, bool]:
            before = await endpoints.get(s, endpoint_id)
            if before.came_from == EMBEDDED and (fields.keys() & {"api", "base_url"} or key):
                raise Refused("The local model has no address and no key.")
            was = (before.api, before.base_url)
            origin = origin_of(before.base_url)
            if name is not None:
                await _refuse_taken(s, _name(name), but=endpoint_id)
            after = await endpoints.update(s, endpoint_id, **fields)
            new_key = await self._put_key(s, after, key, moved=origin_of(after.base_url) != origin)
            await _note(s, by, after.name, fields, key=new_key)
            return after, key is not None or was != (after.api, after.base_url)

        endpoint, tried_anew = await self._db.write(write)
        await self._changed()
        return await self._tried(endpoint) if tried_anew else endpoint

    async def delete(self, endpoint_id: EndpointId, by: Person | None = None) -> list[str]:
        """Remove it with its key and models, whose ids are returned. Raises NotFound, Refused."""

        async def write(s: Session) -> list[str]:
            endpoint = await endpoints.get(s, endpoint_id)
            if endpoint.came_from == EMBEDDED:
                raise Refused("The local model can be switched off, but not deleted.")
            models = next(models for row, models in await endpoints.all(s) if row.id == endpoint_id)
            await endpoints.delete(s, endpoint_id)
            await _note(s, by, endpoint.name, {"endpoint": "deleted"})
            return [model.id for model in models]

        return await self._db.write(write)

    async def offer_embedded(self, found: Sequence[FoundModel]) -> None:
        """See to it that the embedded model has its row."""

        async def write(s: Session) -> None:
            known = [row for row, _ in await endpoints.all(s) if row.came_from == EMBEDDED]
            config = EndpointConfig(EMBEDDED_NAME, "local", EMBEDDED_URL, None, self._settings.idle_timeout)
            endpoint = known[0] if known else await self._insert(s, config, EMBEDDED)
            await endpoints.put_models(s, EndpointId(endpoint.id), found)

        await self._db.write(write)

    async def take_over(self, key: str | None, base_url: str | None) -> EndpointId | None:
        """Make an endpoint of what the environment says, at the first start alone; it is not tried yet.

        Returns its id if it was made. An address that can't be used is logged and left.
        """
        try:
            url = endpoint_url(base_url or OPENAI_URL)
            config = EndpointConfig(
                "OpenAI" if url == OPENAI_URL else url.partition("://")[2].partition("/")[0],
                "openai-chat",
                url,
                _key(key) if key else None,
                self._settings.idle_timeout,
            )
        except Invalid as error:
            logger.error("OPENAI_API_KEY and OPENAI_BASE_URL are left alone: %s", error)
            return None

        async def write(s: Session) -> EndpointId | None:
            first = not (await settings.read_all(s)).get("environment_taken")
            await settings.put(s, "environment_taken", True)
            if not first or await endpoints.count(s):
                return None
            return EndpointId((await self._insert(s, config, "environment")).id)

        return await self._db.write(write)

    async def _insert(self, s: Session, config: EndpointConfig, came_from: str) -> Endpoint:
        endpoint = await endpoints.add(
            s,
            name=config.label,
            api=config.api,
            base_url=config.base_url,
            came_from=came_from,
            idle_timeout=int(config.idle_timeout),
        )
        if config.key:
            await self._secrets.seal(s, endpoint.id, KEY, origin_of(config.base_url), config.key)
        return endpoint

    async def _put_key(self, s: Session, endpoint: Endpoint, key: str | None, moved: bool) -> bool | None:
        """True: there is a new key; False: it is gone; None: nothing changed."""
        if key:
            await self._secrets.seal(s, endpoint.id, KEY, origin_of(endpoint.base_url), _key(key))
            return True
        if (moved or key == "") and await secrets.get(s, endpoint.id, KEY) is not None:
            await secrets.drop(s, endpoint.id, KEY)
            return False
        return None

    async def _tried(self, endpoint: Endpoint) -> Endpoint:
        try:
            endpoint, _ = await self.check(EndpointId(endpoint.id))
        except ProviderError:
            async with self._db.read() as s:
                return await endpoints.get(s, EndpointId(endpoint.id))
        return endpoint

    async def _record(
        self,
        tried: Endpoint,
        *,
        base_url: str | None = None,
        found: Sequence[FoundModel] | None = None,
        fault: str | None = None,
    ) -> tuple[Endpoint, list[Model]]:
        """Keep what a check gave, unless somebody gave the endpoint another address meanwhile."""

        async def write(s: Session) -> tuple[Endpoint, list[Model]]:
            endpoint = await endpoints.get(s, EndpointId(tried.id))
            if endpoint.base_url != tried.base_url or found is None:
                known = {row.id: models for row, models in await endpoints.all(s)}[tried.id]
            else:
                endpoint.base_url = base_url or endpoint.base_url
                known = await endpoints.put_models(s, EndpointId(tried.id), found)
            if endpoint.base_url in (tried.base_url, base_url):
                endpoint.checked, endpoint.fault = now_ms(), fault
            return endpoint, known

        recorded = await self._db.write(write)
        await self._changed()
        return recorded

    def _api(self, api: str) -> str:
        if api not in self._settings.apis:
            raise Invalid(f"'{api[:40]}' is not an API that endpoints can speak here.", "api")
        return api


async def _refuse_taken(s: Session, name: str, but: str | None = None) -> None:
    known = {row.name.casefold(): row.id for row, _ in await endpoints.all(s)}
    if known.get(name.casefold(), but) != but:
        raise Invalid(f"There is an endpoint called '{name}' already. Give this one another name.", "name")


def _address(text: str) -> str:
    """An endpoint's address in its one spelling; that of a script stands as it is. Raises Invalid."""
    return text if text.startswith(SCRIPT) and len(text) <= _LONGEST_SCRIPT else endpoint_url(text)


async def _note(
    s: Session, by: Person | None, name: str, changed: Mapping[str, Any], key: bool | None = None
) -> None:
    """What was changed of an endpoint, and whether its key was set (True) or removed (False), for the audit log."""
    if changed:
        await audit.note(s, "setting changed", by, target=name, detail=dict(changed))
    if key is not None:
        await audit.note(s, "secret set" if key else "secret removed", by, target=name)


async def config_of(s: Session, vault: Secrets, endpoint: Endpoint) -> EndpointConfig:
    """Where and how `endpoint` is reached, with the key that was sealed for its origin."""
    origin = origin_of(endpoint.base_url)
    key = await vault.open(s, endpoint.id, KEY, origin) if origin else None
    return EndpointConfig(endpoint.name, endpoint.api, endpoint.base_url, key, endpoint.idle_timeout)


async def probe(providers: Providers, config: EndpointConfig) -> tuple[str, list[FoundModel]]:
    """What is offered at the address, and the address it was found at: with `/v1` where that was left out.

    Raises a ProviderError.
    """
    try:
        return config.base_url, await _models(providers, config)
    except (WrongProtocol, RequestRejected, ModelMissing, BrokenStream) as error:
        if not origin_of(config.base_url) or _VERSIONED.search(config.base_url):
            raise
        longer = f"{config.base_url}/v1"
        try:
            return longer, await _models(providers, replace(config, base_url=longer))
        except ProviderError as second:
            hint = f"{error.person} Nor did {longer} list any models."
            raise type(error)(hint, f"{error}; {second}") from error


async def _models(providers: Providers, config: EndpointConfig) -> list[FoundModel]:
    provider = providers.open(replace(config, idle_timeout=min(config.idle_timeout, _CHECK_SECONDS)))
    try:
        async with asyncio.timeout(_CHECK_SECONDS):
            return await provider.models()
    except TimeoutError as error:
        raise IdleTimeout(
            f"'{config.label}' did not answer within {_CHECK_SECONDS:.0f} seconds. "
            "Check its address and whether it is running, then try again."
        ) from error


def _name(text: str) -> str:
    name = " ".join(text.split())
    if not name or len(name) > _LONGEST_NAME or not name.isprintable():
        raise Invalid(f"An endpoint needs a name of at most {_LONGEST_NAME} characters.", "name")
    return name


def _key(text: str) -> str:
    key = text.strip()
    if _KEY.fullmatch(key) is None:
        raise Invalid("The key holds spaces or characters that no key has. Copy it once more.", "api_key")
    return key


def _seconds(value: int) -> int:
    if not 1 <= value <= _LONGEST_IDLE:
        raise Invalid(f"The time-out is a number of seconds from 1 to {_LONGEST_IDLE}.", "idle_timeout")
    return value
