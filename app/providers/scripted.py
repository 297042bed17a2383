"""A provider that plays a written script: for tests, and for the tour. It needs no network and no key.

An endpoint of this API has the base address `script:NAME`, for a script in the registry that the provider was
given, or `script:{...}` with the script itself as JSON:

    {"turns": [[step, ...], ...], "models": ["name", ...]}

A turn is one model call. Which one is played goes by the assistant messages in the transcript, so a script goes
on rightly after a restart and on every branch; the last turn is played for all that follow. Steps:

    {"text": "..."}  {"reasoning": "..."}     said at once, or with "rate": N in words at N a second;
                                              {{ prompt }} stands for the last user message
    {"call": {"name": "...", "arguments": {...} or "text as it came", "id": "..."}}
    {"usage": {"input": N, "output": N, "cached": N, "reasoning": N}}
    {"wait": SECONDS}                         longer than the endpoint's time-out, it ends as that
    {"hang": true}                            nothing more, until that time-out
    {"error": "rate-limited", "message": "...", "retry_after": SECONDS}      by its name in core/errors.py
    {"stop": "max_tokens"}                    the end, with this reason
    {"cut": true}                             the end without an end mark

After the last step a turn ends as `tool_use` if it called something, else as `end_turn`.
"""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from app.core.errors import IdleTimeout, ProviderError, WrongProtocol
from app.core.messages import StopReason, ToolUsePart, Usage
from app.core.text import fields_of, fill
from app.outbound import Http
from app.providers.base import (
    CallSeen,
    Done,
    EndpointConfig,
    FoundModel,
    ProviderEvent,
    ReasoningSeen,
    Request,
    TextSeen,
    UsageSeen,
)
from app.providers.calls import CallAssembler, calls_in

SCHEME = "script:"
HELLO: Mapping[str, Any] = {
    "turns": [
        [
            {"reasoning": "Somebody says something for the first time. A greeting will do.", "rate": 40},
            {
                "text": "Good evening. This reply comes from a script, so it costs nothing. You wrote:\n\n",
                "rate": 40,
            },
            {"text": "> {{ prompt }}\n\nClose this page while I am writing, and come back: ", "rate": 40},
            {"text": "what I wrote meanwhile will be here.", "rate": 40},
            {"usage": {"input": 24, "output": 60, "reasoning": 14}},
        ]
    ]
}
SCRIPTS: Mapping[str, Mapping[str, Any]] = {"hello": HELLO}

_ERRORS = {error.name: error for error in ProviderError.__subclasses__()}
_STOPS = get_args(StopReason)
_WORD = re.compile(r"\S+\s*|\s+")


class BadScript(ValueError):
    """A script is not written as the top of this module says."""


@dataclass(frozen=True)
class Script:
    """A script that was checked. Each step is an object as it was written."""

    turns: tuple[tuple[Mapping[str, Any], ...], ...]
    models: tuple[str, ...] = ("script",)


def read_script(written: Any) -> Script:
    """Check a script. Raises BadScript, which says where it is wrong."""
    if not isinstance(written, Mapping) or not isinstance(written.get("turns"), list) or not written["turns"]:
        raise BadScript('a script is {"turns": [[step, ...], ...]}')
    for number, turn in enumerate(written["turns"], 1):
        if not isinstance(turn, list):
            raise BadScript(f"turn {number} is no list of steps")
        if problem := next((problem for step in turn if (problem := _problem(step))), None):
            raise BadScript(f"turn {number}: {problem}")
    models = tuple(str(name) for name in written.get("models", ["script"]))
    return Script(tuple(tuple(turn) for turn in written["turns"]), models)


def _problem(step: Any) -> str | None:
    """What is wrong with a step, if anything is."""
    if not isinstance(step, Mapping):
        return f"{step!r} is no step"
    kinds = [kind for kind in _PLAYED if kind in step]
    if len(kinds) != 1:
        return f"{dict(step)} is not one of {', '.join(_PLAYED)}"
    kind, value = kinds[0], step[kinds[0]]
    if not isinstance(value, _PLAYED[kind]):
        return f"{kind} cannot be {value!r}"
    if kind == "call":
        return None if isinstance(step["call"].get("name"), str) else "a call has a name"
    if kind == "error" and value not in _ERRORS:
        return f"{value!r} is none of the errors {', '.join(sorted(_ERRORS))}"
    if kind == "stop" and value not in _STOPS:
        return f"{value!r} is none of the stop reasons {', '.join(_STOPS)}"
    if kind in ("text", "reasoning") and (unknown := fields_of(step[kind]) - {"prompt"}):
        return f"{{{{ {unknown.pop()} }}}} stands for nothing"
    rate = step.get("rate", 1)
    return None if isinstance(rate, int | float) and rate > 0 else f"a rate cannot be {rate!r}"


_PLAYED: Mapping[str, type | tuple[type, ...]] = {
    "text": str,
    "reasoning": str,
    "call": Mapping,
    "usage": Mapping,
    "wait": (int, float),
    "hang": bool,
    "error": str,
    "stop": str,
    "cut": bool,
}


class Scripted:
    """Plays `config.base_url`. `scripts` are those that can be named; `running` counts the streams being played."""

    def __init__(
        self, config: EndpointConfig, http: Http | None = None, scripts: Mapping[str, Any] = SCRIPTS
    ) -> None:
        self.config = config
        self.running = 0
        self._scripts = scripts

    async def models(self) -> list[FoundModel]:
        return [
            FoundModel(name, context_length=8192, capabilities=("tools",)) for name in self._script().models
        ]

    async def stream(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        """See `Provider`."""
        script = self._script()
        turn = sum(message.role == "assistant" for message in request.messages)
        prompt = next((message.text for message in reversed(request.messages) if message.role == "user"), "")
        calls = CallAssembler(calls_in(request.messages))
        self.running += 1
        try:
            done: Done | None = None
            for step in script.turns[min(turn, len(script.turns) - 1)]:
                if (done := _end_in(step)) is not None:
                    break
                async for event in self._play(step, prompt, calls):
                    yield event
            whole: list[ToolUsePart] = list(calls.finish())
            for call in whole:
                yield CallSeen(call)
            yield done or Done("tool_use" if whole else "end_turn", "script")
        finally:
            self.running -= 1

    async def _play(
        self, step: Mapping[str, Any], prompt: str, calls: CallAssembler
    ) -> AsyncIterator[ProviderEvent]:
        if "text" in step or "reasoning" in step:
            kind = TextSeen if "text" in step else ReasoningSeen
            said = fill(step["text"] if "text" in step else step["reasoning"], {"prompt": prompt})
            for piece in _WORD.findall(said) if step.get("rate") else [said]:
                if step.get("rate"):
                    await asyncio.sleep(1 / step["rate"])
                yield kind(piece)
        elif "call" in step:
            call = step["call"]
            calls.feed([{"id": call.get("id"), "function": call}])
        elif "usage" in step:
            yield UsageSeen(_usage(step["usage"]))
        elif "error" in step:
            raise self._error(step)
        else:
            await self._silence(step.get("wait", self.config.idle_timeout))

    async def _silence(self, seconds: float) -> None:
        limit = self.config.idle_timeout
        await asyncio.sleep(min(seconds, limit))
        if seconds >= limit:
            said = f"'{self.config.label}' has sent nothing for {limit:g} seconds. What had come is kept."
            raise IdleTimeout(said, f"{self.config.label}: the script is silent")

    def _error(self, step: Mapping[str, Any]) -> ProviderError:
        kind = _ERRORS[step["error"]]
        said = step.get("message", f"'{self.config.label}' failed, as its script says.")
        error = kind(said, f"{self.config.label}: scripted {kind.name}")
        if "retry_after" in step and hasattr(error, "retry_after"):
            error.retry_after = float(step["retry_after"])
        return error

    def _script(self) -> Script:
        """The script of this endpoint. Raises WrongProtocol."""
        written: Any = self.config.base_url.removeprefix(SCHEME)
        try:
            written = json.loads(written) if written.startswith("{") else self._scripts[written]
            return read_script(written)
        except (KeyError, ValueError) as error:
            said = f"'{self.config.label}' has no script to play. Check its address under Settings, Models."
            raise WrongProtocol(said, f"{self.config.label}: {error}") from error


def _end_in(step: Mapping[str, Any]) -> Done | None:
    if "stop" in step:
        return Done(step["stop"], "script")
    return Done(None) if step.get("cut") else None


def _usage(step: Mapping[str, Any]) -> Usage:
    return Usage(
        input_tokens=step.get("input", 0),
        output_tokens=step.get("output", 0),
        cache_read_tokens=step.get("cached", 0),
        reasoning_tokens=step.get("reasoning", 0),
    )
