"""What a person does at the page, one function an action."""

from playwright.sync_api import Locator, Page, expect


def choose_model(page: Page, name: str) -> None:
    page.locator("#model").select_option(label=name)


def say(page: Page, text: str) -> None:
    """Type a message and send it."""
    page.locator("#text").fill(text)
    page.locator("#text").press("Enter")


def ask(page: Page, text: str, model: str) -> Locator:
    """Send `text` to `model` in a new chat; the reply once it shows text."""
    choose_model(page, model)
    say(page, text)
    reply = page.locator("article.reply").last
    expect(reply.locator(".segment.text")).to_contain_text("-3")
    return reply


def ended(reply: Locator) -> Locator:
    """The reply once it has its outcome."""
    expect(reply).to_have_attribute("aria-busy", "false")
    return reply


def words_of(reply: Locator) -> str:
    return " ".join(reply.locator(".segment.text").inner_text().split())
