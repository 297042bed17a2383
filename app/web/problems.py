"""Errors as answers: an RFC 9457 problem document, a page, or a fragment, whichever was asked for.

    header `HX-Request`                        the fragment errors/_notice.html
    below /api/ or /v1/, or no HTML accepted   application/problem+json
    any other                                  the page errors/page.html; with nobody signed in, the way to
                                               the sign-in page and back

Both templates get `title`, `text`, `status`, `name` (the problem's) and `sign_in` (the path of the sign-in
page where that helps, else None). The page that answers a form also gives back the text that was in it, `kept`.
"""

import http
import json
import logging
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode, urlsplit

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ExceptionHandler

from app.core import errors
from app.web import forms
from app.web.house import house, request_id

logger = logging.getLogger(__name__)

_STATUS: dict[type[errors.NightdeskError], int] = {
    errors.NightdeskError: 500,
    errors.Refused: 400,
    errors.Invalid: 400,
    errors.SignInNeeded: 401,
    errors.NotAllowed: 403,
    errors.NotFound: 404,
    errors.Busy: 409,
    errors.KeyReused: 409,
    errors.NotOpen: 410,
    errors.TooLong: 413,
    errors.UnknownModel: 422,
    errors.Archived: 409,
    errors.OverBudget: 402,
    errors.TooManyTries: 429,
    errors.Closing: 503,
    errors.StorageFault: 507,
    errors.StorageBusy: 503,
    errors.Superseded: 409,
    errors.ProviderError: 502,
    errors.RateLimited: 503,
    errors.Overloaded: 503,
    errors.IdleTimeout: 504,
}

_TITLES = {
    "invalid": "That can't be used",
    "sign-in": "Please sign in",
    "not-allowed": "Not for this account",
    "not-found": "Nothing here",
    "busy": "A reply is being written",
    "key-reused": "Already used for something else",
    "not-open": "No longer open",
    "too-long": "Too large",
    "unknown-model": "No such model",
    "archived": "This chat is archived",
    "over-budget": "The budget is spent",
    "too-many-tries": "Too many tries",
    "closing": "Restarting",
    "storage": "It could not be stored",
    "storage-busy": "The store is busy",
    "method": "Not possible here",
    "error": "Something went wrong",
}

# When to come back where the error itself does not say: a restart or a lock is over in a moment.
_SOON = 2


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem document. `more` holds its extension members."""

    name: str
    status: int
    detail: str
    more: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def title(self) -> str:
        return _TITLES.get(self.name, "It did not work")

    def document(self) -> bytes:
        """As RFC 9457 JSON."""
        members = {"type": f"/problems/{self.name}", "title": self.title, "status": self.status}
        return json.dumps(members | {"detail": self.detail} | self.more, ensure_ascii=False).encode()


def status_of(kind: type[errors.NightdeskError]) -> int:
    """The status that errors of `kind` are answered with: that of the nearest class in its ancestry."""
    return next(_STATUS[one] for one in kind.__mro__ if one in _STATUS)


def problem_of(error: errors.NightdeskError) -> Problem:
    """What the person is told of `error`."""
    status = status_of(type(error))
    more = {name: value for name in ("field", "reply") if (value := getattr(error, name, None)) is not None}
    return Problem(error.name, status, error.person, more, _headers(error, status))


def _headers(error: errors.NightdeskError, status: int) -> dict[str, str]:
    if status == 401:
        return {"WWW-Authenticate": "Bearer"}
    if status in (429, 503):
        wait = getattr(error, "retry_after", None)
        return {"Retry-After": str(max(1, round(wait if wait is not None else _SOON)))}
    return {}


def problem_of_http(error: HTTPException) -> Problem:
    """What the router or the parser of a form found: no such path, a wrong method, a broken form."""
    if error.status_code == 404:
        return problem_of(errors.NotFound())
    name = {405: "method", 413: "too-long"}.get(error.status_code, "invalid")
    detail = error.detail or http.HTTPStatus(error.status_code).phrase
    return Problem(name, error.status_code, detail, headers=dict(error.headers or {}))


def unexpected(short_id: str) -> Problem:
    """An error of ours. The log has the rest under the same id."""
    text = f"Something went wrong in Nightdesk itself, and the log says what, under {short_id}. Try again."
    return Problem("error", 500, text, {"request": short_id})


def wants_json(path: str) -> bool:
    """Whether `path`, below the root path, belongs to programs."""
    return path.startswith(("/api/", "/v1/"))


def path_of(request: Request) -> str:
    """The request's path below the root path, as the router sees it: never from the URL, which a Host can
    bend.
    """
    path, root = request.scope["path"], request.scope.get("root_path", "")
    return str(path[len(root) :] if root and path.startswith(root) else path) or "/"


def answer(request: Request, found: Problem, kept: str = "") -> Response:
    """`found` in the shape that this request takes; a page shows the text `kept`."""
    if "hx-request" in request.headers:
        return HTMLResponse(_fragment(request, found), found.status, found.headers)
    if not _takes_page(request):
        return Response(found.document(), found.status, found.headers, "application/problem+json")
    if found.status == 401 and request.method == "GET":
        return RedirectResponse(sign_in_path(request), 303)
    return _page(request, found, kept)


def _takes_page(request: Request) -> bool:
    if "hx-request" in request.headers or wants_json(path_of(request)):
        return False
    return "text/html" in request.headers.get("accept", "")


def _fragment(request: Request, found: Problem) -> str:
    return house(request).render.fragment("errors/_notice.html", **_context(request, found))


def _page(request: Request, found: Problem, kept: str) -> Response:
    render, context = house(request).render, _context(request, found) | {"kept": kept}
    return render.page(request, "errors/page.html", code=found.status, headers=found.headers, **context)


def _context(request: Request, found: Problem) -> dict[str, Any]:
    way_in = sign_in_path(request) if found.status == 401 else None
    told = {"title": found.title, "text": found.detail, "status": found.status, "name": found.name}
    return told | {"sign_in": way_in}


def sign_in_path(request: Request) -> str:
    """The sign-in page that leads back to where the person is."""
    back, root = way_back(request), str(request.scope.get("root_path", ""))
    return root + "/sign-in" + ("?" + urlencode({"next": back}) if back not in ("", "/") else "")


def way_back(request: Request) -> str:
    """The path, below the root path, of the page where the person is: this one, or the one that a form is on."""
    if request.method == "GET" and "hx-request" not in request.headers:
        query = request.scope["query_string"].decode("latin-1")
        return path_of(request) + (f"?{query}" if query else "")
    came_from = request.headers.get("hx-current-url") or request.headers.get("referer") or ""
    try:
        return urlsplit(came_from).path.removeprefix(request.scope.get("root_path", ""))
    except ValueError:  # no address at all: nothing leads back
        return ""


async def on_refusal(request: Request, error: Exception) -> Response:
    """Answers an error of the tree."""
    assert isinstance(error, errors.NightdeskError)
    found = problem_of(error)
    if found.status >= 500:
        logger.warning("%s %s: %s", request_id(request), type(error).__name__, error)
    if request.method != "POST" or not _takes_page(request):
        return answer(request, found)
    kept = "" if isinstance(error, forms.UnreadableForm) else await _typed(request)
    return _sign_in_again(request, found, kept) if found.status == 401 else answer(request, found, kept)


async def _typed(request: Request) -> str:
    """The text in a form: a message, or other words for one. Empty where there is none or it cannot be read."""
    try:
        fields = await forms.form(request)
        name = next((name for name in fields if name == "text" or name.startswith("text-")), "text")
        return fields.optional_text(name, most=house(request).settings.max_body) or ""
    except errors.Refused:
        return ""


def _sign_in_again(request: Request, found: Problem, kept: str) -> Response:
    """The sign-in page in answer to a form whose session had ended: the text that was in it is carried along."""
    return house(request).render.page(
        request,
        "sign_in/page.html",
        code=401,
        headers=found.headers,
        host=request.headers.get("host", ""),
        next=way_back(request),
        kept=kept,
        ended=True,
        new=False,
        name="",
        fault=None,
    )


async def on_http(request: Request, error: Exception) -> Response:
    """Answers an error of the router."""
    assert isinstance(error, HTTPException)
    return answer(request, problem_of_http(error))


HANDLERS: dict[Any, ExceptionHandler] = {errors.NightdeskError: on_refusal, HTTPException: on_http}
"""For `Starlette(exception_handlers=...)`. What is not here is unexpected and answered by `middleware.Gate`."""
