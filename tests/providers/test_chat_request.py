"""What goes out to an endpoint of OpenAI chat completions."""

import json
from typing import Any

import pytest

from app.core.ids import FileId
from app.core.messages import (
    FilePart,
    Message,
    ReasoningPart,
    TextPart,
    ToolResultPart,
    ToolUsePart,
    user_message,
)
from app.providers.base import Request, ToolSchema
from app.providers.chat_request import Dialect, body_of


def said(text: str, *calls: ToolUsePart) -> Message:
    return Message("assistant", (TextPart(text), *calls) if text else calls)


def used(arguments: str, id: str = "call_1") -> ToolUsePart:
    return ToolUsePart(id, "f", arguments, None)


def results(*texts: str) -> Message:
    return Message("tool", tuple(ToolResultPart(f"call_{n}", "ok", text) for n, text in enumerate(texts, 1)))


def sent(*messages: Message, dialect: Dialect | None = None, **fields) -> list[dict[str, Any]]:
    return body_of(Request("m", messages, **fields), dialect or Dialect())["messages"]


def test_the_smallest_request_holds_nothing_that_was_not_asked_for():
    assert body_of(Request("m", (user_message("Hi"),)), Dialect()) == {
        "model": "m",
        "messages": [{"role": "user", "content": "Hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_sampling_and_limit_go_along_only_where_given():
    sampling = {
        "temperature": 0.0,
        "top_p": None,
        "seed": 7,
        "stop": ["x"],
        "reasoning_effort": "low",
        "odd": 1,
    }
    body = body_of(Request("m", (user_message("Hi"),), max_output=99, sampling=sampling), Dialect())
    assert {name: body[name] for name in list(body)[4:]} == {
        "max_tokens": 99,
        "temperature": 0.0,
        "seed": 7,
        "stop": ["x"],
        "reasoning_effort": "low",
    }


def test_a_turn_with_tools_goes_out_as_it_was():
    arguments = '{ "city" : "Köln",\t"days":  2.50 }'
    messages = (
        user_message("Weather?"),
        said("I'll look.", used(arguments)),
        results("Rain"),
        said("It rains."),
    )
    assert sent(*messages, system="Be brief.") == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Weather?"},
        {
            "role": "assistant",
            "content": "I'll look.",
            "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": arguments}}
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "Rain"},
        {"role": "assistant", "content": "It rains."},
    ]


def test_tools_are_described_in_order():
    tools = (ToolSchema("f", "Does f.", {"type": "object", "properties": {}}),)
    assert body_of(Request("m", (user_message("Hi"),), tools=tools), Dialect())["tools"] == [
        {
            "type": "function",
            "function": {
                "name": "f",
                "description": "Does f.",
                "parameters": {"type": "object", "properties": {}},
            },
        }
    ]


def test_each_result_is_a_message_and_none_is_empty():
    messages = sent(said("", used("{}"), used("{}", "call_2")), results("", "b"))
    assert messages[0]["content"] is None
    assert [message["content"] for message in messages[1:]] == ["(nothing)", "b"]
    assert [message["tool_call_id"] for message in messages[1:]] == ["call_1", "call_2"]


def test_user_turns_in_a_row_are_one():
    nudge = user_message("Go on.", by_application=True)
    assert sent(user_message("a"), user_message("b"), said("c"), nudge, user_message("d")) == [
        {"role": "user", "content": "a\n\nb"},
        {"role": "assistant", "content": "c"},
        {"role": "user", "content": "Go on.\n\nd"},
    ]


def test_an_answer_without_text_leaves_no_gap():
    thought = Message("assistant", (ReasoningPart("Hm."),))
    assert sent(user_message("a"), thought, said(""), user_message(""), user_message("b")) == [
        {"role": "user", "content": "a\n\nb"}
    ]


def test_reasoning_is_never_sent_back():
    thought = Message("assistant", (ReasoningPart("secret thought"), TextPart("4"), used("{}")))
    assert "secret thought" not in json.dumps(sent(user_message("a"), thought))


def test_a_file_does_not_make_an_empty_turn():
    assert sent(Message("user", (FilePart("image", FileId("f")), TextPart("What is it?")))) == [
        {"role": "user", "content": "What is it?"}
    ]


@pytest.mark.parametrize("nothing", ["", "null", "  "])
def test_no_arguments_go_out_as_an_empty_object(nothing):
    (message,) = sent(said("", used(nothing)))
    assert message["tool_calls"][0]["function"]["arguments"] == "{}"


@pytest.mark.parametrize("id", ["call_abc", "functions.get_weather:0", "9", "toolu_01A-b"])
def test_ids_of_a_known_shape_stay(id):
    (message,) = sent(said("", used("{}", id)))
    assert message["tool_calls"][0]["id"] == id


@pytest.mark.parametrize("id", ["a" * 41, "über", "a b", "x\n"])
def test_other_ids_get_a_shape_that_everybody_takes_in_call_and_result_alike(id):
    call, result = sent(said("", used("{}", id)), Message("tool", (ToolResultPart(id, "ok", "a"),)))
    shaped = call["tool_calls"][0]["id"]
    assert len(shaped) == 9
    assert shaped.isalnum()
    assert result["tool_call_id"] == shaped


def test_what_an_endpoint_refuses_is_said_in_another_way_once():
    dialect = Dialect()
    assert dialect.learn("Unrecognized request argument supplied: stream_options")
    assert dialect.learn("Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.")
    assert dialect.learn("Tool call id was call_1 but must be a-z, A-Z, 0-9, with a length of 9.")
    for known in (
        "stream_options",
        "use max_completion_tokens",
        "tool call id: a length of 9",
        "temperature",
    ):
        assert not dialect.learn(known)
    body = body_of(Request("m", (said("", used("{}")),), max_output=9), dialect)
    assert "stream_options" not in body
    assert body["max_completion_tokens"] == 9
    assert len(body["messages"][0]["tool_calls"][0]["id"]) == 9


def test_the_beginning_of_a_request_stays_the_same_over_a_reply():
    """Prompt caches go by the bytes of the prefix."""
    first = (user_message("a"), said("b", used("{}")), results("c"))
    bodies = [
        json.dumps(body_of(Request("m", messages, system="s"), Dialect())["messages"])
        for messages in (first, (*first, said("d"), user_message("e")))
    ]
    assert bodies[1].startswith(bodies[0][:-1])


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ("read_file-2", "read_file-2"),
        ("functions.read file", "functions_read_file"),
        ("", "unnamed"),
        ("x" * 99, "x" * 64),
    ],
)
def test_a_call_by_an_impossible_name_does_not_spoil_the_chat(asked, named):
    call, _ = sent(said("", ToolUsePart("call_1", asked, "{}", {})), results("unknown tool"))
    assert call["tool_calls"][0]["function"]["name"] == named
