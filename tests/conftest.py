"""What every test gets: the SQLite that the application brings, no deadlines for hypothesis, and a browser to drive."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

import app

if TYPE_CHECKING:
    from playwright.sync_api import Browser

assert app.__version__  # imported for its effect: app/__init__.py says which

# A deadline per example measures how busy the machine is.
settings.register_profile("nightdesk", deadline=None, print_blob=True)
settings.load_profile("nightdesk")


@pytest.fixture(scope="session")
def browser() -> Iterator["Browser"]:
    """One for all tests: Playwright can't be started a second time in a process."""
    from tests.support.browser import chromium  # most tests need none

    with chromium() as running:
        yield running


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What drives the browser is a browser test: its event loop would keep every asynchronous test from running."""
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.browser)
