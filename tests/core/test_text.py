"""Rules about text, ids and phases."""

import pytest
from hypothesis import given, strategies as st

from app.core.ids import is_id, new_id
from app.core.reply import ENDED, LIVE, MOVES
from app.core.text import estimate_tokens, fields_of, fill, is_storable, opening_words, storable, utf16_length


@pytest.mark.parametrize("text", ["a\x00b", "\ud800", "x\udfff"])
def test_nul_and_lone_surrogates_cannot_be_stored(text: str) -> None:
    assert not is_storable(text)
    assert is_storable(storable(text))
    storable(text).encode("utf-8")


@given(st.text())
def test_what_can_be_stored_is_left_alone(text: str) -> None:
    assert not is_storable(text) or storable(text) == text


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Hello", "Hello"),
        ("  two\n lines ", "two lines"),
        ("word " * 30, "word word word word word word word word word…"),
        ("x" * 80, "x" * 47 + "…"),
        ("", ""),
    ],
)
def test_a_title_is_the_opening_words_in_one_line(text: str, title: str) -> None:
    assert opening_words(text) == title


@given(st.text(max_size=300))
def test_a_title_is_short_and_has_no_line_break(text: str) -> None:
    title = opening_words(text)
    assert len(title) <= 49
    assert "\n" not in title


def test_a_template_is_filled_in_one_pass() -> None:
    assert fill("{{ a }} and {{b}}", {"a": "{{ b }}", "b": "2"}) == "{{ b }} and 2"
    assert fields_of("{{ a }} {{b}} { c }") == {"a", "b"}
    with pytest.raises(KeyError):
        fill("{{ missing }}", {})


def test_lengths_count_as_their_readers_count() -> None:
    assert utf16_length("a😀") == 3
    assert estimate_tokens("") == 0
    assert estimate_tokens("four") == 1


def test_ids_are_uuid7_and_sort_by_time() -> None:
    ids = [new_id() for _ in range(50)]
    assert all(is_id(id) for id in ids)
    assert len(set(ids)) == 50
    assert ids[0][:8] <= ids[-1][:8]
    assert not is_id(ids[0].upper())
    assert not is_id("550e8400-e29b-41d4-a716-446655440000")


def test_an_ended_reply_never_moves_again_and_a_live_one_can_always_end() -> None:
    assert set(MOVES) == LIVE | ENDED
    assert not any(MOVES[phase] for phase in ENDED)
    assert all(MOVES[phase] >= ENDED for phase in LIVE)
    assert "accepted" not in MOVES["waiting"]
