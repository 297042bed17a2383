"""Coming in and going out: the setup link, signing in by name or by link, signing out.

A link is shown first and claimed by a form, so that whatever looks at addresses beforehand (a mail scanner, a
preview) does not use it up.
"""

import re
from contextlib import suppress
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from app.accounts.access import Person
from app.accounts.people import LinkSpent
from app.accounts.sessions import LONGEST, SignedIn
from app.core.errors import NightdeskError, NotFound
from app.core.ids import ChatId, is_id
from app.store import chats, drafts
from app.store.engine import Session
from app.web import answers, forms
from app.web.house import address, house, person, visitor
from app.web.middleware import COOKIE, SECURE_COOKIE
from app.web.problems import problem_of

_CHAT = re.compile(r"/chats/([0-9a-f-]{36})")


async def setup(request: Request) -> Response:
    """`GET /setup?token=`: the form that makes the first administrator."""
    token = request.query_params.get("token", "")
    if not await house(request).people.is_setup_open(token):
        raise LinkSpent("This setup link was used or is too old. Start Nightdesk again for a new one.")
    return _setup_page(request, token)


async def claim_setup(request: Request) -> Response:
    """`POST /setup` with token, name and password: the first administrator, signed in."""
    fields = await forms.form(request)
    token, name = fields.text("token"), fields.text("name", most=200)
    try:
        signed_in = await house(request).people.claim_setup(
            token, name, fields.text("password"), address(request), _agent(request)
        )
    except LinkSpent:
        raise
    except NightdeskError as error:
        return _setup_page(request, token, name, error)
    return await _welcome(request, signed_in, "/")


def _setup_page(
    request: Request, token: str, name: str = "", error: NightdeskError | None = None
) -> Response:
    return _page(request, "sign_in/setup.html", error, token=token, name=name)


async def sign_in(request: Request) -> Response:
    """`GET /sign-in?next=`: the form, or straight on for somebody who is signed in."""
    onward = answers.own_path(request.query_params.get("next", "/"))
    if visitor(request) is not None:
        return answers.go(request, onward)
    new = await house(request).people.is_empty()
    return _page(request, "sign_in/page.html", None, next=onward, name="", kept="", ended=False, new=new)


async def enter(request: Request) -> Response:
    """`POST /sign-in` with name, password, `next`, and `kept`, a text that a form brought after its session
    ended.
    """
    fields = await forms.form(request)
    onward = answers.own_path(fields.optional_text("next", most=2000) or "/")
    kept = fields.optional_text("kept", most=house(request).settings.max_body) or ""
    name = fields.text("name", most=200)
    try:
        signed_in = await house(request).sessions.sign_in(
            name, fields.text("password"), address(request), _agent(request)
        )
    except NightdeskError as error:
        context = {"next": onward, "name": name, "kept": kept, "ended": False, "new": False}
        return _page(request, "sign_in/page.html", error, **context)
    if kept:
        await _keep_draft(request, signed_in.person, onward, kept)
    return await _welcome(request, signed_in, onward)


async def _keep_draft(request: Request, me: Person, path: str, text: str) -> None:
    """Have `text` stand in the composer of the page at `path`, or of a new chat if that is none of theirs."""
    found = _CHAT.match(path)

    async def keep(s: Session) -> None:
        chat_id = ChatId(found[1]) if found and is_id(found[1]) else None
        try:
            if chat_id is not None:
                await chats.owned(s, chat_id, me.id)
        except NotFound:  # somebody else sat there before
            chat_id = None
        await drafts.put(s, me.id, chat_id, text)

    await house(request).db.write(keep)


async def link(request: Request) -> Response:
    """`GET /sign-in/link?token=`: whom the link is for, and a form to come in with it."""
    return await _link_page(request, request.query_params.get("token", ""))


async def claim_link(request: Request) -> Response:
    """`POST /sign-in/link` with token and, if one is to be set, a password."""
    fields = await forms.form(request)
    token, password = fields.text("token"), fields.optional_text("password") or None
    try:
        signed_in = await house(request).people.claim_link(token, password, address(request), _agent(request))
    except LinkSpent:
        raise
    except NightdeskError as error:
        return await _link_page(request, token, error)
    return await _welcome(request, signed_in, "/")


async def _link_page(request: Request, token: str, error: NightdeskError | None = None) -> Response:
    found = await house(request).people.welcome(token)
    if found is None:
        raise LinkSpent
    return _page(request, "sign_in/link.html", error, token=token, name=found.name, optional=found.password)


async def sign_out(request: Request) -> Response:
    """`POST /sign-out`: the session ends, and with it whatever is open in it."""
    here = house(request)
    await here.sessions.sign_out(person(request), address(request))
    response = RedirectResponse(here.render.url("/sign-in"), 303)
    response.delete_cookie(
        _cookie_name(request), path="/", secure=_is_secure(request), httponly=True, samesite="lax"
    )
    return response


async def _welcome(request: Request, signed_in: SignedIn, path: str) -> Response:
    """On to `path` with a cookie that was never seen before. The session that was there, if any, is over."""
    before = visitor(request)
    if before is not None and before.via == "session":
        with suppress(NotFound):  # a new password, set by link, has ended it already
            await house(request).sessions.sign_out(before, address(request))
    response = RedirectResponse(house(request).render.url(path), 303)
    response.set_cookie(
        _cookie_name(request),
        signed_in.token,
        max_age=LONGEST // 1000,
        path="/",
        secure=_is_secure(request),
        httponly=True,
        samesite="lax",
    )
    return response


def _is_secure(request: Request) -> bool:
    return bool(request.scope["scheme"] == "https")


def _cookie_name(request: Request) -> str:
    return SECURE_COOKIE if _is_secure(request) else COOKIE


def _agent(request: Request) -> str:
    return "".join(c for c in request.headers.get("user-agent", "")[:200] if c.isprintable())


def _page(request: Request, template: str, error: NightdeskError | None, **context: Any) -> Response:
    """One of the pages in front of the door; `error` is told in it, with the status and headers it has
    elsewhere.
    """
    found = problem_of(error) if error else None
    return house(request).render.page(
        request,
        template,
        code=found.status if found else 200,
        headers=found.headers if found else None,
        fault=found.detail if found else None,
        field=getattr(error, "field", None),
        host=request.headers.get("host", ""),
        **context,
    )
