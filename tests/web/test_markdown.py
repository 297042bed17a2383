"""What markdown becomes: safe whatever it holds, and as people expect it."""

import re
from html.parser import HTMLParser

import nh3
import pytest
from hypothesis import given, strategies as st

from app.web.blocks import _gate
from app.web.markdown import remember, render
from app.web.splitter import Splitter
from tests.support.documents import AWKWARD
from tests.support.payloads import PAYLOADS

ADDRESSES = {"href", "src", "srcset", "action", "poster", "data", "background", "xlink:href", "formaction"}
ALLOWED_ADDRESS = re.compile(r"(?:https?:|mailto:|#note-|#ref-)", re.IGNORECASE)
ALLOWED_TAGS = {
    "p",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "ul",
    "ol",
    "li",
    "blockquote",
    "hr",
    "br",
    "strong",
    "em",
    "s",
}
ALLOWED_TAGS |= {
    "code",
    "pre",
    "a",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "div",
    "span",
    "header",
    "input",
}
ALLOWED_TAGS |= {"sup"}


class Inspector(HTMLParser):
    """Reads HTML as a browser would, and complains about whatever could act."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ALLOWED_TAGS, tag
        for name, value in attrs:
            assert not name.startswith("on"), (tag, name)
            assert name != "style"
            if name in ADDRESSES:
                assert name == "href", (tag, name)
                assert ALLOWED_ADDRESS.match(value or ""), value


def assert_harmless(html: str) -> None:
    inspector = Inspector()
    inspector.feed(html)
    inspector.close()


@pytest.mark.parametrize("text", [*AWKWARD.values(), *PAYLOADS])
def test_nothing_that_a_model_writes_becomes_live(text: str) -> None:
    assert_harmless(render(text))


@pytest.mark.parametrize("text", PAYLOADS)
def test_nothing_becomes_live_while_it_is_written(text: str) -> None:
    splitter = Splitter()
    for character in text:
        splitter.feed(character)
        assert_harmless(splitter.html())


@given(st.text(alphabet="<>&\"'`*_[]()!$\\/:=#-|~ \n\tabjsx", max_size=80))
def test_the_gate_finds_nothing_left_to_remove(text: str) -> None:
    html = str(render(text))
    assert_harmless(html)
    if "footnote" not in html:
        assert _gate.clean(html) == html


def test_the_gate_is_no_ornament() -> None:
    assert nh3.is_html(_gate.clean("<p>x</p>"))
    assert _gate.clean('<p onclick="x">a<script>b</script><img src="https://evil.test/x"></p>') == "<p>a</p>"
    assert _gate.clean('<a href="javascript:x">a</a><a href="//evil">b</a>').count("href") == 0
    assert _gate.clean('<span class="line toast">x</span>') == '<span class="line">x</span>'


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("**b** *i* ~~s~~ `c`", '<p dir="auto"><strong>b</strong> <em>i</em> <s>s</s> <code>c</code></p>'),
        ("# One\n\n### Three", '<h2 dir="auto">One</h2><h3 dir="auto">Three</h3>'),
        ("a\nb", '<p dir="auto">a<br>b</p>'),
        (
            "- [x] d",
            '<ul dir="auto"><li class="task"><p><input type="checkbox" disabled="" checked=""> d</p></li></ul>',
        ),
        ("3. c", '<ol start="3" dir="auto"><li><p>c</p></li></ol>'),
        ("- a\n\n- b", '<ul dir="auto" class="loose"><li><p>a</p></li><li><p>b</p></li></ul>'),
        ("> q", '<blockquote dir="auto"><p>q</p></blockquote>'),
        ("<b>x</b> & y", '<p dir="auto">&lt;b&gt;x&lt;/b&gt; &amp; y</p>'),
    ],
)
def test_the_usual(text: str, html: str) -> None:
    assert render(text) == html


def test_a_table_scrolls_within_itself_and_aligns_by_class() -> None:
    html = render("| a | b |\n|---|--:|\n| 1 | 2 |")
    assert html.startswith(
        '<div class="scroll-x" tabindex="0" role="region" aria-label="Table" dir="auto"><table>'
    )
    assert '<th scope="col" class="num">b</th>' in html
    assert '<td class="num">2</td>' in html


def test_code_has_its_label_and_few_colours() -> None:
    html = render("```python title\ndef f():\n    return 'x' < 1\n```")
    assert html == (
        '<div class="code"><header><span>python</span></header><pre tabindex="0"><code><span class="k">def </span>'
        '<span class="nf">f</span>():\n    <span class="k">return </span><span class="s">\'x\' </span>&lt; '
        '<span class="m">1</span>\n</code></pre></div>'
    )


@pytest.mark.parametrize("info", ["nosuchlanguage", "", '"><script>', "py" * 400, "mermaid"])
def test_code_of_an_unknown_language_is_shown_without_colours(info: str) -> None:
    html = render(f"```{info}\na < b\n```")
    assert "a &lt; b\n</code>" in html
    assert "<script" not in html


def test_a_link_opens_safely() -> None:
    html = render("[a](https://a.example 'T') <https://b.example> https://c.example")
    assert html.count('target="_blank" rel="noopener noreferrer nofollow"') == 3
    assert 'title="T"' in html


@pytest.mark.parametrize(
    "target",
    [
        "javascript:alert(1)",
        "data:text/html,x",
        "vbscript:x",
        "file:///x",
        "//evil.test",
        "/settings",
        "x.md",
    ],
)
def test_a_link_to_anywhere_else_is_none(target: str) -> None:
    assert "href" not in render(f"[a]({target}) ![b]({target})")


def test_an_image_is_a_link_that_says_where_it_leads() -> None:
    address = "https://evil.test/a/b/cat.png?q=secret"
    html = render(f"![The *cat*]({address})")
    assert "<img" not in html
    assert f'class="held" href="{address}" title="{address}"' in html
    assert '<span>The cat</span> <span class="url">evil.test/…/cat.png</span>' in html


def test_an_image_in_a_link_is_no_link_of_its_own() -> None:
    html = render("[![a](https://evil.test/x.png)](https://ok.example)")
    assert html.count("<a ") == 1
    assert '<span class="held">' in html


@pytest.mark.parametrize(
    ("text", "formulas"),
    [
        ("$x$ and $y_1 + 2$", ["x", "y_1 + 2"]),
        ("\\(a\\) and \\[b = c\\]", ["a", "b = c"]),
        ("inline $$E = mc^2$$ here", ["E = mc^2"]),
        ("$$\nx\ny\n$$", ["x\ny"]),
        ("\\[\n\\sum_i i\n\\]", ["\\sum_i i"]),
        ("$10^6$ and $5 = x$", ["10^6", "5 = x"]),
        ("It is $5 to $10, $1,000/month or 50$.", []),
        ("US$3 and $4.50 and A$5", []),
        ("$ x$ and $y $ and $z$1", []),
        ("`$x$` and \\$y\\$", []),
        ("An \\[optional\\] word", []),
        ("$$\nx\n\ny\n$$", []),
        ("| a $x$ | b |\n|---|---|\n| $y$ | 1 |", ["x", "y"]),
    ],
)
def test_formulas_are_told_from_prices(text: str, formulas: list[str]) -> None:
    found = re.findall(r'data-tex="([^"]*)"', render(text))
    assert found == formulas


def test_a_formula_reads_as_its_source_without_script() -> None:
    assert render("$a<b$") == '<p dir="auto"><span class="math" data-tex="a&lt;b">a&lt;b</span></p>'
    assert render("$$\na\n$$") == '<div class="math display" data-tex="a">a</div>'


def test_footnotes_point_to_and_fro() -> None:
    html = render("Text[^a] and[^a].\n\n[^a]: The note.")
    mark = re.search(r'href="#note-(\w+)-1"', html)
    assert mark
    assert html.count(f'href="#note-{mark[1]}-1"') == 2
    assert html.count(f'id="ref-{mark[1]}-1"') == 1
    assert f'id="note-{mark[1]}-1"' in html
    assert f'href="#ref-{mark[1]}-1"' in html


def test_the_footnotes_of_two_texts_do_not_meet() -> None:
    one, two = render("a[^1]\n\n[^1]: x"), render("b[^1]\n\n[^1]: x")
    ids = re.findall(r'id="([^"]+)"', one + two)
    assert len(ids) == len(set(ids))


def test_addresses_become_links_once_they_are_settled() -> None:
    splitter = Splitter()
    splitter.feed("See https://a.example/x")
    assert "href" not in splitter.html()
    splitter.feed(" now\n\nend\n")
    assert 'href="https://a.example/x"' in splitter.html()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("This is **bo", "<p>This is <strong>bo</strong></p>"),
        ("This is **", "<p>This is</p>"),
        ("a `co", "<p>a <code>co</code></p>"),
        ("Intro:\n-", "<p>Intro:</p>"),
        ("see [the doc](https://exa", "<p>see the doc</p>"),
        ("![pic](https://evil.test/x", "<p>pic</p>"),
        ("2 * 3 and *it", "<p>2 * 3 and <em>it</em></p>"),
        ("snake_case_na", "<p>snake_case_na</p>"),
        ("[a]: https://x.exa", ""),
        ("$$\nx = 1", '<div class="math display" data-tex="x = 1">x = 1</div>'),
    ],
)
def test_half_a_mark_shows_as_what_it_will_be(text: str, shown: str) -> None:
    splitter = Splitter()
    splitter.feed(text)
    assert splitter.tail().replace(' dir="auto"', "") == shown


@pytest.mark.parametrize("text", ["| a | b", "| a | b |\n", "| a | b |\n|-", "| a | b |\n|---|--"])
def test_a_table_is_one_from_its_head_on(text: str) -> None:
    splitter = Splitter()
    splitter.feed(text)
    assert '<th scope="col">b</th>' in splitter.tail()


def test_a_text_is_drawn_once() -> None:
    text = "drawn *once* only"
    remember(text, "<p>kept</p>")
    assert render(text) == "<p>kept</p>"
