"""The neutral transcript as the JSON of an OpenAI chat completion.

Nothing is sent that some server refuses and none needs: no empty content, no two user turns in a row, no
reasoning (SPEC 4.2), and of the sampling only what was asked for.
"""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from app.core.messages import Message, ToolResultPart, ToolUsePart
from app.providers.base import Request, ToolSchema

SAMPLING = ("temperature", "top_p", "seed", "stop", "reasoning_effort")

# Kimi writes ids such as `functions.name:0` and its template reads them back, so they are left as they are.
_ID = re.compile(r"[\w.:-]{1,40}", re.ASCII)
_NOT_IN_NAMES = re.compile(r"[^\w-]", re.ASCII)
_LONGEST_NAME = 64
_SHORT_ID = re.compile(r"[A-Za-z0-9]{9}")
_SHORT_ID_REFUSED = re.compile(r"tool.?call.?id.*(length of 9|a-z)", re.IGNORECASE | re.DOTALL)


@dataclass
class Dialect:
    """How an endpoint wants what servers do not agree on, learned from what it refuses."""

    limit: str = "max_tokens"
    asks_for_usage: bool = True
    short_ids: bool = False

    def learn(self, refusal: str) -> bool:
        """Whether `refusal`, the words of a 400 or 422, names something that can be said in another way."""
        if self.asks_for_usage and ("stream_options" in refusal or "include_usage" in refusal):
            self.asks_for_usage = False
        elif self.limit == "max_tokens" and "max_completion_tokens" in refusal:
            self.limit = "max_completion_tokens"  # OpenAI's reasoning models refuse the old name
        elif not self.short_ids and _SHORT_ID_REFUSED.search(refusal):
            self.short_ids = True  # Mistral: nine letters and digits
        else:
            return False
        return True


def body_of(request: Request, dialect: Dialect) -> dict[str, Any]:
    """The body of `POST /chat/completions`, in an order that keeps its beginning the same over a reply."""
    body: dict[str, Any] = {"model": request.model, "messages": list(_messages(request, dialect))}
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
    body["stream"] = True
    if dialect.asks_for_usage:
        body["stream_options"] = {"include_usage": True}
    if request.max_output is not None:
        body[dialect.limit] = request.max_output
    body.update((name, request.sampling[name]) for name in SAMPLING if request.sampling.get(name) is not None)
    return body


def _tool(tool: ToolSchema) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def _messages(request: Request, dialect: Dialect) -> Iterator[dict[str, Any]]:
    if request.system:
        yield {"role": "system", "content": request.system}
    said: list[str] = []
    for message in request.messages:
        if message.role == "user":
            said += [message.text] if message.text else []
            continue
        others = list(_others(message, dialect))
        if others and said:
            yield _user(said)
            said = []
        yield from others
    if said:
        yield _user(said)


def _user(said: list[str]) -> dict[str, Any]:
    """One user turn of several: many chat templates refuse two in a row."""
    return {"role": "user", "content": "\n\n".join(said)}


def _others(message: Message, dialect: Dialect) -> Iterator[dict[str, Any]]:
    """The messages of an assistant's or a tool's turn; none where there is nothing to send."""
    if message.role == "tool":
        for part in message.parts:
            if isinstance(part, ToolResultPart):
                id = _shaped(part.id, dialect)
                yield {"role": "tool", "tool_call_id": id, "content": part.text or "(nothing)"}
    elif calls := [_call(part, dialect) for part in message.calls]:
        yield {"role": "assistant", "content": message.text or None, "tool_calls": calls}
    elif message.text:
        yield {"role": "assistant", "content": message.text}


def _call(part: ToolUsePart, dialect: Dialect) -> dict[str, Any]:
    # Servers parse the arguments of the history and fail at "" and null, which stand for no arguments.
    arguments = part.arguments if part.arguments.strip() not in ("", "null") else "{}"
    function = {"name": _named(part.name), "arguments": arguments}
    return {"id": _shaped(part.id, dialect), "type": "function", "function": function}


def _named(name: str) -> str:
    """`name` as every endpoint takes it. A model may call by any; one in the history must not spoil the chat."""
    return _NOT_IN_NAMES.sub("_", name)[:_LONGEST_NAME] or "unnamed"


def _shaped(id: str, dialect: Dialect) -> str:
    """`id`, or if the endpoint would not take it, nine letters and digits that always stand for it."""
    if (_SHORT_ID if dialect.short_ids else _ID).fullmatch(id):
        return id
    return hashlib.sha256(id.encode("utf-8", "surrogatepass")).hexdigest()[:9]
