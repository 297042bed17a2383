"""Finds servers of models on this machine: asks the ports they usually have for a list of models.

A server is recognised by what it answers, never by its port alone. The look is taken in the background and
remembered, so that no page waits for a port where something is slow.
"""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from app.core.text import is_storable
from app.outbound import Http, OutboundError
from app.tasks import Tasks


@dataclass(frozen=True, slots=True)
class Place:
    """A port where `name` usually listens, and the path of its OpenAI-compatible API."""

    port: int
    name: str
    path: str = "/v1"


@dataclass(frozen=True, slots=True)
class Found:
    """A server that answered: an endpoint that can be added as it is."""

    name: str
    url: str
    models: tuple[str, ...]


USUAL = (
    Place(11434, "Ollama"),
    Place(1234, "LM Studio"),
    Place(8080, "llama.cpp"),
    Place(8000, "vLLM"),
    Place(1337, "Jan"),
    Place(4891, "GPT4All"),
    Place(5000, "Text generation web UI"),
    Place(5001, "KoboldCpp"),
    Place(12434, "Docker Model Runner", "/engines/v1"),
    Place(30000, "SGLang"),
)
# Who says `owned_by` what, for servers on somebody else's usual port.
_OWNERS = {
    "llamacpp": "llama.cpp",
    "vllm": "vLLM",
    "sglang": "SGLang",
    "koboldcpp": "KoboldCpp",
    "library": "Ollama",
    "organization_owner": "LM Studio",
    "docker": "Docker Model Runner",
    "tabbyapi": "TabbyAPI",
    "lemonade": "Lemonade",
}
_OURSELVES = "nightdesk"
_ANSWER_SECONDS = 1.0
_FRESH_SECONDS = 30.0
_FIRST_LOOK_SECONDS = (
    0.25  # what the very first caller waits at most: closed ports answer within a millisecond
)
_LONGEST_LIST = 1024 * 1024
_MOST_MODELS = 500
_LONGEST_NAME = 200


class Discovery:
    """`http` is of the reach `discovery`: loopback alone, and not the port that we listen on ourselves."""

    def __init__(self, http: Http, tasks: Tasks, places: Sequence[Place] = USUAL) -> None:
        self._http = http
        self._tasks = tasks
        self._places = places
        self._found: tuple[Found, ...] = ()
        self._looked: float | None = None
        self._looking: asyncio.Task[None] | None = None

    async def found(self) -> tuple[Found, ...]:
        """What the last look found. A stale one starts the next look, which only the first caller waits for,
        and not for long."""
        clock = asyncio.get_running_loop().time
        if self._looking is None and (self._looked is None or clock() - self._looked > _FRESH_SECONDS):
            self._looking = self._tasks.start("look for local servers", self._look())
        if self._looked is None and self._looking is not None:
            await asyncio.wait({self._looking}, timeout=_FIRST_LOOK_SECONDS)
        return self._found

    async def _look(self) -> None:
        try:
            asked = [self._tasks.start(f"ask port {place.port}", self._ask(place)) for place in self._places]
            await asyncio.wait(asked)
            answers = [task.result() for task in asked if not task.cancelled()]
            self._found = tuple(answer for answer in answers if answer is not None)
            self._looked = asyncio.get_running_loop().time()
        finally:
            self._looking = None

    async def _ask(self, place: Place) -> Found | None:
        url = f"http://127.0.0.1:{place.port}{place.path}"
        try:
            async with (
                asyncio.timeout(_ANSWER_SECONDS),
                self._http.stream(
                    "GET",
                    f"{url}/models",
                    headers={"accept": "application/json"},
                    idle_timeout=_ANSWER_SECONDS,
                ) as response,
            ):
                if response.status != 200 or "json" not in response.headers.get("content-type", ""):
                    return None
                body = await response.read(_LONGEST_LIST)
        except (OutboundError, TimeoutError):
            return None
        return recognise(place, url, body)


def recognise(place: Place, url: str, body: bytes) -> Found | None:
    """The server behind an answer, if it is a list of models in the shape that all of these servers share."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(answer, dict) or answer.get("object") != "list" or "data" not in answer:
        return None
    listed = answer["data"] if answer["data"] is not None else []  # Ollama without a model says null
    if not isinstance(listed, list) or not all(map(_is_model, listed)):
        return None
    owner = str(listed[0]["owned_by"]).lower() if listed else ""
    if owner == _OURSELVES:
        return None
    names = tuple(dict.fromkeys(item["id"] for item in listed[:_MOST_MODELS]))
    return Found(_OWNERS.get(owner, place.name), url, names)


def _is_model(item: Any) -> bool:
    if not isinstance(item, dict) or item.get("object") != "model":
        return False
    name = item.get("id")
    is_name = isinstance(name, str) and 0 < len(name) <= _LONGEST_NAME and is_storable(name)
    return is_name and isinstance(item.get("owned_by"), str)
