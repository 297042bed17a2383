"""Lines, fields and events from raw bytes."""

import itertools

import pytest
from hypothesis import given, strategies as st

from app.providers.sse import Event, EventReader, EventTooLong


def events(*pieces: bytes) -> list[Event]:
    reader = EventReader()
    return [event for piece in pieces for event in reader.feed(piece)] + reader.close()


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_lines_end_in_each_of_the_three_ways(end):
    body = end.join([b"event: x", b"data: a", b"data: b", b"", b": ping", b"data: c", b"", b""])
    assert events(body) == [Event("x", "a\nb"), Event("", "c")]
    assert events(*(body[at : at + 1] for at in range(len(body)))) == events(body)


def test_an_event_is_given_out_as_soon_as_its_blank_line_is_there():
    reader = EventReader()
    assert reader.feed(b"data: a\r\n") == []
    assert reader.feed(b"\r") == [Event("", "a")]
    assert reader.feed(b"\ndata: b\r\n\r\n") == [Event("", "b")]


def test_other_line_separators_of_unicode_are_text():
    assert events("data: a\u2028b\u2029c\u0085d\x0be\x0cf\x1cg\n\n".encode()) == [
        Event("", "a\u2028b\u2029c\u0085d\x0be\x0cf\x1cg")
    ]


def test_one_blank_after_the_colon_is_dropped_and_no_more():
    assert events(b"data:a\n\ndata: b\n\ndata:  c\n\n") == [Event("", "a"), Event("", "b"), Event("", " c")]


def test_comments_ids_and_retry_times_are_nothing():
    assert events(b":\n: x\nretry: 3\nid: 1\n\n:\ndata: a\n:\n\n") == [Event("", "a")]


def test_an_event_without_data_is_none():
    assert events(b"event: ping\n\ndata: a\n\n") == [Event("", "a")]


def test_a_byte_order_mark_at_the_start_is_dropped():
    body = b"\xef\xbb\xbfdata: a\n\n"
    assert events(body) == [Event("", "a")]
    assert events(body[:2], body[2:]) == [Event("", "a")]


def test_what_is_open_at_the_end_counts():
    assert events(b"event: x\ndata: a") == [Event("x", "a")]


@pytest.mark.parametrize("rest", [b"d", b"data", b"ev", b"event", b":"])
def test_half_a_field_name_at_the_end_is_nothing(rest):
    assert events(b"data: a\n\n" + rest) == [Event("", "a")]


def test_a_field_named_error_is_an_event():
    assert events(b"data: a\nerror: {}\n\n") == [Event("", "a"), Event("error", "{}")]


def test_lines_of_no_field_are_given_out_as_foreign():
    assert events(b"<html>\ndata: a\n\n<p>") == [Event(None, "<html>"), Event("", "a"), Event(None, "<p>")]


def test_events_without_a_blank_line_between_are_told_apart():
    assert events(b'data: {"a":1}\ndata: {"b":2}\ndata: [DONE]\n\n') == [
        Event("", '{"a":1}'),
        Event("", '{"b":2}'),
        Event("", "[DONE]"),
    ]


def test_json_over_several_data_lines_stays_one_event():
    assert events(b'data: {"a":\ndata: {}\ndata: }\n\n') == [Event("", '{"a":\n{}\n}')]


def test_broken_utf8_becomes_a_replacement_character():
    assert events(b"data: a\xffb\xe5\xa4\n\n") == [Event("", "a\ufffdb\ufffd")]


def test_a_line_may_be_long_but_not_endless():
    reader = EventReader(limit=1000)
    assert reader.feed(b"data: " + b"x" * 900 + b"\n\n")
    reader.feed(b"data: " + b"x" * 900)
    with pytest.raises(EventTooLong):
        reader.feed(b"x" * 200)


def test_an_event_of_many_lines_is_not_endless_either():
    reader = EventReader(limit=1000)
    for _ in range(100):
        reader.feed(b"data: 123456789\n")
    with pytest.raises(EventTooLong):
        reader.feed(b"data: 123456789012\n" * 10)


FRAGMENTS = st.sampled_from(
    [
        b"data: ",
        b"data:",
        b"event: e",
        b"error: ",
        b": c",
        b"\n",
        b"\r\n",
        b"\r",
        b"\n\n",
        b"\xef\xbb\xbf",
        b"{",
        b"}",
        b"[DONE]",
        b"x",
        "é".encode(),
        "🌍".encode(),
        b"\xff",
        "\u2028".encode(),
        b" ",
    ]
)


@given(st.lists(FRAGMENTS, max_size=30), st.lists(st.integers(0, 80), max_size=8))
def test_any_cuts_give_the_same_events(fragments, cuts):
    body = b"".join(fragments)
    edges = sorted({0, len(body), *(min(at, len(body)) for at in cuts)})
    pieces = [body[start:end] for start, end in itertools.pairwise(edges)]
    whole = events(body)
    assert events(*pieces) == whole
    assert events(*(body[at : at + 1] for at in range(len(body)))) == whole


@given(st.lists(FRAGMENTS, max_size=30))
def test_the_three_line_ends_mean_the_same(fragments):
    body = b"".join(fragments).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    assert events(body.replace(b"\n", b"\r\n")) == events(body)
    assert events(body.replace(b"\n", b"\r")) == events(body)
