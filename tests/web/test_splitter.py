"""Markdown in pieces: however it comes, it settles the same, and what is followed is what is drawn fresh."""

import cProfile
import random
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given, strategies as st

from app.web.blocks import draw
from app.web.markdown import render
from app.web.splitter import JOINS, LIMIT, Added, Redrawn, Splitter
from tests.support.documents import AWKWARD, LINES

documents = st.lists(st.tuples(st.sampled_from(LINES), st.integers(1, 3)), max_size=16).map(
    lambda pairs: "".join(line + "\n" * breaks for line, breaks in pairs)
)


def streamed(text: str, sizes: random.Random) -> str:
    """`text` fed in pieces of random sizes, its open block looked at now and then."""
    splitter, at = Splitter(), 0
    while at < len(text):
        size = sizes.randint(1, 9)
        splitter.feed(text[at : at + size])
        at += size
        if sizes.random() < 0.2:
            splitter.tail()
            splitter.html()
    splitter.end()
    return splitter.html()


def whole(text: str) -> str:
    """`text` drawn in one go, without a splitter."""
    return "".join(block.html for block in draw(text, {}))


@pytest.mark.parametrize("text", AWKWARD.values(), ids=AWKWARD.keys())
@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_an_awkward_document_streamed_equals_the_one_drawn_fresh(text: str, size: int) -> None:
    splitter = Splitter()
    for at in range(0, len(text), size):
        splitter.feed(text[at : at + size])
    splitter.end()
    assert splitter.html() == render(text)


@given(documents, st.randoms(use_true_random=False))
def test_any_document_in_any_pieces_equals_the_one_drawn_fresh(text: str, sizes: random.Random) -> None:
    assert streamed(text, sizes) == render(text)


@given(documents)
def test_cutting_changes_nothing_of_what_markdown_means(text: str) -> None:
    # Footnotes are numbered at the end, which drawing in one go does not do; and whether a list without a paragraph is
    # loose cannot be seen.
    text = text.replace("[^1]", "[1]")
    loose = ' class="loose"'
    assert render(text).replace(loose, "") == whole(text).replace(loose, "")


@given(documents, st.randoms(use_true_random=False))
def test_half_way_a_page_drawn_fresh_equals_one_that_was_followed(text: str, sizes: random.Random) -> None:
    half = text[: sizes.randint(0, len(text))]
    followed, fresh = Splitter(), Splitter()
    for character in half:
        followed.feed(character)
    fresh.feed(half)
    assert followed.html() == fresh.html()
    assert followed.tail() == fresh.tail()


def test_what_has_settled_is_never_taken_back() -> None:
    text = AWKWARD["deep lists"] + "\n\n" + AWKWARD["tables"] + "\n\n" + AWKWARD["a fence right below a line"]
    splitter, before = Splitter(), [""]
    for character in text:
        splitter.feed(character)
        settled = "".join(f"{block.opening}{''.join(block.parts)}" for block in splitter.blocks)
        assert settled.startswith(before[0])
        before = ["".join(f"{block.opening}{''.join(block.parts)}" for block in splitter.blocks)]


def test_a_paragraph_settles_when_the_next_one_begins() -> None:
    splitter = Splitter()
    assert splitter.feed("one\n\n") == []
    assert splitter.feed("two") == []
    (added,) = splitter.feed("\n")
    assert added == Added('<p dir="auto">one</p>', 1, None, False)


def test_an_item_settles_when_the_next_one_begins() -> None:
    splitter = Splitter()
    splitter.feed("- one\n- two")
    (first,) = splitter.feed("\n")
    assert first == Added('<ul dir="auto"><li><p>one</p></li></ul>', 1, 1, False)
    assert splitter.tail() == f"{JOINS[0]}<li><p>two</p></li>{JOINS[1]}"
    (second,) = splitter.feed("\n- three\n")
    assert second == Added(f"{JOINS[0]}<li><p>two</p></li>{JOINS[1]}", 1, 2, True)
    assert splitter.html().count("<li>") == 3


def test_code_settles_with_its_closing_fence() -> None:
    splitter = Splitter()
    splitter.feed("Look:\n```py\nx = 1\n")
    assert len(splitter.blocks) == 1
    (added,) = splitter.feed("```\n")
    assert isinstance(added, Added)
    assert added.html.startswith('<div class="code">')


def test_a_late_definition_draws_again_what_uses_its_label() -> None:
    splitter = Splitter()
    splitter.feed("See [here].\n\nNothing.\n\n")
    changes = splitter.feed("[here]: https://a.example\n\nend\n")
    redrawn = [change for change in changes if isinstance(change, Redrawn)]
    assert [change.block for change in redrawn] == [0]
    assert 'href="https://a.example"' in redrawn[0].html


def test_late_definitions_without_end_are_drawn_again_only_so_often() -> None:
    labels = [f"l{number}" for number in range(60)]
    uses = " ".join(f"[{label}]" for label in labels)
    definitions = "".join(f"[{label}]: https://a.example/{label}\n\nx\n\n" for label in labels)
    splitter = Splitter()
    changes = splitter.feed(f"{uses}\n\n{definitions}")
    assert sum(isinstance(change, Redrawn) for change in changes) <= 5
    splitter.end()
    assert splitter.html().count('href="https://a.example/') == len(labels)


def test_footnotes_are_numbered_at_the_end_in_the_order_of_use() -> None:
    splitter = Splitter()
    splitter.feed("[^b]: Second.\n\nFirst[^a], second[^b].\n\n[^a]: First.\n\n")
    assert "[^a]" in splitter.html()
    splitter.end()
    html = splitter.html()
    assert html.index(">1</a></sup>") < html.index(">2</a></sup>")
    assert html.index('role="note" id="note-') < html.index("First")


def test_a_block_that_is_too_long_is_plain_text_and_ends_at_a_blank_line() -> None:
    html = render("*word* " * (LIMIT // 6) + "\n\nback to **normal**")
    assert html.startswith('<p class="plain" dir="auto"><span class="line">*word* *word*')
    assert html.endswith('<p dir="auto">back to <strong>normal</strong></p>')


def test_long_code_keeps_its_colours_line_by_line() -> None:
    splitter = Splitter()
    line = "x = 'text'  # why\n"
    splitter.feed("```python\n" + line * (LIMIT // len(line) + 20))
    assert splitter.grows
    assert splitter.blocks[-1].parts[-1].startswith('<span class="line">x = <span class="s">')
    assert splitter.tail() == ""


def test_a_long_stream_costs_no_more_per_token_than_a_short_one() -> None:
    paragraph = (
        "For *photos* that `rarely` change, both work: see [this](https://x.example) for **more** of it.\n\n"
    )
    listing = "".join(f"{number}. item with **bold** text\n" for number in range(1, 40)) + "\n"
    code = "```python\n" + "def f(x):\n    return x + 1\n\n" * 10 + "```\n\n"

    def cost(tokens: int) -> float:
        """Calls of functions for each token: seconds would measure how busy the machine is."""
        text, splitter, profile = "", Splitter(), cProfile.Profile()
        while len(text) < tokens * 4:
            text += paragraph * 5 + listing + code
        profile.enable()
        for number, at in enumerate(range(0, tokens * 4, 4)):
            splitter.feed(text[at : at + 4])
            if number % 8 == 0:
                splitter.tail()
        profile.disable()
        return sum(entry.callcount for entry in profile.getstats()) / tokens

    assert cost(20_000) <= 1.1 * cost(2_000)


@pytest.mark.parametrize(
    "sign",
    [
        *["![", "[", "]", "*a_", "[a](", "![a](<", "`a", "<", "&#", "\\", "$a", "http://", "<http://", "|a"],
        *("**a ", "> ", "- ", "| a |\n", "# \n", "a\n=\n", "[a]: b\n", "  - x\n"),
    ],
)
def test_a_render_bomb_never_holds_up_the_others(sign: str) -> None:
    text = sign * (40_000 // len(sign))
    splitter = Splitter()

    def step(piece: str) -> None:
        splitter.feed(piece)
        splitter.tail()

    steps = [calls_of(partial(step, text[at : at + 2_000])) for at in range(0, len(text), 2_000)]
    assert max(*steps, calls_of(splitter.end)) < 300_000


def calls_of(work: Callable[[], object]) -> int:
    """How many functions `work` calls: what it costs, however busy the machine is."""
    profile = cProfile.Profile()
    profile.runcall(work)
    return sum(entry.callcount for entry in profile.getstats())
