"""The recorded streams, and what a decoder makes of bytes, in the form of the expected results."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.providers.base import CallSeen, Done, ProviderEvent, ReasoningSeen, TextSeen, UsageSeen
from app.providers.chat_decoder import ChatDecoder
from app.providers.failures import WireError

FOLDER = Path(__file__).resolve().parents[1] / "fixtures" / "wire"


@dataclass(frozen=True)
class Recorded:
    """One recorded stream. `about` is its entry in the manifest."""

    name: str
    body: bytes
    expected: Mapping[str, Any]
    about: Mapping[str, Any]


def recorded(api: str = "openai-chat") -> list[Recorded]:
    entries = json.loads((FOLDER / "manifest.json").read_text())["fixtures"]
    return [
        Recorded(
            Path(entry["file"]).stem,
            (FOLDER / entry["file"]).read_bytes(),
            json.loads((FOLDER / entry["expected"]).read_text()),
            entry,
        )
        for entry in entries
        if entry["api"] == api
    ]


def made_up() -> str:
    """The id of a call that came without one."""
    return "made-up"


def decoder() -> ChatDecoder:
    return ChatDecoder(new_id=made_up)


def decode(*pieces: bytes) -> dict[str, Any]:
    """What a stream that comes in `pieces` comes to."""
    reader = decoder()
    events = [event for piece in pieces for event in reader.feed(piece)]
    return outcome(events + reader.close(), reader.error)


def outcome(events: Iterable[ProviderEvent], error: WireError | None) -> dict[str, Any]:
    """Events in the form of an `.expected.json`, without its `extra`."""
    found: dict[str, Any] = {
        "text": "",
        "reasoning": "",
        "tool_calls": [],
        "stop_reason": None,
        "usage": None,
    }
    for event in events:
        if isinstance(event, TextSeen):
            found["text"] += event.text
        elif isinstance(event, ReasoningSeen):
            found["reasoning"] += event.text
        elif isinstance(event, CallSeen):
            call = event.call
            arguments = call.arguments if call.input is None else call.input
            found["tool_calls"].append({"name": call.name, "arguments": arguments})
        elif isinstance(event, UsageSeen):
            found["usage"] = _numbers(event)
        elif isinstance(event, Done):
            found["stop_reason"] = event.stop_reason
    if error is not None:
        parts = {"type": error.type, "code": error.code, "message": error.message}
        found["error"] = {name: value for name, value in parts.items() if value is not None}
        found["stop_reason"] = "error"
    found["reasoning"] = " ".join(found["reasoning"].split())
    return found


def _numbers(seen: UsageSeen) -> dict[str, int]:
    usage = seen.usage
    numbers = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
    return numbers | ({"cache_read_tokens": usage.cache_read_tokens} if usage.cache_read_tokens else {})


def chunk(delta: Mapping[str, Any] | None = None, finish: str | None = None, **fields: Any) -> bytes:
    """One event of a stream, with a single choice unless `choices` is among `fields`."""
    choice: dict[str, Any] = {"index": 0, "finish_reason": finish}
    if delta is not None:
        choice["delta"] = delta
    return b"data: " + json.dumps({"choices": [choice], **fields}).encode() + b"\n\n"


def text(said: str) -> bytes:
    return chunk({"content": said})


def call(**fragment: Any) -> bytes:
    """One fragment of a tool call; `name` and `arguments` go where they belong."""
    function = {name: fragment.pop(name) for name in ("name", "arguments") if name in fragment}
    return chunk({"tool_calls": [{**fragment, "function": function}]})


DONE = b"data: [DONE]\n\n"
END = chunk({}, "stop") + DONE
END_OF_CALLS = chunk({}, "tool_calls") + DONE
