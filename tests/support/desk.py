"""A whole Nightdesk in this process: every object as `main` builds it, on a folder of its own, asked without a socket.

In-memory clients wait for a whole body: streams are for tests against a real server (`tests.support.server`).
"""

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Route

from app.accounts.access import Person, Role, Scope
from app.config import Settings
from app.main import opened
from app.store.folder import DataFolder
from app.web.house import House
from app.web.middleware import Gate
from app.web.problems import HANDLERS
from app.web.site import site

PASSWORD = "four quiet lamps at dusk"
HERE = "http://127.0.0.1:8787"
PAGE = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
# What a browser says of a form on one of our own pages.
OURS = {"sec-fetch-site": "same-origin", "origin": HERE}


@dataclass
class Visitor:
    """Somebody with a browser: its cookies, and the token of the pages it shows."""

    web: httpx.AsyncClient
    person: Person | None = None

    @property
    def csrf(self) -> str:
        return self.person.csrf if self.person else ""

    async def get(self, path: str, **headers: str) -> httpx.Response:
        """Follow an address by hand."""
        return await self.web.get(path, headers=PAGE | _named(headers))

    async def send(self, path: str, fields: dict[str, Any] | None = None, **headers: str) -> httpx.Response:
        """Send a form of a page of ours, its token included."""
        return await self.web.post(
            path, data={"csrf": self.csrf} | (fields or {}), headers=PAGE | OURS | _named(headers)
        )


def _named(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


@dataclass
class Desk:
    """`house` and the application around it."""

    house: House
    app: Starlette

    def client(self, at: str = HERE, peer: str = "127.0.0.1", **options: Any) -> httpx.AsyncClient:
        """A client of no browser: what it sends is all there is. `at` is the address that it asks."""
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False, client=(peer, 50_000))
        return httpx.AsyncClient(transport=transport, base_url=at, **options)

    def visitor(self, at: str = HERE, peer: str = "127.0.0.1") -> Visitor:
        """A browser in which nobody is signed in."""
        return Visitor(self.client(at, peer))

    async def member(self, name: str = "ada", role: Role = "member") -> Visitor:
        """Somebody who has an account and is signed in."""
        await self.house.people.add_user(name, PASSWORD, role)
        return await self.sign_in(name)

    async def sign_in(self, name: str) -> Visitor:
        """Another browser of somebody who has an account."""
        found = await self.house.sessions.sign_in(name, PASSWORD, "127.0.0.1", "Firefox/1 Linux")
        return Visitor(self.client(cookies={"sid": found.token}), found.person)

    async def program(self, visitor: Visitor, scope: Scope = "all") -> httpx.AsyncClient:
        """A script of theirs, with an API key."""
        assert visitor.person is not None
        key = await self.house.sessions.add_key(visitor.person.id, "script", scope, by=visitor.person)
        return self.client(headers={"authorization": f"Bearer {key}"})

    async def setup_token(self) -> str:
        link = await self.house.people.setup_link()
        assert link is not None
        return link.partition("token=")[2]

    def with_routes(self, routes: Sequence[Route]) -> "Desk":
        """The same house, serving these instead."""
        app = Starlette(routes=routes, middleware=[Middleware(Gate)], exception_handlers=HANDLERS)
        app.state.house = self.house
        return Desk(self.house, app)


@asynccontextmanager
async def desk(data: Path, **settings: Any) -> AsyncIterator[Desk]:
    """A Nightdesk on `data`, closed afterwards. `settings` are fields of `config.Settings`."""
    folder = DataFolder(data)
    folder.lock()
    try:
        async with opened(Settings(data=data, local_model=False, **settings), folder) as ready:
            house = ready.house
            if house.settings.single_user:
                house.sessions.be_single(await house.people.move_in(house.vault.derive("single-user csrf")))
            yield Desk(house, site(house))
    finally:
        folder.unlock()


def hidden(page: str, name: str) -> str:
    """The value of a hidden field of `page`."""
    found = re.search(rf'<input type="hidden" name="{name}" value="([^"]*)"', page)
    assert found, f"there is no hidden field {name}"
    return found[1]
