"""The adapter against a real server: requests, lists of models, failures and their sentences."""

import asyncio
import logging
import traceback
from contextlib import aclosing, asynccontextmanager
from urllib.parse import quote

import pytest

from app.core import errors
from app.core.messages import user_message
from app.outbound import Http
from app.providers.base import Done, EndpointConfig, FoundModel, ProviderEvent, Request, TextSeen, UsageSeen
from app.providers.openai_chat import OpenAIChat
from tests.support.upstream import Upstream

KEY = "sk-proj-Zx9wTq8mL2vB7nK4"


def endpoint(http: Http, url: str, **fields) -> OpenAIChat:
    config = {"label": "Home", "api": "openai-chat", "idle_timeout": 5.0, **fields}
    return OpenAIChat(EndpointConfig(base_url=url, **config), http)


async def ask(provider: OpenAIChat, model: str = "normal", **fields) -> list[ProviderEvent]:
    async with aclosing(provider.stream(Request(model, (user_message("Hi"),), **fields))) as events:
        return [event async for event in events]


async def fails(provider: OpenAIChat, model: str) -> tuple[errors.ProviderError, str]:
    """The error that a request ends in, and the text before it."""
    text = ""
    try:
        async with aclosing(provider.stream(Request(model, (user_message("Hi"),)))) as events:
            async for event in events:
                assert not isinstance(event, Done)
                text += event.text if isinstance(event, TextSeen) else ""
    except errors.ProviderError as error:
        return error, text
    pytest.fail("nothing was raised")


def said(events: list[ProviderEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextSeen))


async def test_a_reply_comes_with_usage_and_its_end(upstream, http):
    events = await ask(endpoint(http, upstream.url), "normal?tokens=200")
    assert said(events) == upstream.requests[0].text
    assert isinstance(events[-2], UsageSeen)
    assert events[-1] == Done("end_turn", "stop")


async def test_the_key_goes_into_the_header_alone(upstream, http):
    await ask(endpoint(http, upstream.url, key=f" {KEY}\n"))
    request = upstream.requests[0]
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert KEY not in str(request.body)
    await ask(endpoint(http, upstream.url))
    assert "authorization" not in upstream.requests[1].headers


async def test_the_connection_is_used_again(upstream, http):
    provider = endpoint(http, upstream.url)
    for _ in range(3):
        await ask(provider)
    assert upstream.connected == 1


@pytest.mark.parametrize("ending", ["", "/", "/chat/completions", "/chat/completions/", "?api-version=1"])
async def test_the_base_address_may_be_written_in_several_ways(upstream, http, ending):
    provider = endpoint(http, upstream.url + ending)
    assert said(await ask(provider)) == upstream.requests[0].text
    assert await provider.models()


# What is learned from a refusal


@pytest.mark.parametrize(
    ("refusal", "before", "after"),
    [
        (
            "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens'.",
            "max_tokens",
            "max_completion_tokens",
        ),
        ("Extra inputs are not permitted: stream_options", "stream_options", None),
    ],
)
async def test_a_refused_parameter_is_said_in_another_way_from_then_on(
    upstream, http, refusal, before, after
):
    provider = endpoint(http, upstream.url)
    upstream.script("m", f"status?code=400&message={quote(refusal)}", "normal")
    for _ in range(2):
        assert said(await ask(provider, "m", max_output=50))
    first, *others = (request.body for request in upstream.requests)
    assert before in first
    assert len(others) == 2
    assert all(before not in body and (after is None or after in body) for body in others)


async def test_a_refusal_that_teaches_nothing_is_an_error(upstream, http):
    error, _ = await fails(
        endpoint(http, upstream.url), "status?code=400&message=temperature must be below 1"
    )
    assert isinstance(error, errors.RequestRejected)
    assert error.person == "'Home' rejected the request: temperature must be below 1"
    assert len(upstream.requests) == 1


# Failures


@pytest.mark.parametrize(
    ("mode", "kind"),
    [
        ("status?code=401", errors.KeyRefused),
        ("status?code=403", errors.KeyRefused),
        ("status?code=404&message=The model `x` does not exist", errors.ModelMissing),
        ("status?code=400&error_code=model_not_found", errors.ModelMissing),
        ("status?code=404&message=Not Found", errors.WrongProtocol),
        ("status?code=302", errors.WrongProtocol),
        ("html", errors.WrongProtocol),
        ("html?code=404", errors.WrongProtocol),
        ("status?code=429", errors.RateLimited),
        ("status?code=402", errors.RequestRejected),
        ("status?code=429&error_code=insufficient_quota", errors.RequestRejected),
        ("status?code=418", errors.RequestRejected),
        ("status?code=500", errors.Overloaded),
        ("status?code=503&message=Loading model", errors.Overloaded),
        ("status?code=529", errors.Overloaded),
        ("html?code=502", errors.Overloaded),
        ("status?code=400&type=exceed_context_size_error", errors.ContextExceeded),
        ("status?code=400&error_code=context_length_exceeded", errors.ContextExceeded),
        ("status?code=413", errors.ContextExceeded),
        ("json-error", errors.Overloaded),
        ("json-error?message=context length exceeded", errors.ContextExceeded),
        ("reset?at=start", errors.Unreachable),
        ("unknown-model", errors.ModelMissing),
    ],
)
async def test_a_refusal_has_its_place_in_the_error_tree(upstream, http, mode, kind):
    error, text = await fails(endpoint(http, upstream.url, key=KEY), mode)
    assert type(error) is kind
    assert "'Home'" in error.person
    assert text == ""


async def test_a_refused_key_is_named_with_what_to_do(upstream, http):
    error, _ = await fails(endpoint(http, upstream.url, label="OpenAI", key=KEY), "status?code=401")
    assert error.person == "The key for 'OpenAI' was refused. Check it under Settings, Models."
    error, _ = await fails(endpoint(http, upstream.url, label="OpenAI"), "status?code=401")
    assert error.person == "'OpenAI' asks for a key. Add one under Settings, Models."


@pytest.mark.parametrize(
    ("mode", "seconds"),
    [
        ("status?code=429&retry_after=7", 7.0),
        ("status?code=503&retry_after=0.5", 0.5),
        ("status?code=429&retry_after=Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
        ("status?code=429&retry_after=soon", None),
        ("status?code=429&retry_after=-3", 0.0),
        ("status?code=429", None),
    ],
)
async def test_the_time_to_wait_is_handed_on(upstream, http, mode, seconds):
    error, _ = await fails(endpoint(http, upstream.url), mode)
    assert isinstance(error, errors.RateLimited | errors.Overloaded)
    assert error.retry_after == seconds


@pytest.mark.parametrize(
    ("mode", "kind"),
    [
        ("error-inside?after=10", errors.BrokenStream),
        ("error-inside?after=10&code=context_length_exceeded", errors.ContextExceeded),
        ("error-inside?after=10&code=rate_limit_exceeded", errors.RateLimited),
        ("hang?after=10", errors.IdleTimeout),
        ("truncate?after=10&cut=1", errors.BrokenStream),
        ("truncate?after=10&cut=1&in=character", errors.BrokenStream),
    ],
)
async def test_what_came_before_a_failure_is_given_out(upstream, http, mode, kind):
    error, text = await fails(endpoint(http, upstream.url, idle_timeout=0.3), mode)
    assert type(error) is kind
    assert text.startswith(upstream.requests[0].text[:60])


async def test_a_reset_in_the_middle_is_a_broken_stream(upstream, http):
    error, text = await fails(endpoint(http, upstream.url), "reset?bytes=1500")
    assert type(error) is errors.BrokenStream
    assert text
    assert upstream.requests[0].text.startswith(text)


@pytest.mark.parametrize("where", ["json", "character", "event"])
async def test_an_end_without_its_mark_is_a_cut_off_stream(upstream, http, where):
    events = await ask(endpoint(http, upstream.url), f"truncate?after=10&in={where}")
    assert said(events).startswith(upstream.requests[0].text[:60])
    assert events[-1] == Done(None)


async def test_one_of_the_two_end_marks_is_enough(upstream, http):
    provider = endpoint(http, upstream.url)
    assert (await ask(provider, "no-done"))[-1] == Done("end_turn", "stop")
    assert (await ask(provider, "no-done?done=1"))[-1] == Done("end_turn")


async def test_a_server_that_falls_silent_after_its_last_word_ends_the_reply(upstream, http):
    events = await ask(endpoint(http, upstream.url, idle_timeout=0.2), "no-done?hang=1")
    assert said(events) == upstream.requests[0].text
    assert events[-1] == Done("end_turn", "stop")


class Chatter:
    """A server that says its last word, then keeps the connection open with comments for ever."""

    status, headers = 200, {"content-type": "text/event-stream"}

    @asynccontextmanager
    async def stream(self, *_, **__):
        yield self

    async def chunks(self):
        yield b'data: {"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":null}]}\n\n'
        yield b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
        while True:
            await asyncio.sleep(0)
            yield b": still here\n\n"


async def test_comments_after_the_last_word_do_not_keep_a_reply_from_its_end():
    async with asyncio.timeout(5):
        events = await ask(endpoint(Chatter(), "http://up.test/v1", idle_timeout=0.05))
    assert events == [TextSeen("Hi"), Done("end_turn", "stop")]


async def test_an_address_that_the_guard_refuses_is_not_tried_again(http):
    error, _ = await fails(endpoint(http, "http://169.254.169.254/v1"), "normal")
    assert type(error) is errors.RequestRejected
    assert "does not connect" in error.person
    assert not error.may_retry


async def test_nobody_at_the_address_is_unreachable(upstream, http):
    await upstream.stop()
    provider = endpoint(http, upstream.url)
    error, _ = await fails(provider, "normal")
    assert type(error) is errors.Unreachable
    assert "cannot be reached" in error.person
    with pytest.raises(errors.Unreachable):
        await provider.models()


async def test_silence_before_the_first_byte_is_an_idle_timeout(upstream, http):
    error, _ = await fails(endpoint(http, upstream.url, idle_timeout=0.2), "hang")
    assert type(error) is errors.IdleTimeout
    assert "0.2 seconds" in error.person


@pytest.mark.parametrize("address", ["http://[", "ftp://x/v1", "nothing", "", "http://"])
async def test_an_address_that_is_none_is_an_error_of_the_tree(http, address):
    error, _ = await fails(endpoint(http, address), "normal")
    assert "'Home'" in error.person


@pytest.mark.parametrize("key", ["schlüssel", "a\r\nb", "a\0b"])
async def test_a_key_that_cannot_be_one_is_refused_before_it_is_sent(upstream, http, key):
    error, _ = await fails(endpoint(http, upstream.url, key=key), "normal")
    assert type(error) is errors.KeyRefused
    assert upstream.requests == []


@pytest.mark.parametrize("key", [KEY, "plain-old-token-of-my-own", "k3y"])
@pytest.mark.parametrize("code", [400, 401, 404, 429, 500])
async def test_a_key_is_in_no_error_and_no_log(upstream, http, caplog, key, code):
    caplog.set_level(logging.DEBUG)
    masked = f"{key[:8]}******{key[-4:]}" if len(key) > 12 else "****"
    message = quote(f"Incorrect API key provided: {key}, you sent Bearer {key} ({masked}) for model x")
    provider = endpoint(http, upstream.url, key=key)
    upstream.script("m", f"status?code={code}&message={message}", f"error-inside?message={message}")
    for _ in range(2):
        error, _ = await fails(provider, "m")
        shown = (
            "".join(traceback.format_exception(error)) + error.person + caplog.text + repr(provider.config)
        )
        assert key not in shown
        assert len(key) < 12 or key[:8] not in shown


# Models


async def test_models_are_listed_with_what_the_endpoint_tells(upstream, http):
    upstream.models = ["a", "b"]
    assert await endpoint(http, upstream.url).models() == [
        FoundModel("a", context_length=8192),
        FoundModel("b", context_length=8192),
    ]


async def test_a_list_behind_a_key_needs_it(http):
    upstream = Upstream(key=KEY)
    await upstream.start()
    assert await endpoint(http, upstream.url, key=KEY).models()
    with pytest.raises(errors.KeyRefused):
        await endpoint(http, upstream.url, key="other").models()
    await upstream.stop()


async def test_an_address_without_a_list_is_the_wrong_one(upstream, http):
    with pytest.raises(errors.WrongProtocol) as caught:
        await endpoint(http, upstream.url.removesuffix("/v1")).models()
    assert "often ends in /v1" in caught.value.person
