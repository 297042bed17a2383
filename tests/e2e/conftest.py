"""A browser and a server of its own for each story."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.support.server import PASSWORD, ServerProcess
from tests.support.upstream import UpstreamProcess

# What the upstream does under each name is in `tests.support.upstream_modes`.
MODELS = [
    "echo",
    "normal?tokens=40",
    "normal?tokens=300&tps=60",
    "endless",
    "hang",
    "reset?bytes=2000",
    "status?code=401",
]

expect.set_options(timeout=15_000)


@pytest.fixture
def upstream() -> Iterator[UpstreamProcess]:
    process = UpstreamProcess()
    try:
        process.control(models=MODELS)
        yield process
    finally:
        process.stop()


@pytest.fixture
def server(tmp_path: Path, upstream: UpstreamProcess) -> Iterator[ServerProcess]:
    """A running server with the account `ada` and one endpoint, the upstream."""
    process = ServerProcess(tmp_path / "data", "--no-local-model", env={"NIGHTDESK_DRAIN": "1"})
    try:
        process.start()
        process.add_user("ada")
        process.command(
            "endpoint",
            "add",
            "up",
            "--api",
            "openai-chat",
            "--url",
            upstream.url,
            "--key-stdin",
            input="k3y\n",
        )
        yield process
    finally:
        process.close()


@pytest.fixture
def device(browser: Browser, server: ServerProcess) -> Iterator[Callable[..., BrowserContext]]:
    """Signs in on a new device: a browser context with cookies of its own. Each page error fails the test."""
    opened: list[BrowserContext] = []
    errors: list[str] = []

    def sign_in(name: str = "ada", **options: object) -> BrowserContext:
        context = browser.new_context(base_url=server.url, **options)  # type: ignore[arg-type]
        context.on("weberror", lambda error: errors.append(str(error.error)))
        opened.append(context)
        page = context.new_page()
        page.goto("/sign-in")
        page.get_by_label("Name").fill(name)
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Sign in").click()
        expect(page.locator("#text")).to_be_visible()
        page.close()
        return context

    yield sign_in
    for context in opened:
        context.close()
    assert errors == []


@pytest.fixture
def page(device: Callable[..., BrowserContext]) -> Page:
    """A signed-in page at the new chat."""
    made = device().new_page()
    made.goto("/")
    return made
