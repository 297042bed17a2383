"""Endpoints and the models found there."""

from collections.abc import Sequence
from typing import Any, Protocol

from sqlalchemy import delete as delete_rows, func, select

from app.core.clock import now_ms
from app.core.errors import NotFound, UnknownModel
from app.core.ids import EndpointId, ModelId, new_id
from app.store import rows, secrets
from app.store.engine import Session
from app.store.prepared import write_changes
from app.store.tables import Endpoint, Model

_ENDPOINT_FIELDS = frozenset({"name", "api", "base_url", "enabled", "idle_timeout", "checked", "fault"})
# What an endpoint may tell of a model; a field that a person has set is not overwritten.
TOLD = ("name", "context_length", "max_output", "price_input", "price_output", "price_cached", "capabilities")
_MODEL_FIELDS = frozenset({*TOLD, "enabled", "sampling", "position"})


class FoundModel(Protocol):
    """A model as an endpoint's list tells it; fields of `TOLD` are read where they are there and not None."""

    @property
    def wire_name(self) -> str: ...


async def all(s: Session) -> list[tuple[Endpoint, list[Model]]]:
    """Every endpoint, oldest first, with its models in their order."""
    models: dict[str, list[Model]] = {}
    for found in (await s.scalars(select(Model).order_by(Model.position, Model.name))).all():
        models.setdefault(found.endpoint, []).append(found)
    endpoints = (await s.scalars(select(Endpoint).order_by(Endpoint.created, Endpoint.id))).all()
    return [(endpoint, models.get(endpoint.id, [])) for endpoint in endpoints]


async def get(s: Session, endpoint_id: EndpointId) -> Endpoint:
    """Raises NotFound."""
    endpoint = await s.get(Endpoint, endpoint_id)
    if endpoint is None:
        raise NotFound("There is no such endpoint, or it was deleted.")
    return endpoint


async def add(
    s: Session,
    *,
    name: str,
    api: str,
    base_url: str,
    came_from: str = "person",
    enabled: bool = True,
    idle_timeout: int = 60,
    id: EndpointId | None = None,
) -> Endpoint:
    """`idle_timeout` in seconds."""
    endpoint = Endpoint(
        id=id or new_id(),
        name=name,
        api=api,
        base_url=base_url,
        came_from=came_from,
        enabled=enabled,
        idle_timeout=idle_timeout,
        created=now_ms(),
    )
    await rows.add(s, endpoint)
    return endpoint


async def update(s: Session, endpoint_id: EndpointId, **fields: Any) -> Endpoint:
    """Change name, api, base_url, enabled, idle_timeout, checked or fault. Raises NotFound, Invalid."""
    endpoint = await get(s, endpoint_id)
    await rows.change(s, endpoint, fields, _ENDPOINT_FIELDS)
    return endpoint


async def delete(s: Session, endpoint_id: EndpointId) -> bool:
    """Remove the endpoint with its models and secrets; whether it was there."""
    await secrets.drop(s, endpoint_id)
    return await rows.changed(s, delete_rows(Endpoint).where(Endpoint.id == endpoint_id))


async def put_models(s: Session, endpoint_id: EndpointId, found: Sequence[FoundModel]) -> list[Model]:
    """Take over an endpoint's list; returns all its models, in their order.

    New ones are added, known ones brought up to date but for what a person has set, and those that are not
    listed any more marked vanished, for the sake of chats that have picked them.
    """
    query = select(Model).where(Model.endpoint == endpoint_id).order_by(Model.position, Model.name)
    known = {model.wire_name: model for model in (await s.scalars(query)).all()}
    position = max((model.position for model in known.values()), default=0)
    listed = {item.wire_name: item for item in found}
    for name, item in listed.items():
        told = {field: value for field in TOLD if (value := getattr(item, field, None)) is not None}
        if name in known:
            _bring_up_to_date(known[name], told)
        else:
            position += 1
            known[name] = await _add_model(s, endpoint_id, name, position, told)
    for name, model in known.items():
        model.vanished = name not in listed
    await write_changes(s)
    return list(known.values())


async def _add_model(
    s: Session, endpoint_id: EndpointId, wire_name: str, position: int, told: dict[str, Any]
) -> Model:
    values = {"name": wire_name, **told}
    if "capabilities" in values:
        values["capabilities"] = list(values["capabilities"])
    model = Model(id=new_id(), endpoint=endpoint_id, wire_name=wire_name, position=position, **values)
    await rows.add(s, model)
    return model


def _bring_up_to_date(model: Model, told: dict[str, Any]) -> None:
    for field, value in told.items():
        if field not in model.edited:
            setattr(model, field, list(value) if field == "capabilities" else value)


async def model(s: Session, model_id: ModelId) -> Model:
    """Raises UnknownModel."""
    found = await s.get(Model, model_id)
    if found is None:
        raise UnknownModel("There is no such model any more. Pick another one.")
    return found


async def update_model(s: Session, model_id: ModelId, **fields: Any) -> Model:
    """Change what a person may: fields of `TOLD`, which a refresh then keeps, enabled, sampling, position.

    Raises UnknownModel, Invalid.
    """
    found = await model(s, model_id)
    found.edited = sorted({*found.edited, *fields} & set(TOLD))
    await rows.change(s, found, fields, _MODEL_FIELDS)
    return found


async def count(s: Session) -> int:
    """How many endpoints there are."""
    return await s.scalar(select(func.count()).select_from(Endpoint)) or 0
