"""What a model thinks is told from what it says."""

import itertools
import re

import pytest
from hypothesis import given, strategies as st

from app.providers.reasoning import ReasoningSplitter


def split(*pieces: str) -> tuple[str, str]:
    """Reasoning and text."""
    splitter = ReasoningSplitter()
    said = [part for piece in pieces for part in splitter.feed(piece)] + splitter.close()
    halves = {
        kind: "".join(part.text for part in said if part.kind == kind) for kind in ("reasoning", "text")
    }
    return halves["reasoning"], halves["text"]


@pytest.mark.parametrize("tag", ["<think>", "<thinking>", "<thought>", "<seed:think>", "[THINK]"])
def test_a_block_at_the_start_is_reasoning(tag):
    closing = tag[0] + "/" + tag[1:]
    assert split(f"{tag}\nAdd.\n{closing}\n\n4\n") == ("Add.", "4")


def test_a_tag_may_come_in_pieces():
    assert split("<th", "ink>\nAdd", ".\n</", "think", ">\n\n", "4") == ("Add.", "4")


def test_white_space_before_the_tag_is_dropped():
    assert split("\n\n <think>a</think>b") == ("a", "b")


def test_white_space_inside_both_halves_is_kept():
    assert split("<think>a \n b</think>c\n\n", "d") == ("a \n b", "c\n\nd")


def test_a_block_that_is_not_closed_is_all_reasoning():
    assert split("<think>a <b> </thin") == ("a <b> </thin", "")


def test_another_closing_tag_closes_nothing():
    assert split("<think>a</thinking>b</think>c") == ("a</thinking>b", "c")


@pytest.mark.parametrize(
    "text",
    [
        "Write `<think>` and `</think>`.",
        "a<think>b</think>c",
        "<thinker>a",
        "<b>a</b>",
        "[a](b)",
        "< think>a",
        "\n\n a",
    ],
)
def test_a_tag_elsewhere_is_text(text):
    assert split(text) == ("", text)
    assert split(*text) == ("", text)


def test_what_was_held_back_comes_at_the_end():
    assert split("<thin") == ("", "<thin")
    assert split(" \n") == ("", " \n")


def test_an_empty_block_leaves_the_text_alone():
    assert split("<think>\n\n</think>\n\nHello <think>") == ("", "Hello <think>")


def test_a_closing_tag_alone_at_the_start_is_dropped():
    assert split("</think>\n\nHello") == ("", "Hello")


def test_white_space_is_not_held_back_for_ever():
    splitter = ReasoningSplitter()
    said = [part for _ in range(200) for part in splitter.feed("\n" * 10)]
    assert "".join(part.text for part in said) == "\n" * 2000
    assert split("\n" * 2000 + "<think>a") == ("", "\n" * 2000 + "<think>a")


def test_ordinary_text_is_given_out_at_once():
    splitter = ReasoningSplitter()
    assert [part.text for part in splitter.feed("H")] == ["H"]
    assert splitter.plain


HARMONY = "<|channel|>analysis<|message|>Add.<|end|><|start|>assistant<|channel|>final<|message|>4<|return|>"


def test_the_channels_of_gpt_oss_are_told_apart():
    assert split(HARMONY) == ("Add.", "4")
    assert split(*HARMONY) == ("Add.", "4")


def test_a_channel_that_is_not_named_analysis_is_text():
    assert split("<|start|>assistant<|message|>4") == ("", "4")
    assert split("<|channel|>commentary to=f <|constrain|>json<|message|>{}<|call|>") == ("", "{}")


def test_a_channel_marker_without_a_message_is_text():
    long = "<|channel|> is how gpt-oss begins " + "a header " * 40
    assert split("<|channel|> is a marker") == ("", "<|channel|> is a marker")
    assert split(long) == ("", long)


def test_text_after_the_last_channel_is_text():
    assert split("<|channel|>analysis<|message|>Add.<|end|>4 <|end|>") == ("Add.", "4 <|end|>")


PIECES = st.lists(
    st.sampled_from(
        [
            "<think>",
            "</think>",
            "<thinking>",
            "</thinking>",
            "<",
            ">",
            "</",
            "think",
            " ",
            "\n",
            "a",
            "[THINK]",
            "<|channel|>",
            "analysis",
            "final",
            "<|message|>",
            "<|end|>",
            "<|start|>",
            "assistant",
            "<|",
            "b" * 90,
        ]
    ),
    max_size=14,
)


@given(PIECES, st.data())
def test_any_cuts_give_the_same_halves(pieces, data):
    whole = "".join(pieces)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    edges = [0, *cuts, len(whole)]
    parts = [whole[start:end] for start, end in itertools.pairwise(edges)]
    assert split(*parts) == split(whole)
    assert split(*whole) == split(whole)


@given(PIECES)
def test_nothing_but_tags_headers_and_white_space_is_ever_lost(pieces):
    whole = "".join(pieces)
    reasoning, text = split(whole)
    # What stands between the marks of gpt-oss is a header: who speaks, to whom, in which form.
    outside = re.sub(r"<\|(?:start|channel)\|>.{0,200}?<\|message\|>", "", whole, flags=re.DOTALL)
    assert (reasoning + text).count("b") >= outside.count("b" * 90) * 90
