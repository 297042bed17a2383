"""The site map: every address there is, who may come there, and which keys reach it.

`needs` says who has to be asking; `scope` is the area that keys of the scope `chat` are kept to. Everything else that
a route asks of a request is the handler's to read.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from starlette.routing import Route

from app.accounts.access import Area, Needs
from app.web import assets, health
from app.web.middleware import Handler, guarded
from app.web.pages import chats, drafts, messages, replies, search, settings, sign_in

GET, POST, PUT = ("GET",), ("POST",), ("PUT",)


@dataclass(frozen=True, slots=True)
class Site:
    """One handler at one path."""

    path: str
    handler: Handler
    methods: Sequence[str] = GET
    needs: Needs = "member"
    scope: Area = "all"


SITES: tuple[Site, ...] = (
    # chats
    Site("/", chats.home),
    Site("/chats", messages.create_chat, POST),
    Site("/chats/{id}", chats.show),
    Site("/chats/{id}/messages", messages.create, POST),
    Site("/chats/{id}/branch", chats.branch, POST),
    Site("/chats/{id}/rename", chats.rename, POST),
    Site("/chats/{id}/pin", chats.pin, POST),
    Site("/chats/{id}/archive", chats.archive, POST),
    Site("/chats/{id}/folder", chats.move, POST),
    Site("/chats/{id}/delete", chats.delete, POST),
    Site("/chats/{id}/draft", drafts.put, PUT),
    Site("/draft", drafts.put, PUT),
    Site("/sidebar", chats.listing),
    Site("/marks", chats.marks),
    Site("/search", search.find),
    # messages and replies
    Site("/messages/{id}/resend", messages.resend, POST),
    Site("/messages/{id}/send-now", messages.send_now, POST),
    Site("/messages/{id}/edit", messages.edit, POST),
    Site("/messages/{id}/remove", messages.remove, POST),
    Site("/replies/{id}/stop", replies.stop, POST),
    Site("/replies/{id}/regenerate", replies.regenerate, POST),
    Site("/replies/{id}/continue", replies.resume, POST),
    # settings
    Site("/settings", settings.models),
    Site("/settings/endpoints", settings.add_endpoint, POST, needs="admin"),
    Site("/settings/endpoints/{id}", settings.edit_endpoint, POST, needs="admin"),
    Site("/settings/endpoints/{id}/check", settings.check_endpoint, POST, needs="admin"),
    Site("/settings/endpoints/{id}/delete", settings.delete_endpoint, POST, needs="admin"),
    Site("/settings/models/{id}", settings.edit_model, POST, needs="admin"),
    Site("/settings/roles", settings.roles, POST, needs="admin"),
    Site("/settings/appearance", settings.appearance),
    Site("/settings/appearance", settings.set_appearance, POST),
    Site("/settings/about", settings.about),
    Site("/preferences", settings.prefer, PUT),
    # coming in and going out
    Site("/setup", sign_in.setup, needs="nobody"),
    Site("/setup", sign_in.claim_setup, POST, needs="nobody"),
    Site("/sign-in", sign_in.sign_in, needs="nobody"),
    Site("/sign-in", sign_in.enter, POST, needs="nobody"),
    Site("/sign-in/link", sign_in.link, needs="nobody"),
    Site("/sign-in/link", sign_in.claim_link, POST, needs="nobody"),
    Site("/sign-out", sign_in.sign_out, POST),
    # what anybody may ask for
    Site("/static/{version}/{path:path}", assets.serve, needs="nobody"),
    Site("/healthz", health.alive, needs="nobody"),
    Site("/readyz", health.ready, needs="nobody"),
)


def routes() -> list[Route]:
    """The sites as the router takes them, each behind its guard."""
    return [
        Route(site.path, guarded(site.handler, site.needs, site.scope), methods=list(site.methods))
        for site in SITES
    ]
