"""What the scripted upstream can answer: each mode is a generator of the steps of one response.

A step is `bytes` (written at once, as one chunk of the transfer encoding), a `float` (seconds to wait,
counted from when the last wait was due, so that a rate does not drift), a `Head`, or a `Step`.
A generator that returns ends the response properly.

A mode is asked for by the request's model name, `mode` or `mode?option=value&option=value`, or by a script
that stands for that name (see `upstream.Upstream.script`). Options of every mode that streams text:

    tokens=40       text deltas to send          tps=0         deltas a second, 0: as fast as possible
    seed=0          changes the text             wait=0        seconds before the headers
    burst=1         deltas per write             stamp=0       1: each ends in `@` and monotonic time in us
    usage=1         0: never send usage          reasoning=0   reasoning deltas before the text
"""

import enum
import hashlib
import json
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from time import monotonic_ns
from typing import Any
from urllib.parse import parse_qsl


class Step(enum.Enum):
    """The steps that are neither bytes nor a wait."""

    HANG = "nothing more comes, the connection stays open"
    RESET = "the connection is reset"
    CUT = "the connection is closed without the end of the transfer encoding"


@dataclass(frozen=True)
class Head:
    """Status and headers of the response; `length` None means chunked."""

    status: int = 200
    type: str = "text/event-stream"
    headers: Mapping[str, str] = field(default_factory=dict)
    length: int | None = None


Steps = Iterator[bytes | float | Head | Step]


@dataclass(frozen=True)
class Call:
    """One request as a mode sees it."""

    prompt: str
    body: Mapping[str, Any]
    options: Mapping[str, str]

    def number(self, name: str, otherwise: float) -> float:
        return float(self.options.get(name, otherwise))

    def count(self, name: str, otherwise: int) -> int:
        return int(self.options.get(name, otherwise))

    @property
    def text(self) -> str:
        """The text that a normal reply to this call holds."""
        return text_of(self.prompt, self.count("seed", 0), self.count("tokens", 40))


def parse(model: str) -> tuple[str, dict[str, str]]:
    """The mode and the options in a model's name."""
    name, _, options = model.partition("?")
    return name, dict(parse_qsl(options))


# Words with one to four bytes a character and of many lengths: what is cut in the wrong place shows.
_LANDSCAPE = (
    "amber birch cliff delta ember fjord grove harbor island juniper kelp lagoon meadow north ocean pebble "
    "quartz river stone timber umber valley willow xenon yarrow zephyr Ärger Größe naïve façade smörgås żółw "
    "čeština привет мир 夜 勤務 机 안녕 café 🌍 👩‍👩‍👧‍👦 ∑ →"
)
_WORDS = tuple(_LANDSCAPE.split())


def tokens_of(prompt: str, seed: int = 0, start: int = 0) -> Iterator[str]:
    """The endless deltas that answer `prompt`: a word, its number, a blank; each 50th ends a paragraph."""
    digest = hashlib.sha256(f"{seed}:{prompt}".encode("utf-8", "surrogatepass")).digest()
    index = start
    while True:
        word = _WORDS[(digest[index % 32] + index * 7) % len(_WORDS)]
        yield f"{word}-{index}\n\n" if index % 50 == 49 else f"{word}-{index} "
        index += 1


def text_of(prompt: str, seed: int = 0, tokens: int = 40) -> str:
    """The whole answer to `prompt`: any gap, repeat or swap in what a follower has shows against it."""
    source = tokens_of(prompt, seed)
    return "".join(next(source) for _ in range(tokens))


_BEFORE = b'data: {"id":"chatcmpl-up","object":"chat.completion.chunk","created":1750000000,"model":"up",'
_TEXT = _BEFORE + b'"choices":[{"index":0,"delta":{"content":"'
_AFTER = b'"},"finish_reason":null}]}\n\n'
DONE = b"data: [DONE]\n\n"


def event(**fields: Any) -> bytes:
    """One `data:` event of a chunk with `fields`."""
    return _BEFORE + json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()[1:] + b"\n\n"


def delta(finish: str | None = None, **fields: Any) -> bytes:
    return event(choices=[{"index": 0, "delta": fields, "finish_reason": finish}])


def _said(token: str, stamp: bool) -> bytes:
    if stamp:
        word = token.rstrip()
        token = f"{word}@{monotonic_ns() // 1000}{token[len(word) :]}"
    return _TEXT + token.replace("\n", "\\n").encode() + _AFTER


def _wait(call: Call) -> Steps:
    if seconds := call.number("wait", 0):
        yield seconds


def _opening(call: Call) -> Steps:
    yield from _wait(call)
    yield Head()
    yield delta(role="assistant", content="")


def _said_text(call: Call, tokens: int, start: int = 0) -> Steps:
    tps, burst, stamp = call.number("tps", 0), call.count("burst", 1), call.options.get("stamp") == "1"
    source, gap = tokens_of(call.prompt, call.count("seed", 0), start), burst / tps if tps else 0.0
    for first in range(0, tokens, burst):
        if gap and first:
            yield gap
        if burst == 1:
            yield _said(next(source), stamp)
        else:
            yield b"".join(_said(next(source), stamp) for _ in range(min(burst, tokens - first)))


def _reasoned(call: Call, count: int) -> Steps:
    tps, name = call.number("tps", 0), call.options.get("field", "reasoning_content")
    source = tokens_of("reasoning of " + call.prompt, call.count("seed", 0))
    if name == "think":
        yield delta(content="<th")
        yield delta(content="ink>\n")
    for _ in range(count):
        if tps:
            yield 1 / tps
        yield delta(**{"content" if name == "think" else name: next(source)})
    if name == "think":
        yield delta(content="</thi")
        yield delta(content="nk>\n\n")


def _closing(call: Call, finish: str = "stop") -> Steps:
    yield delta(finish)
    wanted = (call.body.get("stream_options") or {}).get("include_usage")
    if wanted and call.options.get("usage") != "0":
        yield event(choices=[], usage=usage(call))
    yield DONE


def usage(call: Call) -> dict[str, Any]:
    output = call.count("tokens", 40) + call.count("reasoning", 0)
    spent = len(json.dumps(call.body.get("messages", []))) // 4 + 1
    return {"prompt_tokens": spent, "completion_tokens": output, "total_tokens": spent + output}


def normal(call: Call) -> Steps:
    """A whole reply."""
    yield from _opening(call)
    yield from _reasoned(call, call.count("reasoning", 0))
    yield from _said_text(call, call.count("tokens", 40))
    yield from _closing(call, call.options.get("finish", "stop"))


def reasoning(call: Call) -> Steps:
    """A reply that thinks first: reasoning=20, field=reasoning_content | reasoning | think."""
    options = {"reasoning": "20", **call.options}
    yield from normal(Call(call.prompt, call.body, options))


def echo(call: Call) -> Steps:
    """What was asked, said again in deltas of size=4 characters, after reasoning=0 deltas."""
    yield from _opening(call)
    yield from _reasoned(call, call.count("reasoning", 0))
    size, tps = call.count("size", 4), call.number("tps", 0)
    for at in range(0, len(call.prompt), size):
        if tps and at:
            yield 1 / tps
        yield delta(content=call.prompt[at : at + size])
    yield from _closing(call)


_PROSE = (
    *("the", " lamp", " above", " small", " desk", " is", " lit"),
    *(",", " and", " pages", " are", " read", " every", " night"),
)


def prose(call: Call) -> Steps:
    """Plain English in tokens of about 4.6 bytes, as models send it; each 60th begins a paragraph."""
    tps, burst, tokens = call.number("tps", 0), call.count("burst", 1), call.count("tokens", 40)
    yield from _opening(call)
    for first in range(0, tokens, burst):
        if tps and first:
            yield burst / tps
        many = range(first, min(first + burst, tokens))
        yield b"".join(
            _said("\n\nThen" if n % 60 == 59 else _PROSE[n % len(_PROSE)], stamp=False) for n in many
        )
    yield from _closing(call)


def endless(call: Call) -> Steps:
    """Text for ever, at tps=50."""
    yield from _opening(call)
    yield from _said_text(Call(call.prompt, call.body, {"tps": "50", **call.options}), 2**62)


def hang(call: Call) -> Steps:
    """Nothing at all, not even headers; with after=N: N deltas, then nothing."""
    if "after" in call.options:
        yield from _opening(call)
        yield from _said_text(call, call.count("after", 0))
    yield Step.HANG


def reset(call: Call) -> Steps:
    """A reset after bytes=400 of the body (0: right after the headers); at=start: before the headers."""
    if call.options.get("at") == "start":
        yield Step.RESET
        return
    limit = call.count("bytes", 400)
    yield Head()
    whole = b"".join(step for step in normal(call) if isinstance(step, bytes))
    if limit:
        yield whole[:limit]
        yield 0.03
    yield Step.RESET


def truncate(call: Call) -> Steps:
    """after=10 deltas, then half of one; in=json (default), character, event (a whole one), arguments.

    The end is a proper one of the transfer encoding, or with cut=1 a bare close.
    """
    yield from _opening(call)
    yield from _said_text(call, call.count("after", 10))
    where = call.options.get("in", "json")
    if where == "arguments":
        yield _fragment(0, id="call_up0", name="write_file", arguments='{"path":"a.txt","content":"lor')
    elif where != "event":
        last = _TEXT + "夜夜🌍".encode()
        yield last[:-2] if where == "character" else last
    if call.options.get("cut") == "1":
        yield Step.CUT


def no_done(call: Call) -> Steps:
    """A whole reply without `[DONE]`; finish=0: without finish_reason as well; done=1: without that alone.

    hang=1: the connection stays open.
    """
    yield from _opening(call)
    yield from _said_text(call, call.count("tokens", 40))
    if call.options.get("done") == "1":
        yield DONE
    elif call.options.get("finish") != "0":
        yield delta("stop")
    if call.options.get("hang") == "1":
        yield Step.HANG


def _answer(status: int, body: bytes, kind: str, headers: Mapping[str, str]) -> Steps:
    yield Head(status, kind, headers, len(body))
    yield body


def status(call: Call) -> Steps:
    """code=500 with a JSON error; retry_after=S; message=..., error_code=..., type=..."""
    code = call.count("code", 500)
    error: dict[str, Any] = {"message": call.options.get("message", f"scripted {code}"), "code": code}
    error.update({name: call.options[name] for name in ("type",) if name in call.options})
    if "error_code" in call.options:
        error["code"] = call.options["error_code"]
    headers = {"retry-after": call.options["retry_after"]} if "retry_after" in call.options else {}
    yield from _wait(call)
    yield from _answer(code, json.dumps({"error": error}).encode(), "application/json", headers)


def html(call: Call) -> Steps:
    """A page of some gateway; code=200."""
    page = b"<!doctype html>\n<html><head><title>Sign in</title></head><body>gateway</body></html>"
    yield from _wait(call)
    yield from _answer(call.count("code", 200), page, "text/html; charset=utf-8", {})


def json_error(call: Call) -> Steps:
    """Status 200 and a bare JSON error in place of a stream."""
    error = {"error": {"message": call.options.get("message", "scripted failure"), "type": "server_error"}}
    yield from _answer(200, json.dumps(error).encode(), call.options.get("type", "text/event-stream"), {})


def whole(call: Call) -> Steps:
    """One JSON completion, whether or not a stream was asked for."""
    message = {"role": "assistant", "content": call.text}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    said = {
        "id": "chatcmpl-up",
        "object": "chat.completion",
        "model": "up",
        "choices": [choice],
        "usage": usage(call),
    }
    yield from _wait(call)
    yield from _answer(200, json.dumps(said).encode(), "application/json", {})


def error_inside(call: Call) -> Steps:
    """after=10 deltas, then an error object: code=server_error, message=..."""
    yield from _opening(call)
    yield from _said_text(call, call.count("after", 10))
    message = call.options.get("message", "the model crashed")
    error = {"message": message, "code": call.options.get("code", "server_error")}
    yield b"data: " + json.dumps({"error": error}).encode() + b"\n\n"
    if call.options.get("done") == "1":
        yield DONE


def drip(call: Call) -> Steps:
    """A normal reply in pieces of bytes=7 with a wait of every=0.005 seconds."""
    size, every = call.count("bytes", 7), call.number("every", 0.005)
    yield Head()
    body = b"".join(step for step in normal(call) if isinstance(step, bytes))
    for start in range(0, len(body), size):
        yield body[start : start + size]
        yield every


def odd(call: Call) -> Steps:
    """A normal reply in pieces of 1 to 40 bytes that care for no boundary, as fast as possible."""
    yield Head()
    body = b"".join(step for step in normal(call) if isinstance(step, bytes))
    sizes, start = random.Random(call.count("seed", 0)), 0
    while start < len(body):
        end = start + sizes.randint(1, 40)
        yield body[start:end]
        start = end
        yield 0.0005


def large(call: Call) -> Steps:
    """One delta of size=1000000 characters."""
    yield from _opening(call)
    yield delta(content="0123456789" * (call.count("size", 1_000_000) // 10))
    yield from _closing(call)


def _fragment(index: int, **fields: Any) -> bytes:
    identity = {"id": fields["id"], "type": "function"} if "id" in fields else {}
    function = {name: fields[name] for name in ("name", "arguments") if name in fields}
    return delta(tool_calls=[{"index": index, **identity, "function": function}])


def tool(call: Call) -> Steps:
    """tokens=5 of text, then calls=1 of name=get_weather with arguments={"city":"Paris"}, in pieces.

    Where the transcript already ends in a tool's result, a normal reply.
    """
    messages = call.body.get("messages") or [{}]
    if messages[-1].get("role") == "tool":
        yield from normal(call)
        return
    yield from _opening(call)
    yield from _said_text(call, call.count("tokens", 5))
    arguments = call.options.get("arguments", '{"city":"Paris"}')
    for index in range(call.count("calls", 1)):
        name = call.options.get("name", "get_weather")
        yield _fragment(index, id=f"call_up{len(messages)}_{index}", name=name, arguments="")
        for start in range(0, len(arguments), 5):
            yield _fragment(index, arguments=arguments[start : start + 5])
    yield from _closing(call, "tool_calls")


MODES: Mapping[str, Callable[[Call], Steps]] = {
    "echo": echo,
    "normal": normal,
    "reasoning": reasoning,
    "prose": prose,
    "endless": endless,
    "hang": hang,
    "reset": reset,
    "truncate": truncate,
    "no-done": no_done,
    "status": status,
    "html": html,
    "json-error": json_error,
    "whole": whole,
    "error-inside": error_inside,
    "drip": drip,
    "odd": odd,
    "large": large,
    "tool": tool,
}
