"""Tool calls are put together, whatever is missing in their fragments."""

import json

import pytest
from hypothesis import given, strategies as st

from app.providers.calls import CallAssembler, new_call_id

PARIS = '{"city":"Paris"}'


def fragment(*, name=None, arguments=None, **rest):
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    return {**rest, "function": function}


def assembled(*deltas, taken=()):
    """Id, name and arguments of the calls in `deltas`, each a list of fragments."""
    ids = iter(f"made-{number}" for number in range(1, 99))
    calls = CallAssembler(taken, lambda: next(ids))
    for delta in deltas:
        calls.feed(delta)
    return [(call.id, call.name, call.arguments) for call in calls.finish()]


def parsed(arguments):
    calls = CallAssembler()
    calls.feed([fragment(index=0, id="a", name="f", arguments=arguments)])
    (call,) = calls.finish()
    return call.input


def test_fragments_are_joined_by_index():
    assert assembled(
        [
            fragment(index=0, id="a", name="f", arguments=""),
            fragment(index=1, id="b", name="g", arguments=""),
        ],
        [fragment(index=1, arguments='{"x"')],
        [fragment(index=0, arguments="{")],
        [fragment(index=1, arguments=":1}")],
        [fragment(index=0, arguments="}")],
    ) == [("a", "f", "{}"), ("b", "g", '{"x":1}')]


def test_an_index_is_a_key_and_no_position():
    assert assembled([fragment(index=7, id="a", name="f", arguments="{}")]) == [("a", "f", "{}")]


def test_without_an_index_fragments_are_joined_by_id():
    assert assembled(
        [fragment(id="a", name="f", arguments="{")],
        [fragment(id="b", name="g", arguments="{")],
        [fragment(id="a", arguments="}")],
        [fragment(id="b", arguments="}")],
    ) == [("a", "f", "{}"), ("b", "g", "{}")]


def test_without_index_and_id_the_last_call_goes_on():
    assert assembled(
        [fragment(id="a", name="f", arguments="")],
        [fragment(arguments='{"city":')],
        [fragment(arguments='"Paris"}')],
        [{"extra_content": {"google": {"thought_signature": "c2ln"}}}],
    ) == [("a", "f", PARIS)]


def test_two_calls_without_index_in_one_delta_are_two():
    fragments = [fragment(id="a", name="f", arguments=PARIS), fragment(id="b", name="g", arguments="{}")]
    assert assembled(fragments) == [("a", "f", PARIS), ("b", "g", "{}")]


def test_two_calls_without_index_and_id_in_one_delta_are_two():
    assert assembled([fragment(name="f", arguments=""), fragment(name="f", arguments="")]) == [
        ("made-1", "f", ""),
        ("made-2", "f", ""),
    ]


def test_a_null_index_is_none():
    assert assembled(
        [fragment(index=None, id="a", name="f", arguments="")], [fragment(index=None, arguments=PARIS)]
    ) == [("a", "f", PARIS)]


@pytest.mark.parametrize("at_once", [True, False])
def test_every_call_may_carry_index_0(at_once):
    fragments = [fragment(index=0, id=id, name="f", arguments=PARIS) for id in "abc"]
    deltas = [fragments] if at_once else [[one] for one in fragments]
    assert assembled(*deltas) == [(id, "f", PARIS) for id in "abc"]


def test_a_fragment_finds_its_call_behind_a_reused_index():
    assert assembled(
        [
            fragment(index=0, id="a", name="f", arguments="{"),
            fragment(index=0, id="b", name="g", arguments="{"),
        ],
        [fragment(index=0, id="a", arguments="}")],
        [fragment(index=0, id="b", arguments="}")],
    ) == [("a", "f", "{}"), ("b", "g", "{}")]


def test_an_id_that_changes_without_a_name_is_the_same_call():
    assert assembled(
        [fragment(index=0, id="a", name="f", arguments="{")], [fragment(index=0, id="b", arguments="}")]
    ) == [("a", "f", "{}")]


@pytest.mark.parametrize("empty", ["", None])
def test_continuations_may_hold_empty_ids_and_names(empty):
    assert assembled(
        [fragment(index=0, id="a", name="f", arguments="{")],
        [{"index": 0, "id": empty, "type": empty, "function": {"name": empty, "arguments": "}"}}],
    ) == [("a", "f", "{}")]


def test_a_name_that_is_repeated_is_taken_once():
    first = fragment(index=0, id="a", name="f", arguments="")
    assert assembled([first], [{**first, "function": {"name": "f", "arguments": "{}"}}]) == [("a", "f", "{}")]
    assert assembled([first], [fragment(index=0, name="f", arguments="{}")]) == [("a", "f", "{}")]


def test_a_name_may_come_in_pieces():
    assert assembled(
        [fragment(index=0, id="a", name="get_")],
        [fragment(index=0, name="time")],
        [fragment(index=0, arguments="{}")],
    ) == [("a", "get_time", "{}")]


def test_a_second_call_without_ids_begins_where_the_first_is_whole():
    assert assembled(
        [fragment(index=0, name="f", arguments=PARIS)],
        [fragment(index=0, name="f", arguments='{"city":"Rome"}')],
    ) == [("made-1", "f", PARIS), ("made-2", "f", '{"city":"Rome"}')]


def test_a_call_without_id_gets_one():
    assert assembled([fragment(index=0, name="f", arguments="{}")]) == [("made-1", "f", "{}")]


def test_an_id_is_used_once_in_a_conversation():
    """Servers that begin again at call_0 in every answer would have their results paired wrongly."""
    deltas = [[fragment(index=0, id="call_0", name="f")], [fragment(index=1, id="call_0", name="g")]]
    assert assembled(*deltas) == [("call_0", "f", ""), ("made-1", "g", "")]
    assert assembled(*deltas, taken={"call_0"}) == [("made-1", "f", ""), ("made-2", "g", "")]


def test_numbers_serve_as_ids_and_text_as_index():
    assert assembled(
        [fragment(index="0", id=17, name="f", arguments="{")], [fragment(index="0", id=17, arguments="}")]
    ) == [("17", "f", "{}")]


def test_an_index_that_wanders_is_followed_by_id():
    assert assembled(
        [fragment(index=0, id="a", name="f", arguments="{")], [fragment(index=1, id="a", arguments="}")]
    ) == [("a", "f", "{}")]


def test_a_call_without_its_wrapping_is_one():
    assert assembled([{"index": 0, "id": "a", "name": "f", "arguments": "{}"}]) == [("a", "f", "{}")]


def test_a_leaked_channel_marker_is_cut_off_the_name():
    assert assembled([fragment(id="a", name="f<|channel|>commentary", arguments="{}")]) == [("a", "f", "{}")]


@pytest.mark.parametrize(
    "rubbish", [None, "x", {}, [], [None], ["x"], [[]], [{}], [{"index": 0}], [{"function": 3}]]
)
def test_what_is_no_fragment_is_no_call(rubbish):
    calls = CallAssembler()
    calls.feed(rubbish)
    assert not calls


def test_the_function_call_of_2023_is_one_call():
    calls = CallAssembler(new_id=lambda: "made")
    for function in ({"name": "f", "arguments": ""}, {"arguments": '{"city":'}, {"arguments": '"Paris"}'}):
        calls.feed_function(function)
    (call,) = calls.finish()
    assert (call.name, call.arguments) == ("f", PARIS)


@pytest.mark.parametrize("nothing", ["", None, "null", " ", " null\n"])
def test_no_arguments_are_an_empty_object(nothing):
    assert parsed(nothing) == {}


def test_arguments_may_come_as_an_object():
    assert parsed({"city": "Paris"}) == {"city": "Paris"}
    assert assembled([fragment(id="a", name="f", arguments={"city": "Köln"})]) == [
        ("a", "f", '{"city": "Köln"}')
    ]


def test_an_object_inside_a_string_is_unwrapped_once():
    assert parsed(json.dumps(PARIS)) == {"city": "Paris"}
    assert parsed(json.dumps(json.dumps(PARIS))) is None


@pytest.mark.parametrize(
    "broken", ["file_path=foo", '{"path":"a.txt","content":"lor', "[1]", "3", '"x"', "[" * 100_000]
)
def test_what_is_no_object_stays_as_it_came(broken):
    assert parsed(broken) is None
    assert assembled([fragment(id="a", name="f", arguments=broken)]) == [("a", "f", broken)]


def test_argument_text_stays_byte_for_byte():
    odd = '{ "b" : 1,\t"a":  2.50, "é":"\\u00e9" }\n'
    assert assembled([fragment(id="a", name="f", arguments=odd)]) == [("a", "f", odd)]


def test_what_cannot_be_stored_is_replaced_in_both_forms():
    calls = CallAssembler()
    calls.feed([fragment(id="a", name="f", arguments='{"x":"\\ud83d","y":["\\u0000"],"z":"\ud83d')])
    calls.feed([fragment(id="a", arguments='\ude00\ud83d"}')])
    (call,) = calls.finish()
    assert call.input == {"x": "\ufffd", "y": ["\ufffd"], "z": "😀\ufffd"}
    assert "😀\ufffd" in call.arguments


def test_made_up_ids_have_the_shape_that_everybody_takes():
    ids = {new_call_id() for _ in range(100)}
    assert len(ids) == 100
    assert all(len(id) == 9 and id.isalnum() and id.isascii() for id in ids)


STORABLE = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
CALLS = st.lists(
    st.tuples(st.sampled_from(["f", "get_weather", "g"]), st.dictionaries(STORABLE, STORABLE, max_size=3)),
    min_size=1,
    max_size=4,
)
STYLES = st.sampled_from(["all", "no index", "no id", "name repeated", "null rest", "index 0", "from 1"])


@given(CALLS, STYLES, st.data())
def test_however_calls_are_written_they_come_out_the_same(calls, style, data):
    fragments = []
    for number, (name, arguments) in enumerate(calls):
        text = json.dumps(arguments, ensure_ascii=data.draw(st.booleans()))
        cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=4)))
        pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        for place, piece in enumerate(pieces):
            fragments.append(written(style, number, name, piece, first=place == 0))
    calls_seen = CallAssembler()
    for one in fragments:
        calls_seen.feed([one])
    assert [(call.name, call.input) for call in calls_seen.finish()] == calls


def written(style, number, name, piece, *, first):
    """A fragment in the manner of one kind of server."""
    index = {"no index": None, "index 0": 0, "from 1": number + 1}.get(style, number)
    id = None if style == "no id" else f"call-{number}"
    whole = first or style in ("name repeated", "index 0")
    function = {"name": name if first or style == "name repeated" else None, "arguments": piece}
    made = {
        "index": index,
        "id": id if whole or style == "no index" else None,
        "type": "function",
        "function": function,
    }
    return made if style == "null rest" else {key: value for key, value in made.items() if value is not None}


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "[-1e999]"])
def test_numbers_that_are_no_json_are_no_arguments(number):
    """Python reads them and would write them out again, to browsers that cannot."""
    assert parsed(f'{{"x": {number}}}') is None
    assert parsed({"x": json.loads(number)}) is None
    assert parsed('{"x": 1e300}') == {"x": 1e300}
