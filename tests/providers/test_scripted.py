"""The provider that plays a script; what every provider promises is in tests/contracts/test_provider.py."""

import json
from contextlib import aclosing

import pytest

from app.core import errors
from app.core.messages import Message, TextPart, ToolResultPart, ToolUsePart, user_message
from app.providers.base import CallSeen, EndpointConfig, Request, TextSeen
from app.providers.scripted import SCRIPTS, BadScript, Scripted, read_script


def scripted(*turns, **fields) -> Scripted:
    script = json.dumps({"turns": turns, **fields})
    return Scripted(EndpointConfig("Tour", "scripted", f"script:{script}"))


async def ask(provider: Scripted, *messages: Message):
    async with aclosing(provider.stream(Request("m", messages))) as events:
        return [event async for event in events]


def said(events) -> str:
    return "".join(event.text for event in events if isinstance(event, TextSeen))


async def test_the_turn_goes_by_the_transcript():
    provider = scripted([{"text": "one"}], [{"text": "two"}])
    answer = Message("assistant", (TextPart("one"),))
    assert said(await ask(provider, user_message("a"))) == "one"
    assert said(await ask(provider, user_message("a"), answer, user_message("b"))) == "two"
    assert said(await ask(provider, *[user_message("a"), answer] * 5)) == "two"


async def test_the_prompt_can_be_quoted():
    assert said(await ask(scripted([{"text": "You wrote {{ prompt }}."}]), user_message("{{ prompt }}"))) == (
        "You wrote {{ prompt }}."
    )


async def test_text_with_a_rate_comes_in_words():
    events = await ask(scripted([{"text": "one two  three", "rate": 1000}]), user_message("a"))
    assert [event.text for event in events if isinstance(event, TextSeen)] == ["one ", "two  ", "three"]


async def test_a_call_without_an_id_gets_one_that_is_new():
    provider = scripted([{"call": {"name": "f", "id": "x"}}], [{"call": {"name": "f", "id": "x"}}])
    first = ToolUsePart("x", "f", "", {})
    transcript = (
        user_message("a"),
        Message("assistant", (first,)),
        Message("tool", (ToolResultPart("x", "ok", ""),)),
    )
    (call,) = [event.call for event in await ask(provider, *transcript) if isinstance(event, CallSeen)]
    assert call.id not in ("", "x")


async def test_a_named_script_is_found_among_those_handed_in():
    scripts = {"greeting": {"turns": [[{"text": "Hello"}]], "models": ["small", "large"]}}
    provider = Scripted(EndpointConfig("Tour", "scripted", "script:greeting"), scripts=scripts)
    assert said(await ask(provider, user_message("a"))) == "Hello"
    assert [model.wire_name for model in await provider.models()] == ["small", "large"]


@pytest.mark.parametrize("address", ["script:none", "script:{", "script:[]", "", "https://example.com"])
async def test_an_address_without_a_script_is_an_error(address):
    with pytest.raises(errors.WrongProtocol) as caught:
        await ask(Scripted(EndpointConfig("Tour", "scripted", address)), user_message("a"))
    assert "'Tour'" in caught.value.person


@pytest.mark.parametrize(
    ("turns", "complaint"),
    [
        ([], "a script is"),
        ("text", "a script is"),
        ([{"text": "a"}], "turn 1 is no list"),
        ([[{"text": "a"}], ["b"]], "turn 2: 'b' is no step"),
        ([[{"txt": "a"}]], "is not one of"),
        ([[{"text": "a", "wait": 1}]], "is not one of"),
        ([[{"text": 3}]], "text cannot be 3"),
        ([[{"text": "{{ name }}"}]], "{{ name }} stands for nothing"),
        ([[{"text": "a", "rate": 0}]], "a rate cannot be 0"),
        ([[{"call": {}}]], "a call has a name"),
        ([[{"error": "boom"}]], "'boom' is none of the errors"),
        ([[{"stop": "soon"}]], "'soon' is none of the stop reasons"),
    ],
)
def test_a_script_that_is_written_wrongly_says_where(turns, complaint):
    with pytest.raises(BadScript, match=complaint.replace("{", r"\{").replace("}", r"\}")):
        read_script({"turns": turns})


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_scripts_that_ship_are_written_rightly(name):
    assert read_script(SCRIPTS[name]).turns
