"""A reply that was followed is the reply that is drawn fresh; and following it disturbs nobody who reads."""

import asyncio
import random
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from tests.e2e.desk import choose_model, ended, say
from tests.support.desk import desk
from tests.support.documents import AWKWARD, LINES
from tests.support.server import ServerProcess
from tests.support.upstream import UpstreamProcess
from tests.support.writing import Reply

SLOWLY = "echo?tps=60&size=6&reasoning=15"
QUICKLY = "echo?tps=400&size=5&reasoning=15"
AT_ONCE = "echo?size=3"
LONG = [text for name, text in AWKWARD.items() if len(text) < 1_000 and name != "NUL"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One server for all of these, on an upstream that says again what it is asked."""
    upstream = UpstreamProcess()
    process = ServerProcess(tmp_path_factory.mktemp("desk") / "data", "--no-local-model")
    try:
        upstream.control(models=[SLOWLY, QUICKLY, AT_ONCE])
        process.start()
        process.add_user("ada")
        process.command("endpoint", "add", "up", "--api", "openai-chat", "--url", upstream.url)
        yield process
    finally:
        process.close()
        upstream.stop()


def drawn(page: Page) -> str:
    """The segments of all replies as they stand, without the blanks of templates, once scripts have done their work."""
    expect(page.locator(".blocks[data-settled]")).to_have_count(0)
    expect(page.locator(".code > header:not(:has(button))")).to_have_count(0)
    expect(page.locator("[data-tex]:not([data-set])")).to_have_count(0)
    found: list[str] = page.locator(".reply > .segments").evaluate_all("all => all.map(one => one.outerHTML)")
    return re.sub(r">\s+<", "><", "".join(found))


def asked(page: Page, text: str, model: str) -> Locator:
    choose_model(page, model)
    say(page, text)
    reply = page.locator("article.reply").last
    expect(reply).to_be_visible()
    return reply


# The page's line to the server, held by the test: it says what frames come.
LINE = """
  window.EventSource = class extends EventTarget {
    constructor() { super(); window.line = this; }
    close() {}
    say(name, data) { this.dispatchEvent(new MessageEvent(name, { data: JSON.stringify(data) })); }
  };
"""
# Takes the frames of one reply, and gives back the first difference from what is drawn fresh.
FOLLOW = """async ({ reply, steps }) => {
  const { html } = await import(document.querySelector("script[type=module]").src);
  const made = document.createElement("template");
  made.innerHTML = html(`<article class="reply" id="reply-${reply}" aria-busy="true" data-run="a" data-seq="0">`
    + `<div class="segments"></div></article>`);
  document.getElementById("transcript").replaceChildren(made.content);
  document.dispatchEvent(new CustomEvent("nd:follow", { detail: { reply } }));
  for (const { frames, fresh } of steps) {
    for (const [name, data] of frames) line.say(name, data);
    for (const [segment, expected] of Object.entries(fresh)) {
      const shown = document.getElementById(segment).querySelector(".blocks").cloneNode(true);
      for (const button of shown.querySelectorAll(".code > header button")) button.remove();
      for (const formula of shown.querySelectorAll("[data-tex]")) {
        formula.textContent = formula.dataset.tex;
        delete formula.dataset.set;
      }
      made.innerHTML = html(expected);
      if (shown.innerHTML !== made.innerHTML) return { shown: shown.innerHTML, expected: made.innerHTML };
    }
  }
}"""


async def frames_of(texts: list[str], data: Path) -> list[dict[str, Any]]:
    """Each text written in pieces: the frames of each drawing, and the segments as they are drawn fresh then."""
    found = []
    async with desk(data) as here:
        for number, text in enumerate(texts):
            reply, pieces, at, steps = Reply(here), random.Random(number), 0, []
            sitting = await reply.seat()
            while at < len(text):
                size = pieces.choice([1, 3, 7, 40]) * (1 + len(text) // 2_000)
                reply.say(text[at : at + size], size)
                at += size
                if pieces.random() < 0.6:
                    frames = [(event.type, event.data) for event in sitting.catch_up()]
                    steps.append({"frames": frames, "fresh": reply.fresh})
            sitting.seat.leave()
            found.append({"reply": reply.generation.reply, "steps": steps})
    return found


@pytest.mark.browser
def test_after_every_frame_the_page_equals_one_drawn_fresh(page: Page, tmp_path: Path) -> None:
    lines, random_texts = random.Random(7), []
    for _ in range(150):
        pairs = [(lines.choice(LINES), lines.choice([1, 1, 1, 2, 2, 3])) for _ in range(lines.randint(1, 25))]
        random_texts.append("".join(line + "\n" * breaks for line, breaks in pairs))
    texts = [text for text in AWKWARD.values() if len(text) < 20_000] + random_texts
    with ThreadPoolExecutor(1) as elsewhere:  # Playwright has the loop of this thread
        replies = elsewhere.submit(asyncio.run, frames_of(texts, tmp_path / "frames")).result()
    page.add_init_script(LINE)
    page.goto("/")
    for text, reply in zip(texts, replies, strict=True):
        difference = page.evaluate(FOLLOW, reply)
        assert difference is None, (text, difference)


@pytest.mark.browser
def test_a_long_reply_streamed_to_its_end_equals_the_page_drawn_fresh(page: Page) -> None:
    ended(asked(page, "\n\n".join(LONG), QUICKLY))
    followed = drawn(page)
    page.reload()
    assert drawn(page) == followed


@pytest.mark.browser
def test_a_reply_that_comes_at_once_equals_the_page_drawn_fresh(page: Page) -> None:
    ended(asked(page, "\n\n".join(reversed(LONG)), AT_ONCE))
    followed = drawn(page)
    page.reload()
    assert drawn(page) == followed


@pytest.mark.browser
def test_a_reload_in_the_middle_loses_and_doubles_nothing(page: Page) -> None:
    text = "\n\n".join(
        AWKWARD[name] for name in ("deep lists", "tables", "a fence right below a line", "footnotes")
    )
    reply = asked(page, f"{text}\n\n{text}", SLOWLY)
    for _ in range(3):
        expect(reply.locator(".text .blocks > *").nth(2)).to_be_visible()
        page.reload()
        expect(reply).to_be_visible()
    ended(reply)
    followed = drawn(page)
    page.reload()
    assert drawn(page) == followed


@pytest.mark.browser
def test_two_tabs_show_the_same(page: Page) -> None:
    reply = asked(page, "\n\n".join(LONG[:20]), QUICKLY)
    other = page.context.new_page()
    other.goto(page.url)
    ended(reply)
    ended(other.locator("article.reply").last)
    assert drawn(other) == drawn(page)


@pytest.mark.browser
def test_six_windows_at_once_all_see_the_end(page: Page) -> None:
    reply = asked(page, "A paragraph for everybody.\n\n" * 40, SLOWLY)
    windows = [page.context.new_page() for _ in range(5)]
    for window in windows:
        window.goto(page.url)
    ended(reply)
    for window in windows:
        ended(window.locator("article.reply").last)
        assert drawn(window) == drawn(page)


@pytest.mark.browser
def test_what_has_settled_is_not_touched_and_stays_selected(page: Page) -> None:
    text = "The first paragraph is read.\n\n- one\n- two\n- three\n\n" + "And more of it.\n\n" * 30
    reply = asked(page, text, SLOWLY)
    first = reply.locator(".text .blocks > p").first
    expect(reply.locator(".text .blocks > ul > li").nth(1)).to_be_visible()
    first.evaluate(
        """first => {
            first.kept = true;
            getSelection().selectAllChildren(first);
        }"""
    )
    selected = page.evaluate("getSelection().toString()")
    ended(reply)
    assert selected
    assert page.evaluate("getSelection().toString()") == selected
    assert reply.locator(".text .blocks > p").first.evaluate("first => first.kept === true")


@pytest.mark.browser
def test_a_selection_in_the_open_block_survives_what_is_added_to_it(page: Page) -> None:
    reply = asked(page, "One long paragraph " * 12, SLOWLY)
    open_block = reply.locator(".text .blocks > p")
    expect(open_block).to_contain_text("One long paragraph")
    open_block.evaluate(
        """block => {
            const text = block.lastChild, range = document.createRange();
            range.setStart(text, 0);
            range.setEnd(text, 8);
            getSelection().removeAllRanges();
            getSelection().addRange(range);
        }"""
    )
    selected = page.evaluate("getSelection().toString()")
    ended(reply)
    assert page.evaluate("getSelection().toString()") == selected


@pytest.mark.browser
def test_a_reader_further_up_is_not_moved(page: Page, device: object) -> None:
    page.set_viewport_size({"width": 900, "height": 500})
    reply = asked(page, "A paragraph to scroll past.\n\n" * 60, SLOWLY)
    expect(reply.locator(".text .blocks > p").nth(25)).to_be_attached()
    page.mouse.move(450, 200)
    page.mouse.wheel(0, -600)
    page.wait_for_timeout(300)
    before = page.evaluate("document.scrollingElement.scrollTop")
    ended(reply)
    assert abs(page.evaluate("document.scrollingElement.scrollTop") - before) < 2


@pytest.mark.browser
def test_a_page_without_script_reads_the_same_words(page: Page, device: object) -> None:
    assert callable(device)
    ended(asked(page, AWKWARD["formulas"], AT_ONCE))
    plain: BrowserContext = device(java_script_enabled=False)
    bare = plain.new_page()
    bare.goto(page.url)
    expect(bare.locator("article.reply")).to_contain_text("\\frac{a}{b}")
