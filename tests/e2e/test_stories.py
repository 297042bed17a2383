"""The stories of one or two people at the page, in a real browser."""

from collections.abc import Callable

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.e2e.desk import ask, choose_model, ended, say, words_of
from tests.support.server import ServerProcess
from tests.support.upstream import UpstreamProcess

pytestmark = pytest.mark.browser

SLOW = "normal?tokens=300&tps=60"
LAST_WORD = "-299"


def test_somebody_leaves_in_mid_reply_and_comes_back_to_all_of_it(page: Page) -> None:
    ask(page, "Tell me about lamps", SLOW)
    chat = page.url
    page.goto("/settings")
    page.goto(chat)
    reply = ended(page.locator("article.reply"))
    expect(reply).to_contain_text(LAST_WORD)
    assert words_of(reply).count("-0 ") == 1


def test_a_reload_in_mid_reply_shows_what_was_written_and_goes_on(page: Page) -> None:
    reply = ask(page, "Tell me about lamps", SLOW)
    before = words_of(reply)
    page.reload()
    reply = page.locator("article.reply")
    assert words_of(reply).startswith(before[: len(before) // 2])
    expect(reply).to_have_attribute("aria-busy", "true")
    expect(ended(reply)).to_contain_text(LAST_WORD)


def test_two_tabs_show_the_same_reply(device: Callable[..., BrowserContext]) -> None:
    context = device()
    first = context.new_page()
    first.goto("/")
    reply = ask(first, "Tell me about lamps", SLOW)
    second = context.new_page()
    second.goto(first.url)
    other = ended(second.locator("article.reply"))
    assert words_of(other) == words_of(ended(reply))


def test_two_devices_see_each_others_messages(device: Callable[..., BrowserContext]) -> None:
    laptop, phone = device().new_page(), device(viewport={"width": 390, "height": 844}).new_page()
    laptop.goto("/")
    ended(ask(laptop, "From the laptop", "normal?tokens=40"))
    phone.goto(laptop.url)
    say(phone, "From the phone")
    phone.get_by_role("button", name="Send").click()
    expect(laptop.locator("#transcript")).to_contain_text("From the phone")
    expect(laptop.locator("article.reply")).to_have_count(2)
    assert words_of(ended(laptop.locator("article.reply").last)) == words_of(
        ended(phone.locator("article.reply").last)
    )


def test_stop_ends_the_reply_and_keeps_its_text(page: Page, upstream: UpstreamProcess) -> None:
    reply = ask(page, "Never stop", "endless")
    page.get_by_role("button", name="Stop").click()
    ended(reply)
    expect(reply).to_contain_text("Stopped")
    kept = words_of(reply)
    page.reload()
    assert words_of(page.locator("article.reply")) == kept
    assert upstream.requests()[0]["client_closed"]


def test_the_server_is_killed_in_mid_reply_and_the_page_carries_on(page: Page, server: ServerProcess) -> None:
    reply = ask(page, "Tell me about lamps", SLOW)
    port = int(server.url.rsplit(":", 1)[1])
    server.kill()
    server.start(port=port)
    ended(reply)
    expect(reply.get_by_role("button", name="Continue")).to_be_visible()
    kept = words_of(reply)[:40]
    reply.get_by_role("button", name="Continue").click()
    going_on = page.locator("article.reply").last
    expect(going_on).to_have_attribute("aria-busy", "false")
    assert words_of(going_on).startswith(kept)


def test_regenerate_and_edit_make_branches_that_can_be_switched(page: Page) -> None:
    ended(ask(page, "First wording", "normal?tokens=40"))
    page.locator("article.reply").get_by_role("button", name="Regenerate").click()
    expect(page.locator("article.reply")).to_contain_text("2 of 2")
    ended(page.locator("article.reply"))
    page.locator(".from-user").hover()
    page.get_by_role("link", name="Edit and send again").click()
    page.locator("form.edit textarea").fill("Second wording")
    page.get_by_role("button", name="Send again").click()
    expect(page.locator(".from-user")).to_contain_text("Second wording")
    ended(page.locator("article.reply"))
    page.locator(".said").get_by_role("button", name="Earlier version").click()
    expect(page.locator(".from-user")).to_contain_text("First wording")
    page.reload()
    expect(page.locator(".from-user")).to_contain_text("First wording")


def test_a_message_sent_while_a_reply_runs_waits_and_goes_out_after_it(page: Page) -> None:
    ask(page, "First", SLOW)
    say(page, "Second")
    expect(page.locator("#queue")).to_contain_text("Second")
    expect(page.locator("article.reply")).to_have_count(2, timeout=30_000)
    expect(page.locator("#queue")).not_to_contain_text("Second")
    ended(page.locator("article.reply").last)


def test_a_refused_key_is_told_in_place_with_the_button_that_helps(page: Page) -> None:
    choose_model(page, "status?code=401")
    say(page, "Anybody there?")
    reply = page.locator("article.reply")
    expect(reply).to_contain_text("The key for 'up' was refused")
    expect(reply.get_by_role("link", name="Open settings")).to_be_visible()


def test_an_expired_session_keeps_what_was_typed(
    device: Callable[..., BrowserContext], server: ServerProcess
) -> None:
    context = device()
    page = context.new_page()
    page.goto("/")
    ended(ask(page, "Begin", "normal?tokens=40"))
    chat = page.url
    context.clear_cookies()
    say(page, "A long thought that must not be lost")
    expect(page.get_by_role("link", name="Sign in")).to_be_visible()
    expect(page.locator("#text")).to_have_value("A long thought that must not be lost")
    page.get_by_role("link", name="Sign in").click()
    page.get_by_label("Name").fill("ada")
    page.get_by_label("Password").fill("correct horse battery")
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(chat)
    expect(page.locator("#text")).to_have_value("A long thought that must not be lost")


def test_what_is_sent_offline_waits_and_goes_out_once(page: Page, upstream: UpstreamProcess) -> None:
    ended(ask(page, "Begin", "normal?tokens=40"))
    page.context.set_offline(True)
    say(page, "Sent on the train")
    expect(page.locator("#transcript")).to_contain_text("Sent on the train")
    page.context.set_offline(False)
    expect(page.locator("article.reply")).to_have_count(2)
    ended(page.locator("article.reply").last)
    page.reload()
    expect(page.get_by_text("Sent on the train")).to_have_count(1)
    sent = [r["body"]["messages"][-1]["content"] for r in upstream.requests()]
    assert sum("Sent on the train" in text for text in sent) == 1


def test_ten_tabs_at_once_all_load_and_show_the_end(device: Callable[..., BrowserContext]) -> None:
    context = device()
    first = context.new_page()
    first.goto("/")
    ask(first, "Tell me about lamps", SLOW)
    tabs = [context.new_page() for _ in range(9)]
    for tab in tabs:
        tab.goto(first.url)
        expect(tab.locator("article.reply")).to_be_visible()
    for tab in [first, *tabs]:
        expect(ended(tab.locator("article.reply"))).to_contain_text(LAST_WORD)


def test_a_reply_that_ends_unwatched_marks_its_chat_unread(page: Page) -> None:
    ask(page, "Tell me about lamps", SLOW)
    chat = page.url.rsplit("/", 1)[1]
    page.goto("/settings")
    page.goto("/")
    expect(page.locator(f"#chat-{chat}")).to_have_class("unread", timeout=15_000)
    page.goto(f"/chats/{chat}")
    page.goto("/")
    expect(page.locator(f"#chat-{chat}")).to_be_visible()


def test_nothing_on_a_phone_is_wider_than_the_phone(device: Callable[..., BrowserContext]) -> None:
    phone = device(viewport={"width": 390, "height": 844}, is_mobile=True, has_touch=True).new_page()
    phone.goto("/")
    choose_model(phone, "echo")
    phone.locator("#text").fill(
        f"A title of many long words {'and more words ' * 9}\n\n```\n{'x' * 300}\n```"
    )
    phone.get_by_role("button", name="Send").click()
    ended(phone.locator("article.reply"))
    for path in (phone.url, "/", "/settings", "/settings/account", "/settings/users", "/settings/about"):
        phone.goto(path)
        assert phone.evaluate("document.documentElement.scrollWidth") == 390, path
