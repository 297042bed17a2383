"""Streams of chat completions of every kind; recorded ones are in test_wire.py."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from app.providers.base import Done, ReasoningSeen, TextSeen
from tests.support.wire import DONE, END, END_OF_CALLS, call, chunk, decode, decoder, text

KNOWN = (
    "choices delta message content reasoning_content reasoning_details tool_calls function id index name arguments "
    "finish_reason usage prompt_tokens error code type text base_resp status_code x_groq refusal function_call"
)
NAMES = st.sampled_from(KNOWN.split())
HEL_LO = text("Hel") + text("lo")


def came_to(body: bytes) -> dict[str, Any]:
    """What a stream comes to: whole, byte by byte, and cut in two at every byte."""
    whole = decode(body)
    assert decode(*(body[at : at + 1] for at in range(len(body)))) == whole
    if len(body) < 3000:
        assert all(decode(body[:at], body[at:]) == whole for at in range(len(body)))
    return whole


def result(**wanted: object) -> dict[str, Any]:
    nothing: dict[str, Any] = {
        "text": "",
        "reasoning": "",
        "tool_calls": [],
        "stop_reason": "end_turn",
        "usage": None,
    }
    return {**nothing, **wanted}


# Framing


def test_text_of_one_read_is_one_event():
    assert decoder().feed(text("a") + text("b") + text("c")) == [TextSeen("abc")]


def test_text_and_thoughts_keep_their_order():
    body = (
        chunk({"reasoning_content": "a"})
        + chunk({"reasoning_content": "b"})
        + text("c")
        + chunk({"thinking": "d"})
    )
    assert decoder().feed(body) == [ReasoningSeen("ab"), TextSeen("c"), ReasoningSeen("d")]


def test_comments_do_not_end_an_event():
    assert came_to(HEL_LO + chunk({}, "stop") + b": ping\n: ping\n" + DONE) == result(text="Hello")


@pytest.mark.parametrize("end", [b"\r", b"\r\n"])
def test_lines_may_end_in_carriage_returns(end):
    assert came_to((HEL_LO + END).replace(b"\n", end)) == result(text="Hello")


def test_a_stream_may_begin_with_a_byte_order_mark():
    assert came_to(b"\xef\xbb\xbf" + HEL_LO + END) == result(text="Hello")


def test_an_event_left_open_at_the_end_counts():
    usage = chunk(choices=[], usage={"prompt_tokens": 9, "completion_tokens": 2})
    assert came_to(HEL_LO + chunk({}, "stop") + usage.rstrip(b"\n")) == result(
        text="Hello", usage={"input_tokens": 9, "output_tokens": 2}
    )


def test_events_may_lack_the_blank_line_between():
    assert came_to((HEL_LO + END).replace(b"\n\n", b"\n")) == result(text="Hello")


def test_what_does_not_parse_is_passed_over():
    rubbish = (
        b'data: {"choices":[\n\ndata: hello\n\ndata: 3\n\ndata: null\n\ndata: []\n\ndata: {"choices":3}\n\n'
    )
    odd = b'data: {"choices":[null,3,{"delta":3},{"index":0,"delta":{"content":3,"tool_calls":{}}}]}\n\n'
    assert came_to(text("Hel") + rubbish + odd + text("lo") + END) == result(text="Hello")


def test_json_of_any_depth_is_borne():
    assert decode(b"data: " + b"[" * 200_000 + b"\n\n" + HEL_LO + END) == result(text="Hello")


def test_events_glued_to_one_line_are_told_apart():
    glued = text("Hel").rstrip() + text("lo").rstrip() + b"data: [DONE]\n\n"
    assert came_to(glued) == result(text="Hello")


def test_a_line_cut_in_the_middle_is_dropped():
    assert came_to(HEL_LO + text("more")[:-14]) == result(text="Hello", stop_reason=None)


def test_the_rest_after_the_end_mark_is_not_read():
    assert came_to(HEL_LO + END + text("more") + b'{"error":{"message":"late"}}') == result(text="Hello")


def test_an_endless_event_is_an_error_and_what_came_is_kept():
    reader = decoder()
    assert reader.feed(HEL_LO) == [TextSeen("Hello")]
    for _ in range(17):
        reader.feed(b"x" * 1024 * 1024)
    assert reader.ended
    assert reader.error is not None


# Answers that are no stream


def test_a_completion_comes_whole_with_the_end_mark_glued_to_it():
    message = {"role": "assistant", "content": "Hello", "reasoning_content": "Hm", "tool_calls": None}
    whole = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    wanted = result(text="Hello", reasoning="Hm")
    for tail in (b"", b"\n", b"data: [DONE]", b"[DONE]", b"\n\ndata: [DONE]\n\n"):
        assert came_to(json.dumps(whole).encode() + tail) == wanted
        assert came_to(json.dumps(whole, indent=2).encode() + tail) == wanted
        assert came_to(b"data: " + json.dumps(whole).encode() + b"\n\n" + tail) == wanted


def test_a_whole_completion_with_calls_has_them_all():
    calls = [{"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}} for id in "ab"]
    whole = {"choices": [{"message": {"content": None, "tool_calls": calls}, "finish_reason": "tool_calls"}]}
    two = [{"name": "f", "arguments": {}}] * 2
    assert came_to(json.dumps(whole).encode()) == result(tool_calls=two, stop_reason="tool_use")


def test_chunks_may_come_as_bare_lines():
    bare = (HEL_LO + END).replace(b"data: ", b"").replace(b"\n\n", b"\n")
    assert came_to(bare) == result(text="Hello")


@pytest.mark.parametrize(
    "body", [b"Bad gateway", b"<!doctype html>\n<html>\n<p>data</p></html>", b"upstream: gone\n"]
)
def test_what_is_neither_stream_nor_json_is_an_error(body):
    found = decode(body)
    assert found["stop_reason"] == "error"
    assert found["error"]["type"] == "invalid_stream"


@pytest.mark.parametrize("body", [b"", b"\n\n", b": ping\n\n", b"da", b"data:", b'{"choices":[{"mess'])
def test_nothing_at_all_has_no_stop_reason(body):
    assert came_to(body) == result(stop_reason=None)


def test_a_bare_error_may_follow_text():
    for body in (b'{"error":{"message":"gone"}}', b'{\n "error": {\n  "message": "gone"\n }\n}\n'):
        assert came_to(HEL_LO + body) == result(text="Hello", stop_reason="error", error={"message": "gone"})


# Characters


def test_the_halves_of_a_character_may_come_in_two_deltas():
    body = (
        text("a\ud83d")
        + text("\ude00b")
        + chunk({"reasoning": "\ud83d"})
        + chunk({"reasoning": "\ude00"})
        + END
    )
    assert came_to(body) == result(text="a😀b", reasoning="😀")


@pytest.mark.parametrize("lone", [0xD83D, 0xDE00, 0])
def test_what_cannot_be_stored_becomes_a_replacement_character(lone):
    assert came_to(text("a" + chr(lone)) + text("b" + chr(lone)) + END) == result(text="a\ufffdb\ufffd")


# Chunks


def test_the_key_finish_reason_may_be_absent_until_the_end():
    body = HEL_LO.replace(b', "finish_reason": null', b"").replace(b'"finish_reason": null, ', b"")
    assert b"finish_reason" not in body
    assert came_to(body + chunk({}, "stop") + chunk({}) + DONE) == result(text="Hello")


def test_an_empty_finish_reason_is_none():
    assert came_to(chunk({"content": "Hello"}, "") + DONE) == result(text="Hello")
    assert came_to(chunk({"content": "Hello"}, "")) == result(text="Hello", stop_reason=None)


def test_other_choices_are_left_out():
    other = chunk(choices=[{"index": 1, "delta": {"content": "B"}, "finish_reason": "length"}])
    assert came_to(text("A") + other + chunk({}, "stop") + other + DONE) == result(text="A")


def test_the_old_field_text_is_read_where_there_is_no_delta():
    assert came_to(chunk(choices=[{"text": "Hello", "finish_reason": "stop"}]) + DONE) == result(text="Hello")


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("model_context_window_exceeded", "max_tokens"),
        ("MAX_TOKENS", "max_tokens"),
        ("content_filter", "refusal"),
        ("eos", "end_turn"),
        ("stop_sequence", "end_turn"),
    ],
)
def test_finish_reasons_are_normalised(raw, reason):
    assert came_to(HEL_LO + chunk({}, raw) + DONE) == result(text="Hello", stop_reason=reason)


def test_the_raw_finish_reason_is_handed_on():
    reader = decoder()
    reader.feed(HEL_LO + chunk({}, "eos"))
    assert reader.close()[-1] == Done("end_turn", "eos")


def test_the_last_finish_reason_counts():
    assert came_to(HEL_LO + chunk({}, "stop") + chunk({}, "length") + DONE)["stop_reason"] == "max_tokens"


# Usage


def test_the_last_usage_with_numbers_counts():
    def used(usage, **fields):
        return chunk({}, usage=usage, **fields)

    nine = {"prompt_tokens": 9, "completion_tokens": 2}
    wanted = {"input_tokens": 9, "output_tokens": 2}
    first = used({"prompt_tokens": 9, "completion_tokens": 1})
    for last in (
        used(nine),
        used(nine, choices=[]),
        used(nine) + used(None),
        used(nine) + used({"total_tokens": 0}),
    ):
        assert came_to(first + HEL_LO + chunk({}, "stop") + last + DONE)["usage"] == wanted


@pytest.mark.parametrize(
    "details",
    [
        {"prompt_tokens_details": {"cached_tokens": 7}},
        {"prompt_cache_hit_tokens": 7, "prompt_cache_miss_tokens": 2},
        {"cached_tokens": 7, "prompt_tokens_details": None},
        {"cache_read_input_tokens": 7},
    ],
)
def test_cached_tokens_have_many_names(details):
    usage = {"prompt_tokens": 9, "completion_tokens": 2, **details}
    assert came_to(HEL_LO + chunk({}, "stop", usage=usage))["usage"]["cache_read_tokens"] == 7


@pytest.mark.parametrize("odd", [True, "9", -1, 1e999, None, {}])
def test_what_is_no_count_is_none(odd):
    usage = {"prompt_tokens": odd, "completion_tokens": 2}
    assert came_to(HEL_LO + chunk({}, "stop", usage=usage))["usage"] == {
        "input_tokens": 0,
        "output_tokens": 2,
    }


# Thoughts


def test_content_may_be_a_list_of_parts():
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "Add."}]}
    body = chunk({"content": [thought]}) + chunk({"content": [{"type": "text", "text": "4"}, {"type": "x"}]})
    assert came_to(body + END) == result(text="4", reasoning="Add.")
    body = chunk({"content": [{"type": "reasoning", "text": "Add."}, {"type": "text", "text": "4"}]})
    assert came_to(body + END) == result(text="4", reasoning="Add.")


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "thinking"])
def test_thoughts_have_many_names(field):
    assert came_to(chunk({field: "Add."}) + text("4") + END) == result(text="4", reasoning="Add.")


def test_encrypted_thoughts_are_no_text():
    details = [{"type": "reasoning.encrypted", "data": "B7oH"}, {"type": "reasoning.text", "text": "Add."}]
    assert came_to(chunk({"content": "4", "reasoning_details": details}) + END) == result(
        text="4", reasoning="Add."
    )


def test_the_limit_may_hit_inside_a_thought():
    assert came_to(text("<think>\nAdd") + text(".") + chunk({}, "length") + DONE) == result(
        reasoning="Add.", stop_reason="max_tokens"
    )


def test_a_call_that_comes_as_text_stays_text():
    said = '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>'
    assert came_to(text(said) + END) == result(text=said)


# Calls


def test_calls_without_index_id_or_end_mark_are_read():
    body = call(name="f", arguments="{") + call(arguments='"a":1}') + chunk({}, "stop")
    assert came_to(body) == result(tool_calls=[{"name": "f", "arguments": {"a": 1}}], stop_reason="tool_use")


def test_a_signature_in_a_delta_of_its_own_is_no_call():
    signature = chunk({"tool_calls": [{"extra_content": {"google": {"thought_signature": "c2ln"}}}]})
    body = call(id="a", name="f", arguments='{"a":') + call(arguments="1}") + signature + END
    assert came_to(body) == result(tool_calls=[{"name": "f", "arguments": {"a": 1}}], stop_reason="tool_use")


def test_calls_of_a_cut_stream_are_given_out_as_they_are():
    found = came_to(text("I'll look. ") + call(index=0, id="a", name="f", arguments='{"a":'))
    wanted = [{"name": "f", "arguments": '{"a":'}]
    assert found == result(text="I'll look. ", tool_calls=wanted, stop_reason=None)


def test_the_closing_repetition_of_a_message_adds_nothing():
    made = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    closing = chunk(
        choices=[{"message": {"content": "Hello", "tool_calls": [made]}, "finish_reason": "tool_calls"}]
    )
    wanted = result(text="Hello", tool_calls=[{"name": "f", "arguments": {}}], stop_reason="tool_use")
    assert came_to(HEL_LO + call(index=0, id="a", name="f", arguments="{}") + closing) == wanted
    assert came_to(HEL_LO + closing) == wanted
    assert (
        came_to(call(id="a", name="f", arguments="{}") + closing + END_OF_CALLS)["tool_calls"]
        == wanted["tool_calls"]
    )


# Errors


@pytest.mark.parametrize(
    ("event", "error"),
    [
        (chunk(choices=[], error={"message": "gone", "code": 502}), {"message": "gone", "code": 502}),
        (chunk({}, error="gone"), {"message": "gone"}),
        (chunk({}, base_resp={"status_code": 1008, "status_msg": "gone"}), {"message": "gone", "code": 1008}),
        (b'event: error\ndata: {"message":"gone"}\n\n', {"message": "gone"}),
        (b"event: error\ndata: gone\n\n", {"message": "gone"}),
        (b"error: gone\n\n", {"message": "gone"}),
        (b'data: {"object":"error","message":"gone","code":400}\n\n', {"message": "gone", "code": 400}),
        (b'data: {"detail":"gone"}\n\n', {"message": "gone"}),
        (b'data: [{"error":{"message":"gone"}}]\n\n', {"message": "gone"}),
        (chunk(choices=[{"index": 0, "delta": {}, "error": {"message": "gone"}}]), {"message": "gone"}),
    ],
)
def test_errors_have_many_forms_and_text_before_them_is_kept(event, error):
    for tail in (b"", DONE, chunk({}, "length") + chunk({}, "length") + DONE):
        assert came_to(HEL_LO + event + tail) == result(text="Hello", stop_reason="error", error=error)


@pytest.mark.parametrize(
    "fields",
    [{"error": None}, {"error": {}}, {"error": ""}, {"base_resp": {"status_code": 0, "status_msg": ""}}],
)
def test_an_empty_error_is_none(fields):
    assert came_to(chunk({"content": "Hello"}, **fields) + END) == result(text="Hello")


def test_usage_beside_and_after_an_error_is_read():
    usage = {"prompt_tokens": 9, "completion_tokens": 2}
    wanted = {"input_tokens": 9, "output_tokens": 2}
    assert came_to(HEL_LO + chunk({}, error="gone", usage=usage) + DONE)["usage"] == wanted
    assert (
        came_to(HEL_LO + chunk({}, error="gone") + chunk(choices=[], usage=usage) + DONE)["usage"] == wanted
    )


# Deltas that repeat


def test_deltas_that_hold_all_the_text_so_far_are_undone():
    body = b"".join(
        map(text, ["The", "The quick", "The quick brown", "The quick brown", "The quick brown fox"])
    )
    assert came_to(body + END) == result(text="The quick brown fox")


@pytest.mark.parametrize(
    "deltas",
    [
        ["\n", "\n\n", "\n\n\n", "Hello"],
        ["=", "==", "====", "========"],
        ["ha", "haha", "hahaha", "hahahaha"],
        ["I", "If", "If so"],
        ["The", "The quick", " brown"],
        ["The", "The quick"],
        ["a", "a", "a", "a"],
    ],
)
def test_deltas_that_only_look_like_it_are_left_alone(deltas):
    assert came_to(b"".join(map(text, deltas)) + END) == result(text="".join(deltas))


# Anything at all


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.floats(), st.text(max_size=4)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=300)
@given(st.lists(st.one_of(JSON, st.dictionaries(NAMES, JSON, max_size=4)), max_size=6), st.data())
def test_no_json_upsets_the_decoder_however_it_is_cut(values, data):
    body = b"".join(b"data: " + json.dumps(value).encode() + b"\n\n" for value in values) + END
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=5)))
    assert decode(*(body[start:end] for start, end in pairwise([0, *cuts, len(body)]))) == decode(body)


@given(st.lists(st.binary(max_size=40), max_size=8))
def test_no_bytes_upset_the_decoder_however_they_are_cut(pieces):
    assert decode(*pieces) == decode(b"".join(pieces))


@pytest.mark.parametrize("name", ["content", "reasoning_details", "tool_calls", "usage", "error"])
def test_values_of_any_depth_are_borne(name):
    deep = "[" * 900 + "]" * 900
    decode(
        f'data: {{"error":{deep},"choices":[{{"index":0,"delta":{{"{name}":{deep}}}}}]}}\n\n'.encode(), END
    )
    arguments = '{"a":' * 400 + "1" + "}" * 400
    assert decode(call(index=0, id="a", name="f", arguments=arguments), END)["stop_reason"] == "tool_use"


def test_arguments_without_an_end_are_an_error():
    reader = decoder()
    for _ in range(20):
        reader.feed(call(index=0, id="a", name="f", arguments="x" * 1_000_000))
    assert reader.ended
    assert reader.error is not None


# The short way


PIECES = st.one_of(
    st.tuples(st.just("content"), st.text(max_size=6)),
    st.tuples(st.just("reasoning_content"), st.text(max_size=6)),
    st.tuples(
        st.just("content"), st.sampled_from(["x", "y", '"content":', '"', "\\", "[DONE]", "</think>", ""])
    ),
)
EXTRAS = st.sampled_from(
    [
        {},
        {"usage": None},
        {"usage": {"prompt_tokens": 1, "completion_tokens": 1}},
        {"created": 1},
        {"created": 2},
        {"error": None},
        {"note": '"content": "x"'},
        {"note": "content"},
    ]
)
BESIDES = st.sampled_from(
    [{}, {"role": "assistant"}, {"refusal": None}, {"reasoning": "r"}, {"tool_calls": []}]
)


@settings(max_examples=300)
@given(
    st.lists(st.tuples(PIECES, EXTRAS, BESIDES, st.sampled_from([0, 1]), st.booleans()), max_size=12),
    st.data(),
)
def test_reading_the_string_alone_changes_nothing(chunks, data):
    """Against a decoder that parses every event anew: its events alternate with ones that look different."""
    events = []
    for (name, said), extra, beside, index, compact in chunks:
        choice = {"index": index, "delta": {**beside, name: said}, "finish_reason": None}
        separators = (",", ":") if compact else (", ", ": ")
        body = json.dumps(
            {"id": "x", "choices": [choice], **extra}, separators=separators, ensure_ascii=compact
        )
        events.append(b"data: " + body.encode("utf-8", "surrogatepass") + b"\n\n")
    same = decode(*events, END)
    different = [b"data: " + b" " * number + event[6:] for number, event in enumerate(events, 1)]
    assert decode(*different, END) == same
    whole = b"".join(events) + END
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=5)))
    assert decode(*(whole[start:end] for start, end in pairwise([0, *cuts, len(whole)]))) == same


def test_an_event_that_looks_the_same_but_is_broken_is_passed_over():
    good = b'data: {"choices":[{"index":0,"delta":{"content":"%s"}}]}\n\n'
    broken = [b"a\tb", b"a\\xb", b'a"b', b'a","role":"x', b"a\\"]
    body = b"".join(good % said for said in (b"one ", b"two ", *broken, b"three"))
    # A tabulator in a string is no JSON, but plain enough; `a","role":"x` is a proper event of its own.
    assert came_to(body + END) == result(text="one two a\tbathree")
