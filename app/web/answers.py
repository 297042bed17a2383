"""How a change made on a page is answered: a form goes on to a page, a script is told where that would be."""

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from app.core.errors import Invalid
from app.core.ids import is_id
from app.web.house import house


def by_script(request: Request) -> bool:
    """Whether a script asks, which goes on without loading a page."""
    return "text/html" not in request.headers.get("accept", "")


def go(request: Request, path: str, **told: Any) -> Response:
    """On to `path`, which begins with a slash. `told` is for scripts alone."""
    url = house(request).render.url(path)
    if by_script(request):
        return JSONResponse({"go": url} | told)
    return RedirectResponse(url, 303)


def stay(request: Request, path: str) -> Response:
    """Nothing to load for a script: the stream brings what follows. A form goes on to `path`."""
    return JSONResponse({}) if by_script(request) else go(request, path)


def own_path(text: str) -> str:
    """`text` if it is the path of a page of ours, else the first page: no form sends anybody elsewhere."""
    plain = text.startswith("/") and not text.startswith(("//", "/\\")) and text.isprintable()
    return text if plain else "/"


def path_id(request: Request, name: str = "id") -> str:
    """The id in the request's path. Raises Invalid for what is none."""
    found: str = request.path_params[name]
    if not is_id(found):
        raise Invalid("This address is not one of ours.", field=name)
    return found
