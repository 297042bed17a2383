"""A page that was away, and what is typed in it: nothing of either is lost, and nobody else finds it."""

from collections.abc import Callable

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.e2e.desk import ask, ended, say
from tests.support.server import PASSWORD, ServerProcess

pytestmark = pytest.mark.browser

QUICK = "normal?tokens=40"
Device = Callable[..., BrowserContext]


def in_one_chat(device: Device) -> tuple[Page, Page]:
    """Two devices of one person with the same chat open, in which one reply has ended."""
    laptop, phone = device().new_page(), device().new_page()
    laptop.goto("/")
    ended(ask(laptop, "From the laptop", QUICK))
    phone.goto(laptop.url)
    return laptop, phone


def begin_edit(page: Page, text: str) -> None:
    page.locator(".from-user").first.hover()
    page.get_by_role("link", name="Edit and send again").first.click()
    page.locator("form.edit textarea").fill(text)


def sign_in(page: Page, name: str) -> None:
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()


def test_what_was_said_on_another_device_meanwhile_is_there_when_the_line_is_back(device: Device) -> None:
    laptop, phone = in_one_chat(device)
    laptop.context.set_offline(True)
    say(phone, "From the phone")
    expect(phone.locator("article.reply")).to_have_count(2)
    ended(phone.locator("article.reply").last)
    laptop.context.set_offline(False)
    expect(laptop.locator("article.reply")).to_have_count(2)
    expect(laptop.locator("#transcript")).to_contain_text("From the phone")
    expect(laptop.locator(".chats .unread")).to_have_count(0)


def test_a_page_that_gave_up_its_place_takes_it_again_when_it_is_shown(device: Device) -> None:
    context = device()
    first = context.new_page()
    first.goto("/")
    ended(ask(first, "Begin", QUICK))
    with first.expect_request(
        lambda asked: asked.url == first.url
    ):  # it has given way, and asks now and then
        for _ in range(4):
            context.new_page().goto(first.url)
    with first.expect_request(lambda asked: "/events?" in asked.url):
        first.evaluate("document.dispatchEvent(new Event('visibilitychange'))")


def test_what_the_reader_has_loaded_above_stays_when_the_page_is_brought_up_to_date(device: Device) -> None:
    laptop, phone = in_one_chat(device)
    laptop.evaluate(
        """() => {
            const above = Object.assign(document.createElement("div"), { className: "said", id: "message-above" });
            document.querySelector("#transcript .said").before(above);
        }"""
    )
    say(phone, "From the phone")
    expect(laptop.locator("article.reply")).to_have_count(2)
    expect(laptop.locator("#message-above")).to_have_count(1)
    expect(laptop.locator("#transcript > .said").first).to_have_id("message-above")


def test_a_message_that_is_being_edited_stays_so_whatever_else_is_said(device: Device) -> None:
    laptop, phone = in_one_chat(device)
    begin_edit(laptop, "Other words")
    say(phone, "From the phone")
    expect(laptop.locator("article.reply")).to_have_count(2)
    expect(laptop.locator("form.edit textarea")).to_have_value("Other words")


def test_an_edit_that_is_sent_after_the_session_ended_is_there_after_signing_in(device: Device) -> None:
    laptop, _ = in_one_chat(device)
    chat = laptop.url
    begin_edit(laptop, "Other words")
    laptop.context.clear_cookies()
    laptop.get_by_role("button", name="Send again").click()
    laptop.get_by_role("alert").get_by_role("link", name="Sign in").click()
    sign_in(laptop, "ada")
    laptop.wait_for_url(chat)
    laptop.locator(".from-user").first.hover()
    laptop.get_by_role("link", name="Edit and send again").click()
    expect(laptop.locator("form.edit textarea")).to_have_value("Other words")


def test_what_was_typed_offline_wins_over_what_the_server_had_before(page: Page) -> None:
    ended(ask(page, "Begin", QUICK))
    with page.expect_response(lambda answer: answer.url.endswith("/draft") and answer.ok):
        page.locator("#text").fill("Dear")
    page.context.set_offline(True)
    with page.expect_event("requestfailed", lambda asked: asked.url.endswith("/draft")):
        page.locator("#text").fill("Dear neighbour")
    page.context.set_offline(False)
    page.reload()
    expect(page.locator("#text")).to_have_value("Dear neighbour")


def test_two_messages_sent_offline_go_out_in_their_order_and_into_one_chat(page: Page) -> None:
    page.context.set_offline(True)
    say(page, "The first of two")
    say(page, "The second of two")
    page.context.set_offline(False)
    page.wait_for_url("**/chats/*")
    expect(page.locator("article.reply")).to_have_count(2)
    expect(page.locator(".from-user")).to_have_text(["The first of two", "The second of two"])
    expect(page.locator(".chats li")).to_have_count(1)


def test_the_commands_are_there_without_a_line(page: Page) -> None:
    page.keyboard.press("Control+k")
    page.keyboard.press("Escape")
    page.context.set_offline(True)
    page.keyboard.press("Control+k")
    page.keyboard.type("theme")
    expect(page.get_by_role("option", name="Change the theme")).to_be_visible()


def test_what_one_person_typed_is_not_found_by_the_next_in_the_same_tab(
    page: Page, server: ServerProcess
) -> None:
    server.add_user("bob")
    page.context.set_offline(True)
    page.locator("#text").fill("Between me and the desk")
    page.context.set_offline(False)
    page.goto("/settings/account")
    page.get_by_role("button", name="Sign out here").click()
    sign_in(page, "bob")
    expect(page.locator("#text")).to_have_value("")


def test_a_page_whose_session_ended_says_so_with_the_way_to_sign_in(device: Device) -> None:
    context = device()
    page, other = context.new_page(), context.new_page()
    page.goto("/")
    other.goto("/settings/account")
    other.get_by_role("button", name="Sign out here").click()
    page.locator("[data-offline]").get_by_role("link", name="Sign in").click()
    expect(page.get_by_label("Password")).to_be_visible()
