"""What the page's own scripts promise, in a real browser: composing, reading, keys, and doing without any of them."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.e2e.desk import ask, choose_model, ended, say
from tests.support.server import PASSWORD, ServerProcess, serving
from tests.support.upstream import UpstreamProcess

pytestmark = pytest.mark.browser

QUICK = "normal?tokens=40"
ENDLESS = "endless"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One for all of them: none of these stories is about the server."""
    data: Path = tmp_path_factory.mktemp("browser") / "data"
    with (
        UpstreamProcess() as upstream,
        serving(data, "--no-local-model", env={"NIGHTDESK_MESSAGES_PER_MINUTE": "0"}) as process,
    ):
        upstream.control(models=[QUICK, ENDLESS])
        process.add_user("ada")
        process.command("endpoint", "add", "up", "--api", "openai-chat", "--url", upstream.url)
        yield process


@pytest.fixture(scope="module")
def signed_in(browser: Browser, server: ServerProcess) -> Any:
    """The cookies of ada's session."""
    context = browser.new_context(base_url=server.url)
    page = context.new_page()
    page.goto("/sign-in")
    page.get_by_label("Name").fill("ada")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator("#text")).to_be_visible()
    state = context.storage_state()
    context.close()
    return state


@pytest.fixture
def device(
    browser: Browser, server: ServerProcess, signed_in: Any
) -> Iterator[Callable[..., BrowserContext]]:
    """Opens another device of ada's. Each error of a page fails the test."""
    opened: list[BrowserContext] = []
    errors: list[str] = []

    def open_one(**options: Any) -> BrowserContext:
        context = browser.new_context(base_url=server.url, storage_state=signed_in, **options)
        context.on("weberror", lambda error: errors.append(str(error.error)))
        opened.append(context)
        return context

    yield open_one
    for context in opened:
        context.close()
    assert errors == []


@pytest.fixture
def page(device: Callable[..., BrowserContext]) -> Page:
    made = device().new_page()
    made.goto("/")
    return made


def comes_to_the_end(page: Page) -> None:
    while page.evaluate("document.documentElement.scrollHeight - innerHeight - scrollY") > 4:
        page.wait_for_timeout(20)


def grown(page: Page, beyond: int) -> int:
    """Wait until the page is `beyond` pixels higher than a screen; how much higher it is."""
    while (more := page.evaluate("document.documentElement.scrollHeight - innerHeight")) < beyond:
        page.wait_for_timeout(50)
    return int(more)


# --- reading ----------------------------------------------------------------------------------------------


@pytest.fixture
def running(page: Page) -> Page:
    """A reply that is being written and already higher than the screen."""
    page.set_viewport_size({"width": 900, "height": 500})
    ask(page, "Go on and on", ENDLESS)
    grown(page, 200)
    return page


def test_the_page_follows_the_end_while_the_reader_is_there(running: Page):
    before = grown(running, 0)
    grown(running, before + 100)
    comes_to_the_end(running)


def test_one_turn_of_the_wheel_lets_go_of_the_end_and_a_button_leads_back(running: Page):
    running.mouse.move(400, 200)
    running.mouse.wheel(0, -300)
    expect(running.locator("[data-to-end]")).to_be_visible()
    place = running.evaluate("scrollY")
    grown(running, grown(running, 0) + 100)
    assert running.evaluate("scrollY") == place
    running.get_by_role("button", name="New text").click()
    expect(running.locator("[data-to-end]")).not_to_be_visible()
    grown(running, grown(running, 0) + 50)
    comes_to_the_end(running)


def test_selecting_holds_the_page_still_and_the_selection_stays(running: Page):
    running.evaluate("getSelection().selectAllChildren(document.querySelector('.reply .blocks > *'))")
    selected = running.evaluate("String(getSelection())")
    place = running.evaluate("scrollY")
    grown(running, grown(running, 0) + 100)
    assert running.evaluate("scrollY") == place
    assert running.evaluate("String(getSelection())") == selected


def paste(page: Page, text: str) -> None:
    page.locator("#text").evaluate(
        """(box, text) => {
            const clipboardData = new DataTransfer();
            clipboardData.setData("text/plain", text);
            box.focus();
            box.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }));
        }""",
        text,
    )


# --- composing --------------------------------------------------------------------------------------------


def test_enter_that_ends_a_composition_does_not_send(page: Page):
    box = page.locator("#text")
    box.fill("にほん")
    box.dispatch_event("keydown", {"key": "Enter", "isComposing": True, "bubbles": True})
    box.dispatch_event("keydown", {"key": "Enter", "keyCode": 229, "bubbles": True})
    expect(box).to_have_value("にほん")
    assert "/chats/" not in page.url


def test_shift_and_enter_break_the_line(page: Page):
    page.locator("#text").fill("one")
    page.locator("#text").press("Shift+Enter")
    page.keyboard.type("two")
    expect(page.locator("#text")).to_have_value("one\ntwo")


def test_who_wants_enter_to_break_the_line_sends_with_control(page: Page):
    page.goto("/settings/appearance")
    page.get_by_label("Breaks the line").check()
    page.get_by_role("button", name="Save").click()
    page.goto("/")
    choose_model(page, QUICK)
    page.locator("#text").fill("one")
    page.locator("#text").press("Enter")
    page.keyboard.type("two")
    expect(page.locator("#text")).to_have_value("one\ntwo")
    page.locator("#text").press("Control+Enter")
    expect(page.locator(".from-user")).to_have_text("one\ntwo")
    page.goto("/settings/appearance")
    page.get_by_label("Sends").check()
    page.get_by_role("button", name="Save").click()


def test_what_is_too_long_comes_back_into_the_box_with_the_reason(page: Page):
    ended(ask(page, "Begin", QUICK))
    paste(page, "x" * 300_000)
    page.locator("#text").press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("characters")
    assert len(page.locator("#text").input_value()) == 300_000
    expect(page.locator(".said")).to_have_count(1)


@pytest.mark.parametrize("text", ["x" * 200_000, "line of text\n" * 15_000], ids=["one word", "many lines"])
def test_a_large_text_is_pasted_and_sent_without_holding_up_the_page(page: Page, text: str):
    choose_model(page, QUICK)
    began = page.evaluate("performance.now()")
    paste(page, text)
    assert page.evaluate("document.body.offsetHeight && performance.now()") - began < 3_000
    page.locator("#text").press("Enter")
    ended(page.locator("article.reply"))
    expect(page.get_by_text("Show all")).to_be_visible()


def test_what_is_typed_is_there_after_a_reload_and_on_another_device(
    device: Callable[..., BrowserContext],
):
    laptop = device().new_page()
    laptop.goto("/")
    ended(ask(laptop, "Begin", QUICK))
    with laptop.expect_request(lambda request: request.url.endswith("/draft")):
        laptop.locator("#text").press_sequentially("half a thought")
    laptop.reload()
    expect(laptop.locator("#text")).to_have_value("half a thought")
    phone = device().new_page()
    phone.goto(laptop.url)
    expect(phone.locator("#text")).to_have_value("half a thought")


def test_a_message_edited_while_it_waits_goes_out_as_edited(page: Page):
    ask(page, "First", ENDLESS)
    say(page, "Waiting")
    expect(page.locator(".queued")).to_contain_text("Waiting")
    page.get_by_role("button", name="Edit the queued message").click()
    page.get_by_role("dialog").locator("textarea").fill("Waiting, in other words")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".queued p")).to_have_text("Waiting, in other words")
    expect(page.locator(":popover-open")).to_have_count(0)
    page.keyboard.press("Escape")
    ended(page.locator("article.reply"))
    choose_model(page, QUICK)
    page.get_by_role("button", name="Send now").click()
    expect(page.locator(".from-user").last).to_have_text("Waiting, in other words")


# --- keys -------------------------------------------------------------------------------------------------


def test_control_k_finds_a_chat_and_enter_opens_it(page: Page):
    ended(ask(page, "Where did I leave the needle", QUICK))
    chat = page.url
    page.goto("/")
    page.keyboard.press("Control+k")
    expect(page.get_by_role("combobox", name="Search in your chats")).to_be_focused()
    page.keyboard.type("needle")
    expect(page.locator("#palette-results mark").first).to_have_text("needle")
    page.keyboard.press("Enter")
    page.wait_for_url(lambda url: url.startswith(chat))


def test_up_in_an_empty_box_edits_the_last_message_and_escape_lets_it_be(page: Page):
    ended(ask(page, "First wording", QUICK))
    page.locator("#text").press("ArrowUp")
    expect(page.locator("form.edit textarea")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator("form.edit")).to_have_count(0)
    expect(page.locator(".from-user")).to_be_visible()


def test_a_question_mark_shows_the_keys(page: Page):
    page.locator("#chats").focus()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard")).to_be_visible()


# --- around it --------------------------------------------------------------------------------------------


def test_a_code_block_is_copied_as_it_is(page: Page):
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    reply = ended(ask(page, "Begin", QUICK))
    reply.hover()
    reply.get_by_role("button", name="Copy the reply").click()
    expect(reply.get_by_role("button", name="Copied")).to_be_visible()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.split()[:3] == reply.locator(".segment.text").inner_text().split()[:3]


def test_nothing_breaks_the_policy_of_the_page_and_little_is_asked_for(page: Page):
    told: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: told.append(message.text) if message.type == "error" else None)
    page.on("request", lambda request: asked.append(request.url))
    ended(ask(page, "Begin", QUICK))
    asked.clear()
    page.reload()
    expect(page.locator("article.reply")).to_be_visible()
    page.wait_for_function("performance.getEntriesByName('nightdesk-ready').length")
    assert told == []
    assert len(asked) <= 15


def test_all_of_it_works_without_script(device: Callable[..., BrowserContext]):
    page = device(java_script_enabled=False).new_page()
    page.goto("/")
    choose_model(page, QUICK)
    page.locator("#text").fill("Without any script")
    page.get_by_role("button", name="Send").click()
    page.wait_for_url("**/chats/*")
    while page.locator("article.reply[aria-busy=true]").count():
        page.reload()
    page.get_by_role("link", name="Edit and send again").click()
    page.get_by_label("Edit your message").fill("In other words")
    page.get_by_role("button", name="Send again").click()
    expect(page.locator(".said")).to_contain_text("2 of 2")
    page.get_by_role("button", name="More for this chat").click()
    page.get_by_role("button", name="Rename").click()
    page.get_by_label("Title").fill("A chat without script")
    page.get_by_role("button", name="Rename").last.click()
    expect(page.locator("#title")).to_have_text("A chat without script")
