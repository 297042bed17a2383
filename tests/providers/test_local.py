"""The embedded model, for real: llama.cpp in a child process, asked through the ordinary adapter."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from pathlib import Path
from typing import cast

import pytest

from app.core.errors import BrokenStream, ContextExceeded, ModelMissing, Unreachable
from app.core.messages import user_message
from app.outbound import Http
from app.providers.base import (
    Done,
    EndpointConfig,
    Provider,
    ProviderEvent,
    Request,
    Starting,
    TextSeen,
    UsageSeen,
)
from app.providers.local import ALIAS, Local, Running
from app.providers.table import Table
from app.tasks import Tasks

CONFIG = EndpointConfig("Local model", "local", "local:smollm2", idle_timeout=60)
TALE = "Tell me a very long story about a lighthouse."


@pytest.fixture
async def make() -> AsyncIterator[Callable[..., Local]]:
    """`make(idle=...)` gives a Local whose child is gone after the test."""
    tasks, made = Tasks("test"), list[Local]()

    def new(**options: object) -> Local:
        made.append(Local(tasks, **options))  # type: ignore[arg-type]
        return made[-1]

    yield new
    for local in made:
        await local.close()
    await tasks.close(grace=2)


@pytest.fixture
def local(make: Callable[..., Local]) -> Local:
    return make()


@pytest.fixture
def provider(local: Local, http: Http) -> Provider:
    return Table(http, local).open(CONFIG)


def asking(text: str, **options: object) -> Request:
    return Request(ALIAS, (user_message(text),), **options)  # type: ignore[arg-type]


def answer(provider: Provider, request: Request) -> AsyncGenerator[ProviderEvent, None]:
    return cast(AsyncGenerator[ProviderEvent, None], provider.stream(request))


async def everything(provider: Provider, request: Request) -> list[ProviderEvent]:
    return [event async for event in provider.stream(request)]


def running(local: Local) -> Running:
    assert local.running is not None
    return local.running


async def test_it_answers_with_real_tokens_as_they_come(local: Local, provider: Provider) -> None:
    events = await everything(provider, asking("Name three fruits.", max_output=30))
    assert events[0] == Starting("Starting the local model")
    texts = [event.text for event in events if isinstance(event, TextSeen)]
    assert len(texts) > 3
    assert len("".join(texts).split()) > 3
    (usage,) = [event.usage for event in events if isinstance(event, UsageSeen)]
    assert usage.input_tokens > 10
    assert usage.output_tokens >= len(texts) > 0
    assert events[-1] in (Done("end_turn", "stop"), Done("max_tokens", "length"))


async def test_the_second_answer_waits_for_no_start(local: Local, provider: Provider) -> None:
    await everything(provider, asking("Hello", max_output=3))
    first = running(local)
    events = await everything(provider, asking("Hello again", max_output=3))
    assert not [event for event in events if isinstance(event, Starting)]
    assert local.running is first


async def test_two_at_once_share_one_child(local: Local, provider: Provider) -> None:
    answers = await asyncio.gather(
        *(everything(provider, asking(f"Count to {n}", max_output=5)) for n in (3, 4))
    )
    assert all(isinstance(events[-1], Done) for events in answers)
    assert [len([event for event in events if isinstance(event, Starting)]) for events in answers] == [1, 1]


async def test_its_models_are_known_without_starting_it(local: Local, provider: Provider) -> None:
    (model,) = await provider.models()
    assert (model.wire_name, model.name, model.context_length) == (ALIAS, "SmolLM2 135M", 2048)
    assert local.running is None


async def test_a_prompt_longer_than_its_window_is_said_to_be(provider: Provider) -> None:
    with pytest.raises(ContextExceeded):
        await everything(provider, asking("word " * 3000))


async def test_killed_in_the_middle_it_is_an_error_and_there_again_for_the_next(
    local: Local, provider: Provider
) -> None:
    async with contextlib.aclosing(answer(provider, asking(TALE))) as events:
        async for event in events:
            if isinstance(event, TextSeen):
                break
        os.kill(running(local).process.pid, signal.SIGKILL)
        with pytest.raises(BrokenStream) as caught:
            async for _ in events:
                pass
    assert caught.value.person == (
        "The local model stopped in the middle of its answer. It is started again for the next message."
    )
    assert "-9" in str(caught.value)
    events_after = await everything(provider, asking("Hello", max_output=3))
    assert isinstance(events_after[-1], Done)


async def test_killed_before_it_said_anything_the_call_may_be_tried_again(
    local: Local, provider: Provider
) -> None:
    await everything(provider, asking("Hello", max_output=3))
    child = running(local).process
    asked = asyncio.ensure_future(everything(provider, asking("word " * 1800)))  # takes seconds to read
    await asyncio.sleep(0.2)
    os.kill(child.pid, signal.SIGKILL)
    with pytest.raises(Unreachable) as caught:
        await asked
    assert caught.value.may_retry
    assert isinstance((await everything(provider, asking("Hello", max_output=3)))[-1], Done)


async def test_killed_while_idle_nobody_notices(local: Local, provider: Provider) -> None:
    await everything(provider, asking("Hello", max_output=3))
    child = running(local).process
    os.kill(child.pid, signal.SIGKILL)
    await child.wait()
    assert isinstance((await everything(provider, asking("Hello", max_output=3)))[-1], Done)


async def test_it_is_stopped_when_nothing_uses_it(make: Callable[..., Local], http: Http) -> None:
    local = make(idle=0.05)
    provider = Table(http, local).open(CONFIG)
    async with contextlib.aclosing(answer(provider, asking(TALE))) as events:
        async for event in events:
            if isinstance(event, TextSeen):
                break
        await asyncio.sleep(0.2)  # longer than `idle`, but in use
        child = running(local).process
        assert child.returncode is None
    async with asyncio.timeout(5):
        assert await child.wait() == 0
    assert local.running is None
    assert isinstance((await everything(provider, asking("Hello", max_output=3)))[-1], Done)


async def test_closing_ends_it_at_once(local: Local, provider: Provider) -> None:
    await everything(provider, asking("Hello", max_output=3))
    child = running(local).process
    async with asyncio.timeout(1):
        await local.close()
    assert child.returncode == 0


async def test_stopping_the_one_who_started_it_does_not_stop_the_start(
    local: Local, provider: Provider
) -> None:
    first = asyncio.ensure_future(everything(provider, asking(TALE)))
    second = asyncio.ensure_future(everything(provider, asking("Hello", max_output=3)))
    await asyncio.sleep(0.05)
    first.cancel()
    assert isinstance((await second)[-1], Done)


async def test_nobody_without_its_key_is_answered(local: Local, http: Http) -> None:
    async with local.using() as child:
        for headers in ({}, {"authorization": "Bearer guess"}):
            for path in ("/models", "/chat/completions"):
                async with http.stream("GET", child.url + path, headers=headers, idle_timeout=5) as response:
                    assert response.status in (401, 404)
        assert child.key not in _told(child, "cmdline")
        assert child.key not in repr(child)
        assert _told(child, "environ") == ""


def _told(child: Running, file: str) -> str:
    """What anybody on this machine may read of the process."""
    return Path(f"/proc/{child.process.pid}/{file}").read_text()


async def test_it_listens_on_loopback_alone(local: Local) -> None:
    async with local.using() as child:
        assert child.url.startswith("http://127.0.0.1:")


PARENT = """
import asyncio, sys
from app.providers.local import Local
from app.tasks import Tasks

async def main():
    local = Local(Tasks("parent"))
    async with local.using() as child:
        print(child.process.pid, flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""


async def test_killing_the_parent_ends_the_child() -> None:
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PARENT, stdout=asyncio.subprocess.PIPE
    )
    assert parent.stdout is not None
    child = int(await parent.stdout.readline())
    parent.kill()
    await parent.wait()
    async with asyncio.timeout(5):
        while _is_alive(child):  # noqa: ASYNC110 - another process's end cannot be awaited
            await asyncio.sleep(0.01)


def _is_alive(pid: int) -> bool:
    """Whether the process runs; one that has ended and waits for its reaper does not."""
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


@pytest.mark.parametrize(
    "options", [{"enabled": False}, {"engine": "no_such_engine"}, {"weights": "no_such_model"}]
)
async def test_left_out_it_is_not_offered_and_breaks_nothing(
    make: Callable[..., Local], http: Http, options: dict[str, object]
) -> None:
    local = make(**options)
    assert (local.available, local.models) == (False, ())
    provider = Table(http, local).open(CONFIG)
    assert await provider.models() == []
    with pytest.raises(ModelMissing, match="left out"):
        await everything(provider, asking("Hello"))


async def test_a_start_that_fails_says_so_and_is_tried_anew(
    make: Callable[..., Local], http: Http, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "broken_weights"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "model.gguf").write_bytes(b"not a model")
    monkeypatch.syspath_prepend(tmp_path)
    local = make(weights="broken_weights")
    for _ in range(2):
        with pytest.raises(Unreachable) as caught:
            await everything(Table(http, local).open(CONFIG), asking("Hello"))
        assert caught.value.person.startswith("The local model could not be started.")
        assert "it ended with" in str(caught.value)
