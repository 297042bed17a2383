"""The site map: every address there is, who may come there, and which keys reach it.

`needs` says who has to be asking; `scope` is the area that keys of the scope `chat` are kept to. Everything else that
a route asks of a request is the handler's to read, or for the API its operation's to declare.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.accounts.access import Area, Needs
from app.web import assets, follow, health
from app.web.api import (
    audit,
    chats as api_chats,
    drafts as api_drafts,
    endpoints,
    events,
    files as api_files,
    keys,
    me,
    messages as api_messages,
    models,
    openapi,
    replies as api_replies,
    roles,
    sessions,
    usage,
    users as api_users,
)
from app.web.middleware import Handler, guarded
from app.web.pages import account, chats, drafts, files, messages, replies, search, settings, sign_in, users

GET, POST, PUT, PATCH, DELETE = ("GET",), ("POST",), ("PUT",), ("PATCH",), ("DELETE",)


@dataclass(frozen=True, slots=True)
class Site:
    """One handler at one path."""

    path: str
    handler: Handler
    methods: Sequence[str] = GET
    needs: Needs = "member"
    scope: Area = "all"


_document, _docs = openapi.served(lambda: SITES)

# Of two paths that match, the first one counts.
SITES: tuple[Site, ...] = (
    # pages: chats
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
    Site("/events", follow.page_events),
    Site("/search", search.find),
    # pages: messages, replies, files
    Site("/messages/{id}/resend", messages.resend, POST),
    Site("/messages/{id}/send-now", messages.send_now, POST),
    Site("/messages/{id}/edit", messages.edit, POST),
    Site("/messages/{id}/remove", messages.remove, POST),
    Site("/replies/{id}/stop", replies.stop, POST),
    Site("/replies/{id}/regenerate", replies.regenerate, POST),
    Site("/replies/{id}/continue", replies.resume, POST),
    Site("/files/{id}", files.show),
    # pages: settings
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
    # pages: one's own account, and the others'
    Site("/settings/account", account.show),
    Site("/settings/account/profile", account.set_profile, POST),
    Site("/settings/account/password", account.set_password, POST),
    Site("/settings/account/sessions/end-others", account.end_other_sessions, POST),
    Site("/settings/account/sessions/{id}/end", account.end_session, POST),
    Site("/settings/account/keys", account.add_key, POST),
    Site("/settings/account/keys/{id}/end", account.end_key, POST),
    Site("/settings/users", users.show, needs="admin"),
    Site("/settings/users", users.invite, POST, needs="admin"),
    Site("/settings/users/{id}/link", users.make_link, POST, needs="admin"),
    Site("/settings/users/{id}/role", users.set_role, POST, needs="admin"),
    Site("/settings/users/{id}/disable", users.disable, POST, needs="admin"),
    Site("/settings/users/{id}/enable", users.enable, POST, needs="admin"),
    # pages: coming in and going out
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
    Site("/api/v1/openapi.json", _document, needs="nobody"),
    Site("/api/v1/docs", _docs, needs="nobody"),
    # API: chats, messages, replies, files
    Site("/api/v1/chats", api_chats.listing, scope="chat"),
    Site("/api/v1/chats", api_chats.create, POST, scope="chat"),
    Site("/api/v1/chats/{id}", api_chats.show, scope="chat"),
    Site("/api/v1/chats/{id}", api_chats.change, PATCH, scope="chat"),
    Site("/api/v1/chats/{id}", api_chats.delete, DELETE, scope="chat"),
    Site("/api/v1/chats/{id}/branch", api_chats.branch, POST, scope="chat"),
    Site("/api/v1/chats/{id}/messages", api_messages.create, POST, scope="chat"),
    Site("/api/v1/chats/{id}/draft", api_drafts.show, scope="chat"),
    Site("/api/v1/chats/{id}/draft", api_drafts.put, PUT, scope="chat"),
    Site("/api/v1/draft", api_drafts.show, scope="chat"),
    Site("/api/v1/draft", api_drafts.put, PUT, scope="chat"),
    Site("/api/v1/messages/{id}", api_messages.change, PATCH, scope="chat"),
    Site("/api/v1/messages/{id}", api_messages.remove, DELETE, scope="chat"),
    Site("/api/v1/messages/{id}/send-now", api_messages.send_now, POST, scope="chat"),
    Site("/api/v1/replies/{id}", api_replies.show, scope="chat"),
    Site("/api/v1/replies/{id}/events", events.of_reply, scope="chat"),
    Site("/api/v1/replies/{id}/stop", api_replies.stop, POST, scope="chat"),
    Site("/api/v1/replies/{id}/regenerate", api_replies.regenerate, POST, scope="chat"),
    Site("/api/v1/replies/{id}/continue", api_replies.resume, POST, scope="chat"),
    Site("/api/v1/replies/{id}/requests", api_replies.requests, scope="chat"),
    Site("/api/v1/events", events.of_person, scope="chat"),
    Site("/api/v1/files", api_files.create, POST, scope="chat"),
    Site("/api/v1/files/{id}", api_files.show, scope="chat"),
    Site("/api/v1/models", models.listing, scope="chat"),
    # API: one's own account
    Site("/api/v1/me", me.show, scope="chat"),
    Site("/api/v1/me", me.change, PATCH),
    Site("/api/v1/sessions", sessions.listing),
    Site("/api/v1/sessions", sessions.end_others, DELETE),
    Site("/api/v1/sessions/{id}", sessions.end, DELETE),
    Site("/api/v1/keys", keys.listing),
    Site("/api/v1/keys", keys.create, POST),
    Site("/api/v1/keys/{id}", keys.revoke, DELETE),
    Site("/api/v1/usage", usage.sums),
    # API: administration
    Site("/api/v1/models/{id}", models.change, PATCH, needs="admin"),
    Site("/api/v1/endpoints", endpoints.listing, needs="admin"),
    Site("/api/v1/endpoints", endpoints.create, POST, needs="admin"),
    Site("/api/v1/endpoints/{id}", endpoints.show, needs="admin"),
    Site("/api/v1/endpoints/{id}", endpoints.change, PATCH, needs="admin"),
    Site("/api/v1/endpoints/{id}", endpoints.delete, DELETE, needs="admin"),
    Site("/api/v1/endpoints/{id}/check", endpoints.check, POST, needs="admin"),
    Site("/api/v1/roles", roles.show, needs="admin"),
    Site("/api/v1/roles", roles.change, PATCH, needs="admin"),
    Site("/api/v1/users", api_users.listing, needs="admin"),
    Site("/api/v1/users", api_users.create, POST, needs="admin"),
    Site("/api/v1/users/{id}", api_users.change, PATCH, needs="admin"),
    Site("/api/v1/users/{id}/link", api_users.make_link, POST, needs="admin"),
    Site("/api/v1/audit", audit.listing, needs="admin"),
)


def routes() -> list[Route]:
    """The sites as the router takes them, each behind its guard.

    One route for each path: asked by a method that is not there, it tells all that are.
    """
    paths: dict[str, dict[str, Handler]] = {}
    for site in SITES:
        handler = guarded(site.handler, site.needs, site.scope)
        paths.setdefault(site.path, {}).update(dict.fromkeys(site.methods, handler))
    return [Route(path, _by_method(handlers), methods=list(handlers)) for path, handlers in paths.items()]


def _by_method(handlers: Mapping[str, Handler]) -> Handler:
    async def dispatch(request: Request) -> Response:
        return await handlers["GET" if request.method == "HEAD" else request.method](request)

    return dispatch
