"""What every request passes on its way in, and every answer on its way out.

`Gate` is one piece of plain ASGI, because it stands before every request and every chunk of every stream: it
adds headers to the first message of an answer and leaves the others alone. In order it

    1 gives the request a short id and finds its path below the root path
    2 answers only under names that are ours                    (DNS rebinding)
    3 refuses what another site has sent                        (cross-site requests)
    4 learns who is asking, from the session or the key
    5 counts the body as it comes from the wire
    6 turns whatever was not foreseen into a short id; the log has the rest

`guarded` wraps a handler with what its route needs: role, scope, and the token of a change.
"""

import hmac
import logging
import os
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, cast

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.accounts.access import Area, Needs, Person, admit
from app.core.errors import Invalid, NightdeskError, NotAllowed, SignInNeeded, TooLong
from app.web import headers, origins, problems
from app.web.forms import MOST_FIELDS, MOST_FILES, is_form
from app.web.house import House, visitor

logger = logging.getLogger(__name__)
access_logger = logging.getLogger("app.web.access")

Handler = Callable[[Request], Awaitable[Response]]

# What a form around an uploaded file may weigh besides the file.
_FORM_AROUND = 64 * 1024
_UPLOADS = frozenset({"/api/v1/files"})


class Gate:
    """The middleware. Built by `main`: `Starlette(middleware=[Middleware(Gate)], ...)`."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # no route takes a WebSocket
            await send({"type": "websocket.close", "code": 1008})
            return
        passage = _Passage(scope, receive, send)
        try:
            await passage.enter()
            await self._app(scope, passage.receive, passage.send)
        except NightdeskError as error:
            await passage.answer(problems.problem_of(error))
        except ClientDisconnect:
            logger.debug("%s: gone before its body had come", passage.id)
        except Exception:
            logger.exception("%s failed: %s %s", passage.id, scope["method"], printable(scope["path"]))
            await passage.answer(problems.unexpected(passage.id))
        finally:
            passage.log()


class _Passage:
    """One request on its way through the gate."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.id = os.urandom(4).hex()
        self._scope = scope
        self._receive = receive
        self._send = send
        self._started = time.monotonic()
        self._status = 0
        self._left = 0
        self._house = cast(House, scope["app"].state.house)
        self._path = under_root(scope, self._house.settings.root_path)
        state: MutableMapping[str, Any] = scope.setdefault("state", {})
        state["request_id"] = self.id
        self._state = state

    async def enter(self) -> None:
        """Let the request in, or raise the NightdeskError that turns it away."""
        scope, settings = self._scope, self._house.settings
        found = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        host = found.get("host", "")
        # Two of them, and a proxy may have looked at the other one.
        only = sum(name == b"host" for name, _ in scope["headers"]) == 1
        if not only or not origins.is_ours(host, settings.allowed_hosts):
            raise Invalid(
                "Nightdesk does not answer under this name. If it is yours, add it to allowed_hosts.",
                detail=f"unknown host {printable(host)}",
            )
        foreign = origins.comes_from_elsewhere(scope["method"], found, host)
        if foreign and not _is_keyed_script(self._path, found):
            raise NotAllowed("This came from another site, so nothing was done.")
        self._state["person"] = await self._who(found)
        self._limit_body(found.get("content-length"))

    async def _who(self, found: dict[str, str]) -> Person | None:
        sessions = self._house.sessions
        if problems.wants_json(self._path) and (given := found.get("authorization")) is not None:
            scheme, _, token = given.partition(" ")
            person = await sessions.by_key(token.strip()) if scheme.lower() == "bearer" else None
            if person is None:
                raise SignInNeeded("This API key is not known here, or was revoked.")
            return person
        if self._house.settings.single_user:
            return sessions.single_user()
        cookie = session_token(found.get("cookie", ""), self._scope["scheme"] == "https")
        return await sessions.by_token(cookie) if cookie else None

    def _limit_body(self, length: str | None) -> None:
        settings = self._house.settings
        upload = self._path in _UPLOADS
        self._left = settings.max_upload + _FORM_AROUND if upload else settings.max_body
        if length is not None and (not length.isdecimal() or int(length) > self._left):
            raise self._too_large()

    def _too_large(self) -> TooLong:
        settings = self._house.settings
        most = settings.max_upload if self._path in _UPLOADS else settings.max_body
        return TooLong(f"That is more than the {most // 1024**2} MB that can be sent at once.")

    async def receive(self) -> Message:
        """The next piece of the body, counted. Raises TooLong."""
        message = await self._receive()
        if message["type"] == "http.request":
            self._left -= len(message.get("body", b""))
            if self._left < 0:
                raise self._too_large()
        return message

    def send(self, message: Message) -> Awaitable[None]:
        """Pass `message` on; the first one gets the headers that every answer carries."""
        if message["type"] == "http.response.start":
            self._status = message["status"]
            given = list(message.get("headers", ()))
            names = {name.lower() for name, _ in given}
            ours = headers.headers_for(self._path, self._scope["scheme"] == "https")
            given += [header for header in ours if header[0] not in names]
            message["headers"] = [*given, (b"x-request-id", self.id.encode())]
        return self._send(message)

    async def answer(self, problem: problems.Problem) -> None:
        """Tell of `problem`, unless an answer has begun: then it is left unfinished, which closes the
        connection.
        """
        if self._status:
            return
        request = Request(self._scope, self._receive)
        try:
            response = problems.answer(request, problem)
        except Exception:
            logger.exception("%s: the page of an error failed", self.id)
            response = Response(problem.detail, problem.status, media_type="text/plain")
        await response(self._scope, self._receive, self.send)

    def log(self) -> None:
        """One line: no query string, body, cookie or header, which may hold secrets."""
        scope, ms = self._scope, (time.monotonic() - self._started) * 1000
        client = scope["client"][0] if scope.get("client") else "-"
        level = logging.DEBUG if self._path.startswith("/static/") else logging.INFO
        told = (self.id, client, scope["method"], printable(scope["path"]), self._status, ms)
        access_logger.log(level, "%s %s %s %s %d %.0fms", *told)


def printable(text: str) -> str:
    """`text` with control and other unprintable characters escaped, so that it cannot forge a line of the
    log.
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def under_root(scope: Scope, root: str) -> str:
    """The request's path below `root`; also puts path and root path into `scope` as the router expects them.

    A proxy may hand on the whole path or only what is below the root: both end the same.
    """
    path = cast(str, scope["path"])
    if root:
        scope["root_path"] = root
        if path == root or path.startswith(root + "/"):
            path = path[len(root) :]
        scope["path"] = root + path
    return path or "/"


COOKIE = "sid"
SECURE_COOKIE = "__Host-sid"


def session_token(cookie: str, secure: bool) -> str | None:
    """The session's token from a Cookie header: over HTTPS only from the cookie that HTTPS alone can set."""
    wanted = (SECURE_COOKIE if secure else COOKIE) + "="
    for pair in cookie.split(";"):
        if (pair := pair.strip()).startswith(wanted):
            return pair[len(wanted) :]
    return None


def _is_keyed_script(path: str, found: dict[str, str]) -> bool:
    """A program with a key is no browser: it sends neither header, and no other site can send its key."""
    return (
        problems.wants_json(path)
        and found.get("authorization", "").lower().startswith("bearer ")
        and "sec-fetch-site" not in found
        and "origin" not in found
    )


def guarded(handler: Handler, needs: Needs, area: Area) -> Handler:
    """`handler` behind what its route needs. Raises SignInNeeded, NotAllowed before it is entered."""

    async def entered(request: Request) -> Response:
        person = visitor(request)
        admit(person, needs, area, request.method)
        if request.method in origins.SAFE_METHODS:
            return await handler(request)
        try:
            # What needs nobody (signing in, say) may be sent from a page drawn before somebody signed in beside it.
            if needs != "nobody" and person is not None and person.csrf:
                await _check_token(request, person)
            return await handler(request)
        finally:
            await request.close()  # the files of a form

    entered.__name__ = getattr(handler, "__name__", "handler")
    return entered


async def _check_token(request: Request, person: Person) -> None:
    """A change made with a session carries its token in a header; the form of a page may in its field `csrf`."""
    given: Any = request.headers.get("x-csrf-token")
    if given is None and is_form(request) and not problems.wants_json(problems.path_of(request)):
        given = (await request.form(max_files=MOST_FILES, max_fields=MOST_FIELDS)).get("csrf")
    right = isinstance(given, str) and hmac.compare_digest(
        given.encode("utf-8", "replace"), person.csrf.encode()
    )
    if not right:
        raise NotAllowed("This page is from an earlier sign-in. Load it again; what you typed is kept.")
