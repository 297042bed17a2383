"""Every route and who gets in: the table that `test_routes_matrix` holds the application to.

One row for each route, written by hand: a route without a row fails, and so does a row without a route.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Who = Literal["anybody", "members", "owner", "admins"]
Keys = Literal["none", "chat", "all"]


@dataclass(frozen=True)
class Row:
    """`who` gets in; to everybody else what belongs to an `owner` does not exist.

    `keys`: the scopes of API keys that reach it: `chat` (and `all`), or `all` alone; `read` reaches what is read.
    `id`: what the path's `{id}` stands for. Of `json` or `form`, values that begin with `@` stand for an id, too.
    """

    who: Who
    keys: Keys = "none"
    id: str = ""
    json: Mapping[str, Any] | None = None
    form: Mapping[str, Any] | None = None
    query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)


def page(who: Who, id: str = "", query: str = "") -> Row:
    return Row(who, id=id, query=query)


def sent(who: Who, id: str = "", **form: Any) -> Row:
    """A form of a page."""
    return Row(who, id=id, form=form)


def api(who: Who, keys: Keys, id: str = "", **json: Any) -> Row:
    return Row(who, keys, id, json=json or None)


_KEY = {"key": "01890000-0000-7000-8000-000000000001"}
_ENDPOINT = {"name": "E", "base_url": "script:hello", "api": "scripted"}
_POST = {"Idempotency-Key": "once"}
_PART = "content-disposition: form-data; name=file; filename=a.txt"
_FILE = "\r\n".join(["--b", _PART, "content-type: text/plain", "", "hi", "--b--", ""])

ROWS: dict[tuple[str, str], Row] = {
    # pages: chats
    ("GET", "/"): page("members"),
    ("POST", "/chats"): sent("members", text="Hello", **_KEY),
    ("GET", "/chats/{id}"): page("owner", "chat"),
    ("POST", "/chats/{id}/messages"): sent("owner", "chat", text="Hello", **_KEY),
    ("POST", "/chats/{id}/branch"): sent("owner", "chat", message="@message"),
    ("POST", "/chats/{id}/rename"): sent("owner", "chat", title="Other"),
    ("POST", "/chats/{id}/pin"): sent("owner", "chat", pinned="1"),
    ("POST", "/chats/{id}/archive"): sent("owner", "chat", archived="1"),
    ("POST", "/chats/{id}/folder"): sent("owner", "chat", folder="Work"),
    ("POST", "/chats/{id}/delete"): sent("owner", "chat"),
    ("PUT", "/chats/{id}/draft"): Row("owner", id="chat", json={"text": "draft"}),
    ("PUT", "/draft"): Row("members", json={"text": "draft"}),
    ("GET", "/sidebar"): page("members"),
    ("GET", "/marks"): page("members"),
    ("GET", "/events"): page("members"),
    ("GET", "/search"): page("members", query="?q=hello"),
    # pages: messages, replies, files
    ("POST", "/messages/{id}/resend"): sent("owner", "message", text="Other words", **_KEY),
    ("POST", "/messages/{id}/send-now"): sent("owner", "queued"),
    ("POST", "/messages/{id}/edit"): sent("owner", "queued", text="Other words"),
    ("POST", "/messages/{id}/remove"): sent("owner", "queued"),
    ("POST", "/replies/{id}/stop"): sent("owner", "reply"),
    ("POST", "/replies/{id}/regenerate"): sent("owner", "reply", **_KEY),
    ("POST", "/replies/{id}/continue"): sent("owner", "reply", **_KEY),
    ("GET", "/files/{id}"): page("owner", "file"),
    # pages: settings
    ("GET", "/settings"): page("members"),
    ("POST", "/settings/endpoints"): sent("admins", **_ENDPOINT),
    ("POST", "/settings/endpoints/{id}"): sent("admins", "endpoint", name="Other", enabled="1"),
    ("POST", "/settings/endpoints/{id}/check"): sent("admins", "endpoint"),
    ("POST", "/settings/endpoints/{id}/delete"): sent("admins", "endpoint"),
    ("POST", "/settings/models/{id}"): sent("admins", "model", name="Other", enabled="1"),
    ("POST", "/settings/roles"): sent("admins", chat=""),
    ("GET", "/settings/appearance"): page("members"),
    ("POST", "/settings/appearance"): sent("members", theme="dark"),
    ("GET", "/settings/about"): page("members"),
    ("PUT", "/preferences"): Row("members", json={"theme": "dark"}),
    # pages: one's own account, and the others'
    ("GET", "/settings/account"): page("members"),
    ("POST", "/settings/account/profile"): sent("members", display_name="A", time_zone="UTC"),
    ("POST", "/settings/account/password"): sent("members", old="wrong", password="x"),
    ("POST", "/settings/account/sessions/end-others"): sent("members"),
    ("POST", "/settings/account/sessions/{id}/end"): sent("owner", "session"),
    ("POST", "/settings/account/keys"): sent("members", name="script", scope="read"),
    ("POST", "/settings/account/keys/{id}/end"): sent("owner", "key"),
    ("GET", "/settings/users"): page("admins"),
    ("POST", "/settings/users"): sent("admins", name="Somebody New"),
    ("POST", "/settings/users/{id}/link"): sent("admins", "user"),
    ("POST", "/settings/users/{id}/role"): sent("admins", "user", role="admin"),
    ("POST", "/settings/users/{id}/disable"): sent("admins", "user"),
    ("POST", "/settings/users/{id}/enable"): sent("admins", "user"),
    # pages: coming in and going out
    ("GET", "/setup"): page("anybody", query="?token=x"),
    ("POST", "/setup"): sent("anybody", token="x", name="Eve", password="x"),
    ("GET", "/sign-in"): page("anybody"),
    ("POST", "/sign-in"): sent("anybody", name="Eve", password="x"),
    ("GET", "/sign-in/link"): page("anybody", query="?token=x"),
    ("POST", "/sign-in/link"): sent("anybody", token="x", password="x"),
    ("POST", "/sign-out"): sent("members"),
    # what anybody may ask for
    ("GET", "/static/{version}/{path:path}"): page("anybody"),
    ("GET", "/healthz"): page("anybody"),
    ("GET", "/readyz"): page("anybody"),
    ("GET", "/api/v1/openapi.json"): page("anybody"),
    ("GET", "/api/v1/docs"): page("anybody"),
    # API: chats, messages, replies, files
    ("GET", "/api/v1/chats"): api("members", "chat"),
    ("POST", "/api/v1/chats"): api("members", "chat", title="New"),
    ("GET", "/api/v1/chats/{id}"): api("owner", "chat", "chat"),
    ("PATCH", "/api/v1/chats/{id}"): api("owner", "chat", "chat", title="Other"),
    ("DELETE", "/api/v1/chats/{id}"): api("owner", "chat", "chat"),
    ("POST", "/api/v1/chats/{id}/branch"): api("owner", "chat", "chat", message="@message"),
    ("POST", "/api/v1/chats/{id}/messages"): Row(
        "owner", "chat", "chat", json={"text": "Hello"}, headers=_POST
    ),
    ("GET", "/api/v1/chats/{id}/draft"): api("owner", "chat", "chat"),
    ("PUT", "/api/v1/chats/{id}/draft"): api("owner", "chat", "chat", text="draft"),
    ("GET", "/api/v1/draft"): api("members", "chat"),
    ("PUT", "/api/v1/draft"): api("members", "chat", text="draft"),
    ("PATCH", "/api/v1/messages/{id}"): api("owner", "chat", "queued", text="Other"),
    ("DELETE", "/api/v1/messages/{id}"): api("owner", "chat", "queued"),
    ("POST", "/api/v1/messages/{id}/send-now"): api("owner", "chat", "queued"),
    ("GET", "/api/v1/replies/{id}"): api("owner", "chat", "reply"),
    ("GET", "/api/v1/replies/{id}/events"): api("owner", "chat", "reply"),
    ("POST", "/api/v1/replies/{id}/stop"): api("owner", "chat", "reply"),
    ("POST", "/api/v1/replies/{id}/regenerate"): api("owner", "chat", "reply"),
    ("POST", "/api/v1/replies/{id}/continue"): api("owner", "chat", "reply"),
    ("GET", "/api/v1/replies/{id}/requests"): api("owner", "chat", "reply"),
    ("GET", "/api/v1/events"): api("members", "chat"),
    ("POST", "/api/v1/files"): Row(
        "members",
        "chat",
        form={"": _FILE},
        headers={"content-type": "multipart/form-data; boundary=b"},
    ),
    ("GET", "/api/v1/files/{id}"): api("owner", "chat", "file"),
    ("GET", "/api/v1/models"): api("members", "chat"),
    # API: one's own account
    ("GET", "/api/v1/me"): api("members", "chat"),
    ("PATCH", "/api/v1/me"): api("members", "all", preferences={"theme": "dark"}),
    ("GET", "/api/v1/sessions"): api("members", "all"),
    ("DELETE", "/api/v1/sessions"): api("members", "all"),
    ("DELETE", "/api/v1/sessions/{id}"): api("owner", "all", "session"),
    ("GET", "/api/v1/keys"): api("members", "all"),
    ("POST", "/api/v1/keys"): api("members", "all", name="script"),
    ("DELETE", "/api/v1/keys/{id}"): api("owner", "all", "key"),
    ("GET", "/api/v1/usage"): api("members", "all"),
    # API: administration
    ("PATCH", "/api/v1/models/{id}"): api("admins", "all", "model", name="Other"),
    ("GET", "/api/v1/endpoints"): api("admins", "all"),
    ("POST", "/api/v1/endpoints"): api("admins", "all", **_ENDPOINT),
    ("GET", "/api/v1/endpoints/{id}"): api("admins", "all", "endpoint"),
    ("PATCH", "/api/v1/endpoints/{id}"): api("admins", "all", "endpoint", name="Other"),
    ("DELETE", "/api/v1/endpoints/{id}"): api("admins", "all", "endpoint"),
    ("POST", "/api/v1/endpoints/{id}/check"): api("admins", "all", "endpoint"),
    ("GET", "/api/v1/roles"): api("admins", "all"),
    ("PATCH", "/api/v1/roles"): api("admins", "all", chat=None),
    ("GET", "/api/v1/users"): api("admins", "all"),
    ("POST", "/api/v1/users"): api("admins", "all", name="Somebody Newer"),
    ("PATCH", "/api/v1/users/{id}"): api("admins", "all", "user", role="admin"),
    ("POST", "/api/v1/users/{id}/link"): api("admins", "all", "user"),
    ("GET", "/api/v1/audit"): api("admins", "all"),
}
