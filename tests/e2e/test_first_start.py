"""The first start, as a newcomer meets it: setup link, account, and a real answer from the embedded model."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.support.server import PASSWORD, ServerProcess

pytestmark = pytest.mark.browser


def test_from_the_first_start_to_the_first_answer(tmp_path: Path, browser: Browser) -> None:
    server = ServerProcess(tmp_path / "data")
    try:
        server.start()
        link = re.findall(r"http\S+/setup\?token=\S+", "".join(server.log))[0]
        page = browser.new_context(base_url=server.url).new_page()
        page.goto(link)
        page.get_by_label("Name").fill("ada")
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name=re.compile("account|start", re.IGNORECASE)).click()
        page.locator("#text").fill("Say hello in one short sentence.")
        page.locator("#text").press("Enter")
        reply = page.locator("article.reply")
        expect(reply).to_have_attribute("aria-busy", "false", timeout=90_000)
        expect(reply.locator(".segment.text")).to_contain_text(re.compile("[a-z]{3}"))
        page.goto(link)
        expect(page.locator("body")).not_to_contain_text("Make the first account")
    finally:
        server.terminate()
