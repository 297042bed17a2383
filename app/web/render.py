"""Templates to answers: the one place that knows Jinja, and what every template can say.

Everything is escaped; HTML that a model's markdown gave enters only as `Markup`, from `markdown.py`.
`fragment` knows nobody: what it renders may be sent to every follower of a reply. `page` adds who is asking.
"""

import gzip
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse

from app.core.ids import new_id
from app.web import wording
from app.web.assets import Assets
from app.web.house import visitor
from app.web.origins import split_host
from app.web.preferences import Preferences
from app.web.problems import path_of
from app.web.turns import MessageView, ReplyView

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
# Below this a packet is saved by nothing.
_WORTH_PACKING = 1_000
# Turns that are kept as drawn: those of some twenty chats that are read now, a few kilobytes each.
_KEPT = 500


class Render:
    """Renders `templates` with the addresses of `assets`, below `root_path` (empty, or `/` and a name)."""

    def __init__(self, templates: Path, assets: Assets, root_path: str = "") -> None:
        self.assets = assets
        self.root_path = root_path
        # A page of a chat draws some hundred of them, and there are few kinds.
        self._icons: dict[tuple[str, str], Markup] = {}
        self._drawn_reply = lru_cache(_KEPT)(lambda view: self._draw("replies/_reply.html", reply=view))
        self._drawn_message = lru_cache(_KEPT)(
            lambda view: self._draw("messages/_message.html", message=view)
        )
        self._environment = Environment(
            loader=FileSystemLoader(templates),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
            cache_size=-1,
        )
        self._environment.filters.update(wording.FILTERS)
        self._environment.globals.update(
            url=self.url,
            static=self.static,
            icon=self.icon,
            turn=self.turn,
            csrf_field=csrf_field,
            key_field=key_field,
        )

    def url(self, path: str) -> str:
        """The address of the page at `path`, which begins with a slash."""
        return self.root_path + path

    def static(self, path: str) -> str:
        """The address of a file of `static/`."""
        return f"{self.root_path}/static/{self.assets.version}/{path}"

    def icon(self, name: str, kind: str = "s") -> Markup:
        """A sign of `icons.svg`; `kind` holds further classes: `s` is the small one, empty the usual one."""
        found = self._icons.get((name, kind))
        if found is None:
            drawn = Markup('<svg class="{}" aria-hidden="true"><use href="{}#i-{}"/></svg>')
            found = drawn.format(f"icon {kind}".strip(), self.static("icons.svg"), name)
            self._icons[name, kind] = found
        return found

    def fragment(self, template: str, **context: Any) -> str:
        """A piece of a page, the same for everybody who sees it."""
        return self._environment.get_template(template).render(context)

    def turn(self, view: MessageView | ReplyView) -> Markup:
        """A turn of a chat. One that cannot change any more is drawn once and kept for a while."""
        if isinstance(view, ReplyView):
            return self._draw("replies/_reply.html", reply=view) if view.busy else self._drawn_reply(view)
        return self._drawn_message(view)

    def _draw(self, template: str, **context: Any) -> Markup:
        return Markup(self.fragment(template, **context))

    def page(
        self,
        request: Request,
        template: str,
        *,
        code: int = 200,
        headers: Mapping[str, str] | None = None,
        **context: Any,
    ) -> HTMLResponse:
        """A whole page, or a piece of one that knows who is asking, under the HTTP status `code`."""
        body = self._environment.get_template(template).render(about_request(request) | context).encode()
        found = {"vary": "accept-encoding, hx-request", **(headers or {})}
        if len(body) > _WORTH_PACKING and "gzip" in request.headers.get("accept-encoding", ""):
            body, found = gzip.compress(body, 5, mtime=0), found | {"content-encoding": "gzip"}
        return HTMLResponse(body, code, headers=found)


def preferences_of(request: Request) -> Preferences:
    """What the person who asks has chosen; for nobody, what holds until somebody chooses."""
    person = visitor(request)
    return Preferences.of(person.preferences if person else {})


def about_request(request: Request) -> dict[str, Any]:
    """What every page knows of its request."""
    person = visitor(request)
    host = split_host(request.headers.get("host", ""))
    return {
        "person": person,
        "csrf": person.csrf if person else "",
        "preferences": preferences_of(request),
        "path": path_of(request),
        "open_line": request.url.scheme == "http" and (host is None or host[0] not in _LOOPBACK),
    }


@pass_context
def csrf_field(context: Context) -> Markup:
    """The hidden field without which a form changes nothing."""
    return Markup('<input type="hidden" name="csrf" value="{}">').format(context.get("csrf", ""))


def key_field() -> Markup:
    """The idempotency key of a form: sent twice, it does its work once."""
    return Markup('<input type="hidden" name="key" value="{}">').format(new_id())
