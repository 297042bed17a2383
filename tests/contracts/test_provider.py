"""What every provider in the table promises, whichever wire API it speaks.

A scene is one turn in the words of `app/providers/scripted.py`. Each API has a stage that plays it: the scripted
provider itself, or a real server that says the same on the wire, in pieces of several sizes.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Protocol

import pytest

from app.core import errors
from app.core.messages import StopReason, Usage, user_message
from app.outbound import Http, Outbound
from app.providers.base import (
    CallSeen,
    Done,
    EndpointConfig,
    Provider,
    ProviderEvent,
    ReasoningSeen,
    Request,
    TextSeen,
    UsageSeen,
)
from app.providers.scripted import Scripted
from app.providers.table import APIS, open_provider
from tests.support.upstream import Upstream
from tests.support.upstream_modes import Head, Step
from tests.support.wire import DONE, call, chunk, text

KEY = "sk-contract-Zx9wTq8mL2vB"
LABEL = "Der Vertrag"
# Of an endpoint that is meant to fall silent, and of one that is not.
SILENT, PATIENT = 0.3, 20.0
Scene = list[dict[str, Any]]

HELLO: Scene = [{"text": "Hello, "}, {"text": "Wörld 🌍"}]
FOREVER: Scene = [{"text": "Hello"}, {"hang": True}]
KINDS = sorted(error.name for error in errors.ProviderError.__subclasses__())


class Stage(Protocol):
    def opens(self, scene: Scene, idle_timeout: float = PATIENT) -> Provider: ...

    async def all_closed(self) -> None:
        """Wait until nothing is being streamed any more."""
        ...


class ScriptedStage:
    def __init__(self, api: str, http: Http, upstream: Upstream, size: int) -> None:
        self.opened: list[Provider] = []

    def opens(self, scene: Scene, idle_timeout: float = PATIENT) -> Provider:
        script = json.dumps({"turns": [scene]})
        provider = Scripted(EndpointConfig(LABEL, "scripted", f"script:{script}", KEY, idle_timeout))
        self.opened.append(provider)
        return provider

    async def all_closed(self) -> None:
        assert all(provider.running == 0 for provider in self.opened if isinstance(provider, Scripted))


@dataclass
class ChatStage:
    """A server that speaks chat completions, `size` bytes at a time (0: as they are made)."""

    api: str
    http: Http
    upstream: Upstream
    size: int

    def opens(self, scene: Scene, idle_timeout: float = PATIENT) -> Provider:
        self.upstream.play("m", *self.pieces(on_the_wire(scene)))
        return open_provider(EndpointConfig(LABEL, self.api, self.upstream.url, KEY, idle_timeout), self.http)

    def pieces(self, steps: list[bytes | float | Head | Step]) -> list[bytes | float | Head | Step]:
        if not self.size or any(isinstance(step, Head) and step.length is not None for step in steps):
            return steps
        cut: list[bytes | float | Head | Step] = []
        for step in steps:
            if isinstance(step, bytes):
                cut += [step[at : at + self.size] for at in range(0, len(step), self.size)]
            else:
                cut.append(step)
        return cut

    async def all_closed(self) -> None:
        for request in self.upstream.requests:
            async with asyncio.timeout(5):
                await request.ended()
            assert request.client_closed


def on_the_wire(scene: Scene) -> list[bytes | float | Head | Step]:
    """A scene as the answer of a server of chat completions."""
    if "error" in scene[0]:
        return REFUSALS[scene[0]["error"]]
    steps: list[bytes | float | Head | Step] = [Head()]
    finish, calls = "stop", 0
    for step in scene:
        if "text" in step:
            steps.append(text(step["text"]))
        elif "reasoning" in step:
            steps.append(chunk({"reasoning_content": step["reasoning"]}))
        elif "call" in step:
            steps += fragments(calls, step["call"])
            finish, calls = "tool_calls", calls + 1
        elif "usage" in step:
            steps.append(chunk(choices=[], usage=usage(step["usage"])))
        elif "stop" in step:
            finish = FINISHES[step["stop"]]
        elif "hang" in step:
            return [*steps, Step.HANG]
        elif "cut" in step:
            return steps
        else:
            return [*steps, 0.02, Step.RESET]
    return [*steps, chunk({}, finish), DONE]


def fragments(index: int, wanted: Mapping[str, Any]) -> list[bytes]:
    arguments = wanted["arguments"]
    half = len(arguments) // 2
    return [
        call(index=index, id=wanted["id"], name=wanted["name"], arguments=arguments[:half]),
        call(index=index, arguments=arguments[half:]),
    ]


def usage(numbers: Mapping[str, int]) -> dict[str, Any]:
    return {
        "prompt_tokens": numbers["input"],
        "completion_tokens": numbers["output"],
        "prompt_tokens_details": {"cached_tokens": numbers["cached"]},
        "completion_tokens_details": {"reasoning_tokens": numbers["reasoning"]},
    }


def refusal(status: int, **error: Any) -> list[bytes | float | Head | Step]:
    body = json.dumps({"error": error}).encode()
    return [Head(status, "application/json", {"retry-after": "3"}, len(body)), body]


FINISHES = {"end_turn": "stop", "max_tokens": "length", "refusal": "content_filter", "tool_use": "tool_calls"}
REFUSALS: Mapping[str, list[bytes | float | Head | Step]] = {
    "key-refused": refusal(401, message=f"Incorrect API key provided: {KEY}"),
    "model-missing": refusal(404, message="The model `m` does not exist", code="model_not_found"),
    "rate-limited": refusal(429, message="slow down"),
    "overloaded": refusal(503, message="busy"),
    "request-rejected": refusal(400, message=f"bad request of Bearer {KEY}"),
    "context-exceeded": refusal(400, message="too long", code="context_length_exceeded"),
    "wrong-protocol": [Head(200, "text/html", {}, 6), b"<html>"],
    "unreachable": [Step.RESET],
    "idle-timeout": [Step.HANG],
    "broken-stream": [Head(), b": hello\n\n", 0.02, Step.RESET],
}

STAGES: Mapping[str, Callable[[str, Http, Upstream, int], Stage]] = {
    "openai-chat": ChatStage,
    "local": ChatStage,
    "scripted": ScriptedStage,
}
SIZES = {"scripted": [0], "local": [0]}
SETTINGS = [(api, size) for api in APIS for size in SIZES.get(api, [0, 1, 7, 100])]


@pytest.fixture(params=SETTINGS, ids=lambda setting: f"{setting[0]}-{setting[1] or 'whole'}")
async def stage(request: pytest.FixtureRequest) -> AsyncIterator[Stage]:
    api, size = request.param
    upstream, outbound = Upstream(), Outbound()
    await upstream.start()
    yield STAGES[api](api, outbound.http("provider"), upstream, size)
    await outbound.close()
    await upstream.stop()


def test_every_api_of_the_table_has_a_stage() -> None:
    assert set(STAGES) == set(APIS)


def request() -> Request:
    return Request(
        "m", (user_message("Hi"),), system="Be brief.", max_output=100, sampling={"temperature": 0.5}
    )


async def played(stage: Stage, scene: Scene) -> list[ProviderEvent]:
    async with aclosing(stage.opens(scene).stream(request())) as events:  # type: ignore[type-var]
        return [event async for event in events]


async def failed(stage: Stage, scene: Scene) -> tuple[errors.ProviderError, list[ProviderEvent]]:
    seen: list[ProviderEvent] = []
    try:
        provider = stage.opens(scene, SILENT if is_silent(scene) else PATIENT)
        async with aclosing(provider.stream(request())) as events:  # type: ignore[type-var]
            async for event in events:
                seen.append(event)
    except errors.ProviderError as error:
        return error, seen
    pytest.fail("nothing was raised")


def is_silent(scene: Scene) -> bool:
    return "hang" in scene[-1] or scene[-1].get("error") == "idle-timeout"


def joined(events: list[ProviderEvent], kind: type[TextSeen] | type[ReasoningSeen]) -> str:
    return "".join(event.text for event in events if isinstance(event, kind))


async def test_text_comes_whole_and_done_comes_last(stage: Stage) -> None:
    events = await played(stage, HELLO)
    assert joined(events, TextSeen) == "Hello, Wörld 🌍"
    assert [event for event in events if isinstance(event, Done)] == [events[-1]]
    assert events[-1].stop_reason == "end_turn"  # type: ignore[union-attr]


async def test_thoughts_are_kept_apart_from_the_answer(stage: Stage) -> None:
    events = await played(stage, [{"reasoning": "Hm. "}, {"reasoning": "Ah."}, {"text": "4"}])
    assert (joined(events, ReasoningSeen), joined(events, TextSeen)) == ("Hm. Ah.", "4")


async def test_calls_come_whole_in_order_and_before_the_end(stage: Stage) -> None:
    odd = '{ "city" : "Köln",\t"days": 2.50 }'
    first = {"id": "a1", "name": "get_weather", "arguments": odd}
    second = {"id": "b2", "name": "get_time", "arguments": "{}"}
    events = await played(stage, [{"text": "I'll look."}, {"call": first}, {"call": second}])
    calls = [event.call for event in events if isinstance(event, CallSeen)]
    assert [(call.id, call.name, call.arguments) for call in calls] == [
        ("a1", "get_weather", odd),
        ("b2", "get_time", "{}"),
    ]
    assert [call.input for call in calls] == [{"city": "Köln", "days": 2.5}, {}]
    assert joined(events, TextSeen) == "I'll look."
    assert events[-1].stop_reason == "tool_use"  # type: ignore[union-attr]


async def test_arguments_that_do_not_parse_stay_as_they_came(stage: Stage) -> None:
    events = await played(stage, [{"call": {"id": "a1", "name": "f", "arguments": "path=foo"}}])
    (call,) = (event.call for event in events if isinstance(event, CallSeen))
    assert (call.arguments, call.input) == ("path=foo", None)


async def test_usage_is_handed_on(stage: Stage) -> None:
    events = await played(stage, [*HELLO, {"usage": {"input": 9, "output": 5, "cached": 4, "reasoning": 2}}])
    (seen,) = (event for event in events if isinstance(event, UsageSeen))
    assert seen.usage == Usage(9, 5, cache_read_tokens=4, reasoning_tokens=2)


@pytest.mark.parametrize("reason", ["end_turn", "max_tokens", "refusal"])
async def test_stop_reasons_are_normalised(stage: Stage, reason: StopReason) -> None:
    assert (await played(stage, [*HELLO, {"stop": reason}]))[-1].stop_reason == reason  # type: ignore[union-attr]


async def test_a_stream_that_was_cut_off_has_no_stop_reason(stage: Stage) -> None:
    events = await played(stage, [*HELLO, {"cut": True}])
    assert joined(events, TextSeen) == "Hello, Wörld 🌍"
    assert events[-1] == Done(None)


@pytest.mark.parametrize("kind", KINDS)
async def test_each_failure_is_raised_as_its_kind_with_a_sentence(stage: Stage, kind: str) -> None:
    message = f"'{LABEL}' says no."
    error, seen = await failed(stage, [{"error": kind, "message": message, "retry_after": 3}])
    assert (error.name, seen) == (kind, [])
    assert LABEL in error.person
    assert KEY not in error.person + str(error) + repr(error)
    if isinstance(error, errors.RateLimited | errors.Overloaded):
        assert error.retry_after == 3


@pytest.mark.parametrize("kind", ["broken-stream", "idle-timeout"])
async def test_what_came_before_a_failure_is_given_out_first(stage: Stage, kind: str) -> None:
    ending = {"hang": True} if kind == "idle-timeout" else {"error": kind}
    error, seen = await failed(stage, [*HELLO, ending])
    assert error.name == kind
    assert joined(seen, TextSeen) == "Hello, Wörld 🌍"
    assert not any(isinstance(event, Done) for event in seen)


async def test_closing_in_the_middle_closes_the_connection(stage: Stage) -> None:
    events = stage.opens(FOREVER).stream(request())
    assert isinstance(await anext(events), TextSeen)
    await events.aclose()  # type: ignore[attr-defined]
    await stage.all_closed()
    with pytest.raises(StopAsyncIteration):
        await anext(events)


async def test_cancelling_who_waits_closes_the_connection(stage: Stage) -> None:
    begun = asyncio.Event()

    async def read() -> None:
        async with aclosing(stage.opens(FOREVER).stream(request())) as events:  # type: ignore[type-var]
            async for _ in events:
                begun.set()

    reading = asyncio.ensure_future(read())
    await begun.wait()
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    await stage.all_closed()


async def test_two_streams_do_not_mix(stage: Stage) -> None:
    provider = stage.opens(HELLO)

    async def one() -> str:
        async with aclosing(provider.stream(request())) as events:  # type: ignore[type-var]
            return joined([event async for event in events], TextSeen)

    assert await asyncio.gather(*(one() for _ in range(5))) == ["Hello, Wörld 🌍"] * 5


async def test_models_are_listed_by_name(stage: Stage) -> None:
    models = await stage.opens(HELLO).models()
    assert models
    assert all(model.wire_name for model in models)
