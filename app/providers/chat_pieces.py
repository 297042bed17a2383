"""Two ways in which the pieces of text in a chat stream are alike, and what the decoder makes of each."""

import json
from typing import Any, NamedTuple

from app.providers.reasoning import Kind

# What has a say in a delta, in a choice and in a chunk, beside the one piece of text.
_SPEAKING = (
    "content", "reasoning_content", "reasoning", "thinking", "reasoning_details", "refusal", "tool_calls",
    "function_call",
)  # fmt: skip
_ENDING = ("finish_reason", "usage", "error")
_BESIDE = ("usage", "x_groq", "error", "base_resp")
_decode = json.JSONDecoder().raw_decode


class Same(NamedTuple):
    """What stands before and after the string in an event that holds one piece of text and says nothing else."""

    before: str
    after: str
    kind: Kind


def sameness(chunk: Any, text: str) -> Same | None:
    """How events like this one are recognised, if `chunk`, parsed from `text`, is such an event.

    Most events of a stream are the same but for one string. Once that is known the string alone is parsed, in a
    fraction of the time. It is sound: the name stands once in the event, nothing around the string is escaped,
    and every byte there must be the same, so nothing else can have changed.
    """
    match chunk:
        case {"choices": [{"delta": {"content": str(said), **others}, **choice}], **rest} if said:
            name, kind = '"content"', "text"
        case {"choices": [{"delta": {"reasoning_content": str(said), **others}, **choice}], **rest} if said:
            name, kind = '"reasoning_content"', "reasoning"
        case _:
            return None
    if (
        any(others.get(key) for key in _SPEAKING)
        or any(choice.get(key) for key in _ENDING)
        or choice.get("index")
    ):
        return None
    if any(rest.get(key) for key in _BESIDE) or text.count(name) != 1:
        return None
    colon = text.index(name) + len(name)
    before = text[: text.index('"', colon)]
    _, end = _decode(text, len(before))
    after = text[end:]
    plain = "\\" not in before and "\\" not in after and before[colon:].strip() == ":"
    return Same(before, after, "text" if kind == "text" else "reasoning") if plain else None


class Repeats:
    """Undoes a server that sends all the text so far in every delta, once that is certain.

    It is when the first three deltas each begin with the one before; the second is held back when it looks
    like that. https://github.com/QwenLM/qwen-code/pull/3896
    """

    def __init__(self) -> None:
        self.unlikely = False
        self._before = ""
        self._held = ""
        self._certain = False

    def feed(self, text: str) -> str:
        """What is new in `text`."""
        if self._certain:
            new = text.removeprefix(self._before)
            self._before = text if len(new) < len(text) else self._before + text
            return new
        if not self._before:
            self._before = text
            return text
        if not self._held and len(text) > len(self._before) and text.startswith(self._before):
            self._held = text
            return ""
        if self._held and text.startswith(self._held) and len(set(self._held)) > 3:
            self._certain, new, self._before = True, text[len(self._before) :], text
            self._held = ""
            return new
        self.unlikely = True
        return self.close() + text

    def close(self) -> str:
        held, self._held = self._held, ""
        return held
