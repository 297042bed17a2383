"""Models: those that can be picked, and what an administrator keeps of one."""

from typing import Annotated, Any, TypedDict

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.core.errors import NotFound
from app.core.ids import ModelId
from app.store.tables import Model
from app.web.api import asked, shapes
from app.web.api.operation import operation
from app.web.api.schema import Page, such
from app.web.house import admin, house

Size = Annotated[int, such(minimum=0, maximum=100_000_000, description="In tokens; 0: unknown")]
Price = Annotated[float, such(minimum=0, maximum=1_000_000, description="For a million tokens")]
Word = Annotated[str, such(minLength=1, maxLength=40)]


class ModelChanges(TypedDict, total=False):
    """What to change of a model. What is set here is kept when its endpoint is asked again."""

    name: Annotated[str, such(minLength=1, maxLength=120)]
    enabled: bool
    context_length: Size
    max_output: Size
    price_input: Price | None
    price_output: Price | None
    price_cached: Price | None
    capabilities: Annotated[list[Word], such(maxItems=20)]
    sampling: shapes.Sampling


@operation(gives={200: Page[shapes.Model]})
async def listing(request: Request) -> Response:
    """List the models that can be picked."""
    models = house(request).models
    default = models.default()
    items = [
        {
            "id": model.id,
            "name": model.name,
            "endpoint": endpoint.name,
            "context_length": model.context_length,
            "capabilities": model.capabilities,
            "default": default is not None and default.id == model.id,
        }
        for model, endpoint in models.usable()
    ]
    return JSONResponse({"items": items, "next": None})


@operation(takes=ModelChanges, gives={200: shapes.ModelKept})
async def change(request: Request) -> Response:
    """Change what is known of a model, and whether it can be picked."""
    models, model_id = house(request).models, ModelId(asked.path_id(request))
    changes = await asked.body(request, ModelChanges)
    if all(model.id != model_id for _, found in models.all() for model in found):
        raise NotFound("There is no such model any more.")
    changed = await models.update_model(model_id, by=admin(request), **changes)
    return JSONResponse(kept(changed))


def kept(model: Model) -> dict[str, Any]:
    """The JSON of a model as it is administered."""
    return {name: getattr(model, name) for name in shapes.ModelKept.__annotations__}
