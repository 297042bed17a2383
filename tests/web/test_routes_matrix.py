"""Every route against every kind of visitor. The fix of one route must not leave its sibling open."""

from typing import Any

import pytest
from sqlalchemy import text

from app.accounts.access import Scope
from app.core.ids import new_id
from app.web.routes import SITES
from tests.support.ask import Answer, ask
from tests.web.matrix import ROWS, Row
from tests.web.place import Place


def test_every_route_has_its_row_and_every_row_its_route():
    routes = {(method, site.path) for site in SITES for method in site.methods}
    assert routes - set(ROWS) == set(), "routes without a row in tests/web/matrix.py"
    assert set(ROWS) - routes == set(), "rows whose route is gone"


@pytest.mark.parametrize("site", SITES, ids=lambda site: f"{','.join(site.methods)} {site.path}")
def test_a_route_says_of_itself_what_its_row_says(site):
    for method in site.methods:
        row = ROWS[method, site.path]
        assert site.needs == {"anybody": "nobody", "admins": "admin"}.get(row.who, "member")
        if site.path.startswith("/api/") and row.who != "anybody":
            assert site.scope == row.keys


def let_in(answer: Answer) -> bool:
    """Whether the handler was reached and did what it is for, or found fault with what was sent."""
    assert answer.status < 500 or answer.status == 502, answer  # 502: an endpoint's fault
    return answer.status not in (404, 405) and answer.problem not in ("sign-in", "not-allowed")


def rows(*who: str, api: bool | None = None) -> list[tuple[tuple[str, str], Row]]:
    chosen = [(route, row) for route, row in ROWS.items() if row.who in who]
    return [pair for pair in chosen if api is None or pair[0][1].startswith("/api/") is api]


async def test_nobody_is_let_in_but_where_anybody_is(place: Place):
    for route, row in ROWS.items():
        answer = await place.request(*route, {"sec-fetch-site": "same-origin"})
        if row.who == "anybody":
            assert let_in(answer) or route[1].startswith("/static/"), route
        else:
            assert (answer.status, answer.problem) == (401, "sign-in"), route


async def test_an_owner_is_let_in_everywhere_but_where_administrators_are(place: Place):
    for route, _ in rows("anybody", "members", "owner"):
        answer = await place.request(*route, await place.session("owner"))
        assert let_in(answer) or route[1].startswith("/static/"), (route, answer)
    for route, _ in rows("admins"):
        answer = await place.request(*route, await place.session("owner"))
        assert (answer.status, answer.problem) == (403, "not-allowed"), route


async def everything(place: Place) -> dict[str, list[Any]]:
    """All that the owner's things consist of."""
    tables = ("chat", "message", "part", "reply", "draft", "file", "login_session", "api_key", "idempotency")
    async with place.desk.house.db.read() as s:
        return {
            table: sorted(map(repr, (await s.execute(text(f"SELECT * FROM {table}"))).all()))
            for table in tables
        }


@pytest.mark.parametrize("name", ["stranger", "boss"])
async def test_what_belongs_to_somebody_else_does_not_exist(place: Place, name: str):
    """For administrators too: chats are private."""
    visitor = await place.session(name)
    for route, row in rows("owner"):
        things = await place.things(row.id)
        before = await everything(place)
        answer = await place.request(*route, visitor, things)
        assert answer.status == 404, (route, answer)
        assert await everything(place) == before, route


async def test_an_administrator_is_let_in_where_administrators_are(place: Place):
    for route, _ in rows("members", "admins"):
        answer = await place.request(*route, await place.session("boss"))
        assert let_in(answer), (route, answer)


async def test_no_page_takes_an_api_key(place: Place):
    for route, row in ROWS.items():
        if not route[1].startswith("/api/") and row.who != "anybody":
            answer = await place.request(*route, await place.key("boss", "all"))
            # A form without the headers of a browser is refused before anybody looks at who sent it.
            assert answer.status == (401 if route[0] == "GET" else 403), route


@pytest.mark.parametrize("scope", ["all", "read", "chat"])
async def test_a_key_reaches_what_its_scope_is_for(place: Place, scope: Scope):
    for route, row in rows("members", "owner", "admins", api=True):
        name = "boss" if row.who == "admins" else "owner"
        answer = await place.request(*route, await place.key(name, scope))
        fits = {"all": True, "read": route[0] == "GET", "chat": row.keys == "chat"}[scope]
        if fits and (row.who != "admins" or scope == "all"):
            assert let_in(answer), (route, answer)
        else:
            assert (answer.status, answer.problem) == (403, "not-allowed"), (route, answer)


async def test_a_strangers_key_finds_nothing_of_an_owner(place: Place):
    for route, _ in rows("owner", api=True):
        for name in ("stranger", "boss"):
            answer = await place.request(*route, await place.key(name, "all"))
            assert (answer.status, answer.problem) == (404, "not-found"), route


async def test_a_change_without_the_token_of_its_session_is_refused_everywhere(place: Place):
    for route, row in ROWS.items():
        if route[0] != "GET" and row.who != "anybody":
            headers = await place.session("boss")
            del headers["x-csrf-token"]
            answer = await place.request(*route, headers)
            assert (answer.status, answer.problem) == (403, "not-allowed"), route


async def test_what_another_site_sends_is_refused_everywhere(place: Place):
    for route in ROWS:
        headers = await place.session("boss") | {
            "sec-fetch-site": "cross-site",
            "origin": "https://evil.example",
        }
        answer = await place.request(*route, headers)
        assert (answer.status, answer.problem) == (403, "not-allowed"), route
        assert not [name for name, _ in answer.headers if name.startswith("access-control-")]


@pytest.mark.parametrize("method", ["FOO", "TRACE", "OPTIONS"])
async def test_an_odd_method_reaches_no_handler(place: Place, method: str):
    for _, path in ROWS:
        headers = await place.session("boss")
        answer = await ask(place.desk.app, method, path.replace("{id}", new_id()), headers)
        assert answer.status == 405, path
