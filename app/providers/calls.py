"""Tool calls put together from the fragments that chat completions send, whatever is missing in them.

A fragment belongs to the call of its `index`; without one to that of its `id`; without both to the last one.
Servers leave out each of the three, repeat them, or use index 0 for every call, so a new call also begins
with another id and name at a used index, and with a second fragment with a name for one call in one delta.
"""

import json
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from math import isfinite
from typing import Any

from app.core.messages import Message, ToolUsePart
from app.core.text import storable

_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def new_call_id() -> str:
    """A made-up id: nine letters and digits, the one shape that every endpoint takes (Mistral no other)."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(9))


def calls_in(messages: Iterable[Message]) -> set[str]:
    """The ids of all calls in a transcript."""
    return {call.id for message in messages for call in message.calls}


class _Open:
    """A call that still grows."""

    def __init__(self, index: int | None) -> None:
        self.index = index  # where it was opened
        self.id = ""
        self.name = ""
        self.pieces: list[str] = []
        self.object: Mapping[str, Any] | None = None

    @property
    def text(self) -> str:
        """The argument text so far; an object that came as such is written out."""
        joined = "".join(self.pieces)
        if self.object is not None and not joined.strip():
            return json.dumps(self.object, ensure_ascii=False)
        return joined

    @property
    def looks_whole(self) -> bool:
        return isinstance(_parsed(self.text), dict)

    def add_name(self, name: str) -> None:
        """Names come whole, repeated in every fragment or, rarely, in pieces before the arguments."""
        if not self.name:
            self.name = name
        elif name and name != self.name and not self.text:
            self.name += name

    def add_arguments(self, arguments: Any) -> int:
        """Returns how many characters that were."""
        if isinstance(arguments, dict):
            self.object = arguments or self.object or arguments
        elif arguments is not None:
            self.pieces.append(arguments if isinstance(arguments, str) else json.dumps(arguments))
            return len(self.pieces[-1])
        return 0


class CallAssembler:
    """Takes fragments, gives whole calls in order of their first appearance.

    `taken` are ids of earlier calls of the conversation: some servers begin again at `call_0` in every
    answer, and one id for two calls would pair results wrongly. Such calls get an id from `new_id`.
    """

    def __init__(self, taken: Collection[str] = (), new_id: Callable[[], str] = new_call_id) -> None:
        self.size = 0  # characters of arguments so far
        self._taken = set(taken)
        self._new_id = new_id
        self._calls: list[_Open] = []
        self._by_index: dict[int, _Open] = {}
        self._by_id: dict[str, _Open] = {}

    def __bool__(self) -> bool:
        return bool(self._calls)

    def feed(self, fragments: Any) -> None:
        """One delta's `tool_calls`; what has not the shape of a fragment is passed over."""
        if not isinstance(fragments, list):
            return
        touched: list[_Open] = []
        for fragment in fragments:
            if isinstance(fragment, dict):
                self._add(fragment, touched)

    def feed_function(self, function: Any) -> None:
        """One delta's `function_call`, the form of 2023 with room for a single call."""
        if isinstance(function, dict):
            self._add({"index": 0, "function": function}, [])

    def finish(self) -> Iterator[ToolUsePart]:
        """The calls, each with its arguments parsed: the only place where that is done."""
        for call in self._calls:
            yield ToolUsePart(self._unique(call.id), _clean_name(call.name), *_arguments(call))

    def _add(self, fragment: dict[str, Any], touched: list[_Open]) -> None:
        function = fragment.get("function")
        if not isinstance(function, dict):
            # Some servers leave the wrapping out: {"name": ..., "arguments": ...}.
            function = fragment
        id, name = _word(fragment.get("id")), _word(function.get("name"))
        arguments = function.get("arguments")
        if not (id or name or arguments):
            return  # nothing but a signature, or nothing at all
        index = _number(fragment.get("index"))
        call = self._find(index, id, name)
        own = bool(id) and call is not None and call.id == id
        if call is None or (not own and _begins_another(call, id, name, arguments, call in touched)):
            call = _Open(index)
            self._calls.append(call)
        touched.append(call)
        if index is not None:
            self._by_index[index] = call
        if id and not call.id:
            call.id = id
            self._by_id.setdefault(id, call)
        call.add_name(name)
        self.size += call.add_arguments(arguments)

    def _find(self, index: int | None, id: str, name: str) -> _Open | None:
        """The call that a fragment points at."""
        known, last = self._by_id.get(id) if id else None, self._calls[-1] if self._calls else None
        if index is None:
            return known or last
        call = self._by_index.get(index)
        if known is not None and (known.index in (index, None) or (call is None and not name)):
            return known
        if call is None and last is not None and last.index is None and not (id or name):
            return last  # it was opened without an index and goes on with one
        return call

    def _unique(self, id: str) -> str:
        id = storable(id)
        while not id or id in self._taken:
            id = self._new_id()
        self._taken.add(id)
        return id


def _begins_another(call: _Open, id: str, name: str, arguments: Any, touched: bool) -> bool:
    """Whether a fragment that points at `call`, with an id that is not its own, is the first one of another.

    `touched` says that an earlier fragment of the same delta went to `call`.
    """
    if not name or not call.name:
        return False
    if touched or (id and call.id):
        return True
    return call.looks_whole and bool(arguments or name != call.name)


def _word(value: Any) -> str:
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else ""


def _number(value: Any) -> int | None:
    if isinstance(value, str) and value.isdecimal():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _clean_name(name: str) -> str:
    """`name` without channel markers that leak from gpt-oss: `get_weather<|channel|>commentary`.

    https://github.com/vllm-project/vllm/issues/32587
    """
    return storable(name).partition("<|")[0].strip()


def _arguments(call: _Open) -> tuple[str, Mapping[str, Any] | None]:
    """The argument text as it came, and the object that it stands for, or None."""
    # The two halves of a surrogate pair may have come in two fragments.
    text = paired(call.text)
    if text.strip() in ("", "null"):
        return text, {}
    value = _parsed(text)
    if isinstance(value, str):
        value = _parsed(value)
    try:
        return text, _storable_all(value) if isinstance(value, dict) else None
    except RecursionError:
        return text, None


def _refuse(name: str) -> float:
    raise ValueError(f"{name} is no JSON")


def _finite(text: str) -> float:
    return value if isfinite(value := float(text)) else _refuse(text)


# NaN and Infinity are no JSON, though Python reads and writes them: a browser that is sent one fails at the event.
_decode = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite).decode


def _parsed(text: str) -> Any:
    try:
        return _decode(text)
    except (ValueError, RecursionError):
        return None


def _storable_all(value: Any) -> Any:
    """`value` with every string in it made storable: escapes inside argument text can hold anything."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, list):
        return [_storable_all(item) for item in value]
    if isinstance(value, dict):
        return {storable(key): _storable_all(item) for key, item in value.items()}
    return value


def paired(text: str) -> str:
    """`text` with surrogate pairs made the characters they stand for; the unstorable becomes U+FFFD."""
    if text.isascii():
        return storable(text)
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return storable(text)
