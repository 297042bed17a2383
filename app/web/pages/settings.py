"""Settings: endpoints and models, how the page looks and behaves, and what is running here."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from app import __version__
from app.core.errors import Invalid, NightdeskError, UnknownModel
from app.core.ids import EndpointId, ModelId
from app.replies.models import Models
from app.store.tables import Model
from app.web import answers, changes, forms, model_lists
from app.web.forms import Fields
from app.web.house import house, person
from app.web.preferences import Preferences
from app.web.problems import problem_of

_PRICES = ("price_input", "price_output", "price_cached")
_FLAGS = ("starters", "first_steps")
_WORDS = ("theme", "enter")


# --- models -----------------------------------------------------------------------------------------------


async def models(request: Request) -> Response:
    """`GET /settings`: endpoints and models. `?model=` and `?endpoint=` open that one's form."""
    return await _models_page(request)


async def add_endpoint(request: Request) -> Response:
    """`POST /settings/endpoints` with name, address and perhaps a key: kept once its models could be read."""
    here, me, fields = house(request), person(request), await forms.form(request)

    async def add() -> None:
        name, url = fields.text("name"), fields.text("base_url")
        api = fields.optional_text("api") or "openai-chat"
        came_from = "discovered" if fields.optional_text("came_from") == "discovered" else "person"
        key = fields.optional_text("api_key")
        await here.models.add_endpoint(name, api, url, key or None, came_from=came_from, by=me)

    return await _tried(request, add, fields, "add")


async def edit_endpoint(request: Request) -> Response:
    """`POST /settings/endpoints/{id}`: name, address, a new key, time-out, on or off."""
    endpoint_id, fields = EndpointId(answers.path_id(request)), await forms.form(request)

    async def edit() -> None:
        wanted: dict[str, Any] = {
            name: value for name in ("name", "base_url") if (value := fields.optional_text(name))
        }
        if (seconds := fields.optional_text("idle_timeout")) is not None:
            wanted["idle_timeout"] = _whole(seconds, "idle_timeout")
        if fields.flag("forget_key"):
            wanted["key"] = ""
        elif key := fields.optional_text("api_key"):
            wanted["key"] = key
        wanted["enabled"] = fields.flag("enabled")
        await house(request).models.update_endpoint(endpoint_id, **wanted, by=person(request))

    return await _tried(request, edit, fields, endpoint_id)


async def check_endpoint(request: Request) -> Response:
    """`POST /settings/endpoints/{id}/check`: ask for its models once more."""
    endpoint_id, fields = EndpointId(answers.path_id(request)), await forms.form(request)

    async def check() -> None:
        await house(request).models.check(endpoint_id)

    return await _tried(request, check, fields, "")


async def delete_endpoint(request: Request) -> Response:
    """`POST /settings/endpoints/{id}/delete`, with its models and key."""
    endpoint_id, fields = EndpointId(answers.path_id(request)), await forms.form(request)

    async def delete() -> None:
        await changes.delete_endpoint(house(request), endpoint_id, person(request))

    return await _tried(request, delete, fields, "")


async def edit_model(request: Request) -> Response:
    """`POST /settings/models/{id}`: its name, whether it is offered, its context and prices."""
    model_id, fields = ModelId(answers.path_id(request)), await forms.form(request)

    async def edit() -> None:
        before = _known(house(request).models, model_id)
        wanted = _model_fields(fields)
        changed = {name: value for name, value in wanted.items() if value != getattr(before, name)}
        await house(request).models.update_model(model_id, **changed, by=person(request))

    return await _tried(request, edit, fields, model_id)


async def roles(request: Request) -> Response:
    """`POST /settings/roles`: which model each role gets; empty: none of its own."""
    fields, here = await forms.form(request), house(request)

    async def choose() -> None:
        for role, _, _ in model_lists.ROLES:
            picked = fields.optional_id(role)
            await here.models.set_default(role, ModelId(picked) if picked else None, by=person(request))

    return await _tried(request, choose, fields, "roles")


def _known(models: Models, model_id: ModelId) -> Model:
    for _, found in models.all():
        for model in found:
            if model.id == model_id:
                return model
    raise UnknownModel("There is no such model any more.")


def _model_fields(fields: Fields) -> dict[str, Any]:
    found: dict[str, Any] = {"name": fields.text("name"), "enabled": fields.flag("enabled")}
    found["context_length"] = _whole(fields.optional_text("context_length") or "0", "context_length")
    return found | {name: _price(fields.optional_text(name), name) for name in _PRICES}


def _whole(text: str, name: str) -> int:
    digits = text.strip()
    if not digits.isdecimal() or len(digits) > 15:
        raise Invalid("This takes a whole number.", name)
    return int(digits)


def _price(text: str | None, name: str) -> float | None:
    if text is None or not text.strip():
        return None
    try:
        return float(text.replace(",", "."))
    except ValueError:
        raise Invalid("A price is a number, in dollars for a million tokens.", name) from None


async def _tried(
    request: Request, change: Callable[[], Awaitable[None]], fields: Fields, place: str
) -> Response:
    """Make `change` and show the list; what goes wrong is said at `place`, what was typed still there."""
    try:
        await change()
    except NightdeskError as error:
        return await _models_page(request, error, fields, place)
    if request.headers.get("hx-request"):
        return await _models_page(request)
    return answers.go(request, answers.own_path(fields.optional_text("next") or "/settings"))


async def _models_page(
    request: Request, error: NightdeskError | None = None, fields: Fields | None = None, place: str = ""
) -> Response:
    here, partial = house(request), "hx-request" in request.headers
    admin = person(request).role == "admin"
    return here.render.page(
        request,
        "settings/_models.html" if partial else "settings/models.html",
        code=problem_of(error).status if error else 200,
        section="models",
        admin=admin,
        found=tuple(await here.models.found_locally()) if admin else (),
        fault=error.person if error else None,
        field=getattr(error, "field", None),
        place=place,
        typed=dict(fields or {}),
        open_model=request.query_params.get("model") or (place if error else None),
        open_endpoint=request.query_params.get("endpoint") or (place if error else None),
        **model_lists.shown(here.models),
    )


# --- appearance -------------------------------------------------------------------------------------------


async def appearance(request: Request) -> Response:
    """`GET /settings/appearance`."""
    return house(request).render.page(request, "settings/appearance.html", section="appearance")


async def set_appearance(request: Request) -> Response:
    """`POST /settings/appearance`: those of theme, enter, starters and first_steps that the form holds."""
    fields = await forms.form(request)
    chosen: dict[str, Any] = {name: value for name in _WORDS if (value := fields.optional_text(name))}
    chosen |= {name: fields.flag(name) for name in _FLAGS if name in fields}
    await _prefer(request, chosen)
    whole = "theme" in chosen
    return answers.go(request, "/settings/appearance" if whole else "/")


async def prefer(request: Request) -> Response:
    """`PUT /preferences`: what scripts change by themselves, as JSON."""
    await _prefer(request, dict(await forms.json_object(request)))
    return Response(status_code=204)


async def _prefer(request: Request, chosen: dict[str, Any]) -> None:
    me = person(request)
    Preferences.of(me.preferences).changed(chosen)
    await house(request).sessions.set_preferences(me, chosen)


# --- about ------------------------------------------------------------------------------------------------


async def about(request: Request) -> Response:
    """`GET /settings/about`: versions, and how much lies in the data folder."""
    here = house(request)
    return here.render.page(
        request,
        "settings/about.html",
        section="about",
        version=__version__,
        sqlite=".".join(map(str, here.db.sqlite_version)),
        size=await asyncio.to_thread(_size_of, here.folder.path),
        running=here.registry.running,
    )


def _size_of(folder: Path) -> int:
    """Bytes of all files below `folder`; one that goes meanwhile is left out."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.lstat().st_size if path.is_file() else 0
        except OSError:
            continue
    return total
