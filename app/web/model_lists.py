"""Endpoints and models as the settings show them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from app.replies.endpoints import EMBEDDED
from app.replies.models import Models, Role
from app.store.tables import Endpoint, Model
from app.web import wording

# What the roles of this version are for, in the words of the page.
ROLES: tuple[tuple[Role, str, str], ...] = (
    ("chat", "Chats", "The first one that can talk"),
    ("title", "Titles", "The same as for chats"),
)

# An endpoint with more models than this shows these, then a way to the rest.
SHOWN = 12


@dataclass(frozen=True, slots=True)
class ModelView:
    """One model: what it is called, what it is used for and can do, and what it takes."""

    row: Model
    roles: tuple[str, ...]
    about: str


@dataclass(frozen=True, slots=True)
class EndpointView:
    """One endpoint. `tone` and `state` say how it is; `models` come first, `more` are folded."""

    row: Endpoint
    tone: str
    sign: str
    state: str
    models: tuple[ModelView, ...]
    more: tuple[ModelView, ...]

    @property
    def embedded(self) -> bool:
        return self.row.came_from == EMBEDDED

    @property
    def count(self) -> int:
        return len(self.models) + len(self.more)


def endpoint_views(models: Models) -> list[EndpointView]:
    """Every endpoint with its models, usable ones first."""
    return [_endpoint(row, found, models) for row, found in models.all()]


def _endpoint(row: Endpoint, found: Sequence[Model], models: Models) -> EndpointView:
    views = [_model(model, row, models) for model in sorted(found, key=lambda m: (m.vanished, not m.enabled))]
    return EndpointView(row, *_state(row, bool(found)), tuple(views[:SHOWN]), tuple(views[SHOWN:]))


def _state(row: Endpoint, has_models: bool) -> tuple[str, str, str]:
    if not row.enabled:
        return "", "stop", "Switched off"
    if row.fault:
        return "danger", "x", "Does not answer"
    if row.checked is None and not has_models:
        return "", "clock", "Not asked yet"
    return "ok", "check", "Ready"


def _model(model: Model, endpoint: Endpoint, models: Models) -> ModelView:
    return ModelView(model, tuple(_roles(model, models)), _about(model, endpoint))


def _roles(model: Model, models: Models) -> Iterator[str]:
    default = models.default()
    if default is not None and default.id == model.id:
        yield "default"
    title = models.chosen("title")
    if title is not None and title.id == model.id:
        yield "titles"


def _about(model: Model, endpoint: Endpoint) -> str:
    if model.vanished:
        return "no longer offered"
    if not model.enabled:
        return "switched off"
    context = f"{wording.size(model.context_length)} context" if model.context_length else ""
    return " · ".join(part for part in (context, _price(model, endpoint)) if part)


def _price(model: Model, endpoint: Endpoint) -> str:
    prices = (model.price_input, model.price_output)
    if prices == (None, None):
        return "no cost" if endpoint.came_from == EMBEDDED else ""
    if not any(prices):
        return "no cost"
    return " / ".join(f"${price or 0:g}" for price in prices) + " a million"


@dataclass(frozen=True, slots=True)
class RoleView:
    """A role and the model somebody has given it, or None; `otherwise` is said where nobody has."""

    name: Role
    words: str
    otherwise: str
    chosen: Model | None


def role_views(models: Models) -> list[RoleView]:
    return [RoleView(name, words, otherwise, models.chosen(name)) for name, words, otherwise in ROLES]


def shown(models: Models) -> dict[str, Any]:
    """What the list of models is drawn from."""
    return {
        "endpoints": endpoint_views(models),
        "roles": role_views(models),
        "usable": models.usable(),
    }
