"""Reads the stream of an OpenAI chat completion: bytes in, neutral events out.

Every server that says it speaks this API has its own way of doing so; tests/fixtures/wire holds recordings of
what they send, and what each must come to. The rules, in short:

- Of a chunk only choice 0 counts. `delta` is read, a `message` beside it is not; a chunk that has only a
  `message` is a whole completion, or the repetition of one at the end.
- Text that came in one `feed` is given out as one event, reasoning likewise.
- The last finish_reason and the last usage with numbers count. `[DONE]` ends the stream.
- A chunk that does not parse is passed over.
"""

import json
from collections.abc import Callable, Collection, Mapping
from typing import Any

from app.core.messages import StopReason, Usage
from app.providers.base import CallSeen, Done, ProviderEvent, ReasoningSeen, TextSeen, UsageSeen
from app.providers.calls import CallAssembler, new_call_id, paired
from app.providers.chat_pieces import Repeats, Same, sameness
from app.providers.failures import WireError, error_in
from app.providers.reasoning import Kind, ReasoningSplitter
from app.providers.sse import LIMIT, Event, EventReader, EventTooLong

_DONE = "[DONE]"
# How often in a row the look of an event is learned in vain before it is given up (OpenAI pads at random).
_TRIES = 8
_STOPS: Mapping[str, StopReason] = {
    "length": "max_tokens",
    "max_tokens": "max_tokens",
    "max_output_tokens": "max_tokens",
    "model_length": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
    "content_filter": "refusal",
    "sensitive": "refusal",
    "guardrail_intervened": "refusal",
    "refusal": "refusal",
    "safety": "refusal",
    "recitation": "refusal",
    "prohibited_content": "refusal",
    "error": "error",
    "network_error": "error",
    "insufficient_system_resource": "error",
    "abort": "error",
}
_decode = json.JSONDecoder().raw_decode
_decode_lenient = json.JSONDecoder(strict=False).raw_decode


class ChatDecoder:
    """Feed it the body as it comes, then `close` it; the same bytes give the same whole however they are cut.

    `ended` says that the end mark was read and the rest need not be; `finished` that it or a finish_reason was.
    `error` is what the endpoint reported; the events before it are to be used first. `seen` says that anything
    of an answer came. `taken` are the ids of earlier calls of the conversation.
    """

    def __init__(self, taken: Collection[str] = (), new_id: Callable[[], str] = new_call_id) -> None:
        self.error: WireError | None = None
        self.ended = False
        self.seen = False
        self._reader = EventReader()
        self._splitter = ReasoningSplitter()
        self._calls = CallAssembler(taken, new_id)
        self._repeats: Repeats | None = Repeats()
        self._run: Kind = "text"  # what the pieces below are
        self._pieces: list[str] = []
        self._halves: dict[Kind, str] = {}  # a surrogate that waits for the other one
        self._events: list[ProviderEvent] = []
        self._parsed = False  # whether anything was an event of this API
        self._whole = False  # whether a whole completion came, which needs no end mark
        self._foreign: list[str] = []
        self._foreign_size = 0
        self._same: Same | None = None
        self._tries = _TRIES
        self._finish = ""
        self._refused = False
        self._usage: Mapping[str, Any] | None = None

    @property
    def finished(self) -> bool:
        return self.ended or bool(self._finish)

    @property
    def awaits_end(self) -> bool:
        """Whether all was said, but usage and end mark may still come."""
        return self.finished and not self.ended and self.error is None

    def feed(self, data: bytes) -> list[ProviderEvent]:
        """What `data` brings. Never raises; see `error`."""
        if self.ended:
            return []
        try:
            self._take_all(self._reader.feed(data))
        except EventTooLong:
            self._overflow()
        return self._given()

    def close(self) -> list[ProviderEvent]:
        """What was held back, then calls, usage and, unless there is an `error`, `Done`."""
        if not self.ended:
            self._take_all(self._reader.close())
        self._read_foreign()
        if self._repeats is not None:
            held, self._repeats = self._repeats.close(), None
            if held:
                self._say("text", held)
        self._flush()
        for kind in tuple(self._halves):
            self._halves.pop(kind)
            self._give(kind, "\ufffd")
        for said in self._splitter.close():
            self._out(*said)
        calls = [CallSeen(call) for call in self._calls.finish()]
        self._events += calls
        if self._usage is not None:
            self._events.append(UsageSeen(_usage(self._usage)))
        stop = self._stop_reason(bool(calls))
        if self.error is None:
            self._events.append(Done(stop, self._finish or None))
        return self._given()

    def _overflow(self) -> None:
        """Something that is kept until the end has grown past what anybody sends."""
        self._fail(WireError(type="invalid_stream", message="the answer is too long"))
        self.ended = True

    def _take_all(self, events: list[Event]) -> None:
        for name, text in events:
            if self.ended:
                return
            if name is None:
                self._take_foreign(text)
                continue
            if self._same is not None and not name and self._take_same(text, self._same):
                continue
            try:
                value, end = _decode(text)
            except (ValueError, RecursionError):
                value, end = None, -1
            if end == len(text):
                self._take(value, name == "error")
                if self._tries and not name:
                    self._same = sameness(value, text)
                    self._tries -= 1
            elif not self._take_salvaged(text) and name == "error":
                self._fail(WireError(message=text))

    def _take_same(self, text: str, same: Same) -> bool:
        """Take an event that differs from an earlier one in nothing but its piece of text."""
        before, after, kind = same
        if not (text.startswith(before) and text.endswith(after)):
            return False
        try:
            said, end = _decode(text, len(before))
        except ValueError:
            return False
        if type(said) is not str or not said or end != len(text) - len(after):
            return False
        self._tries = _TRIES
        self._say(kind, said)
        return True

    def _take_salvaged(self, text: str) -> bool:
        """Take what is in an event that is not exactly one JSON value. False: nothing is."""
        values = _salvaged(text)
        for value in values:
            if not self.ended:
                self._take(value)
        return bool(values)

    def _take_foreign(self, line: str) -> None:
        """A line that is no event: a bare JSON answer or error, a web page, or rubbish between events."""
        opens = line.startswith(("{", "["))
        if opens and not self._foreign and self._take_salvaged(line):
            return
        if opens or self._foreign or not self._parsed:
            self._foreign.append(line)
            self._foreign_size += len(line)
            if self._foreign_size > LIMIT:
                self._overflow()

    def _read_foreign(self) -> None:
        """What was no event, now that all of it is there: JSON over several lines, or no answer of this API."""
        text = "\n".join(self._foreign).strip()
        self._foreign.clear()
        if text.startswith(("{", "[")):
            self._take_salvaged(text)
        elif text and not self._parsed:
            self._fail(WireError(type="invalid_stream", message=text[:300]))

    def _take(self, chunk: Any, is_error: bool = False) -> None:
        try:
            self._take_chunk(chunk, is_error)
        except RecursionError:
            self._overflow()

    def _take_chunk(self, chunk: Any, is_error: bool) -> None:
        if type(chunk) is not dict:
            if chunk == _DONE:
                self._read_foreign()
                self.ended = True
            elif error := error_in(chunk, certain=is_error):
                self._fail(error)
            return
        self._parsed = True
        choices = chunk.get("choices")
        if choices and type(choices) is list:
            for choice in choices:
                if type(choice) is dict:
                    self._take_choice(choice)
        if (not choices or "error" in chunk or "base_resp" in chunk) and (
            error := error_in(chunk, certain=is_error and not choices)
        ):
            self._fail(error)
        usage = chunk.get("usage")
        if usage or (usage := chunk.get("x_groq")):
            self._take_usage(usage)

    def _take_choice(self, choice: dict[str, Any]) -> None:
        if choice.get("index") not in (None, 0, "0"):
            return
        delta = choice.get("delta")
        if type(delta) is dict:
            self._take_delta(delta)
        elif type(message := choice.get("message")) is dict:
            self._take_message(message)
        elif delta is None and type(text := choice.get("text")) is str:
            self._say("text", text)
        if finish := choice.get("finish_reason"):
            self._finish = str(finish)
        if usage := choice.get("usage"):
            self._take_usage(usage)
        if "error" in choice and (error := error_in({"error": choice["error"]})):
            self._fail(error)

    def _take_message(self, message: dict[str, Any]) -> None:
        """A whole completion; or, at the end of a stream, what the stream said already."""
        self._whole = True
        if not self.seen:
            self._take_delta(message)
        elif not self._calls:
            self._calls.feed(message.get("tool_calls"))

    def _take_delta(self, delta: dict[str, Any]) -> None:
        get = delta.get
        if thought := get("reasoning_content") or get("reasoning") or get("thinking"):
            self._say_parts(thought, "reasoning")
        elif details := get("reasoning_details"):
            self._say_parts(details, "reasoning")
        content = get("content")
        if type(content) is str:
            if content:
                self._say("text", content)
        elif content:
            self._say_parts(content, "text")
        if refusal := get("refusal"):
            self._refused = True
            self._say_parts(refusal, "text")
        if calls := get("tool_calls"):
            self._calls.feed(calls)
            self.seen = True
            if self._calls.size > LIMIT:
                self._overflow()
        if function := get("function_call"):
            self._calls.feed_function(function)
            self.seen = True

    def _say_parts(self, parts: Any, kind: Kind) -> None:
        """Text of a string, of a typed part, or of a list of parts, in which some may be thoughts."""
        if isinstance(parts, str):
            if parts:
                self._say(kind, parts)
        elif isinstance(parts, list):
            for part in parts:
                self._say_parts(part, kind)
        elif isinstance(parts, dict):
            type_ = str(parts.get("type", ""))
            self._refused = self._refused or type_ == "refusal"
            kind = "reasoning" if type_.startswith(("thinking", "reasoning")) else kind
            for name in ("thinking", "reasoning", "text", "summary", "content", "refusal"):
                if parts.get(name):
                    self._say_parts(parts[name], kind)
                    return

    def _say(self, kind: Kind, text: str) -> None:
        if kind == "text" and self._repeats is not None:
            text = self._repeats.feed(text)
            if self._repeats.unlikely:
                self._repeats = None
        if kind != self._run:
            self._flush()
            self._run = kind
        self._pieces.append(text)
        self.seen = True

    def _flush(self) -> None:
        if self._pieces:
            pieces, self._pieces = self._pieces, []
            self._give(self._run, pieces[0] if len(pieces) == 1 else "".join(pieces))

    def _give(self, kind: Kind, text: str) -> None:
        """Clean `text` and give it out. Both halves of a surrogate pair may come in two deltas."""
        if self._halves:
            text = self._halves.pop(kind, "") + text
        if not text.isascii() and "\ud800" <= text[-1] <= "\udbff":
            self._halves[kind] = text[-1]
            text = text[:-1]
        if not text.isascii() or "\0" in text:
            text = paired(text)
        if kind == "reasoning" or self._splitter.plain:
            self._out(kind, text)
            return
        for said in self._splitter.feed(text):
            self._out(*said)

    def _out(self, kind: Kind, text: str) -> None:
        if text:
            self._events.append(TextSeen(text) if kind == "text" else ReasoningSeen(text))

    def _given(self) -> list[ProviderEvent]:
        self._flush()
        events, self._events = self._events, []
        return events

    def _take_usage(self, usage: Any) -> None:
        if not isinstance(usage, dict):
            return
        usage = usage.get("usage", usage)  # Groq: x_groq.usage
        if isinstance(usage, dict) and _count(usage, *_INPUT) is not None:
            self._usage = usage

    def _fail(self, error: WireError) -> None:
        self.error = self.error or error

    def _stop_reason(self, calls: bool) -> StopReason | None:
        if not self._finish and not self.ended and not self._whole:
            return None
        stop = _STOPS.get(self._finish.lower(), "end_turn")
        if stop == "error":
            self._fail(WireError(message=f"finish_reason {self._finish}"))
        elif stop == "end_turn" and (calls or self._refused):
            return "tool_use" if calls else "refusal"
        return stop


def _salvaged(text: str) -> list[Any]:
    """The JSON values in an event that should be one: behind a doubled `data:`, glued together, with `[DONE]`."""
    values: list[Any] = []
    text = text.strip()
    while text:
        if text.startswith("data:"):
            text = text[5:].lstrip()
        elif text.startswith(_DONE):
            return [*values, _DONE]
        else:
            try:
                value, end = _decode_lenient(text)
            except (ValueError, RecursionError):
                break
            values.append(value)
            text = text[end:].lstrip()
    return values


_INPUT = ("prompt_tokens", "input_tokens", "completion_tokens", "output_tokens")


def _count(numbers: Any, *names: str) -> int | None:
    """The first of `names` that is a number."""
    if isinstance(numbers, dict):
        for name in names:
            value = numbers.get(name)
            if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 2**53:
                return int(value)
    return None


def _usage(numbers: Mapping[str, Any]) -> Usage:
    """Usage as the endpoint counts it; cached tokens are part of the input, reasoning of the output."""
    sent = numbers.get("prompt_tokens_details") or numbers.get("input_tokens_details")
    got = numbers.get("completion_tokens_details") or numbers.get("output_tokens_details")
    cached = _count(sent, "cached_tokens")
    if cached is None:  # DeepSeek, Moonshot, Anthropic behind a proxy
        cached = _count(numbers, "prompt_cache_hit_tokens", "cached_tokens", "cache_read_input_tokens")
    written = _count(sent, "cache_write_tokens", "cache_creation_tokens")
    if written is None:
        written = _count(numbers, "cache_creation_input_tokens")
    return Usage(
        input_tokens=_count(numbers, "prompt_tokens", "input_tokens") or 0,
        output_tokens=_count(numbers, "completion_tokens", "output_tokens") or 0,
        cache_read_tokens=cached or 0,
        cache_write_tokens=written or 0,
        reasoning_tokens=_count(got, "reasoning_tokens") or 0,
    )
