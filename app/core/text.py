"""Rules about text that hold everywhere: what can be stored, what a title is, how templates are filled."""

import re
from collections.abc import Mapping

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_FIELD = re.compile(r"\{\{\s*([a-z_]+)\s*\}\}")
_SPACE = re.compile(r"\s+")


def is_storable(text: str) -> bool:
    """Whether `text` can be stored and sent: no NUL and no lone surrogate."""
    return _UNSTORABLE.search(text) is None


def storable(text: str) -> str:
    """`text` with NUL and lone surrogates replaced by U+FFFD; for text from machines, never from people."""
    return text if is_storable(text) else _UNSTORABLE.sub("\ufffd", text)


def opening_words(text: str, limit: int = 48) -> str:
    """The first words of `text` in one line of at most `limit` characters, cut between words where possible."""
    line = _SPACE.sub(" ", text[: limit * 8]).strip()
    if len(line) <= limit:
        return line
    cut = line[:limit].rsplit(" ", 1)[0] if " " in line[:limit] else line[: limit - 1]
    return cut.rstrip(" ,.;:-") + "…"


def estimate_tokens(text: str) -> int:
    """A rough count of tokens: about four bytes of UTF-8 each. Shown as an estimate wherever it is used."""
    return (len(text.encode("utf-8", "surrogatepass")) + 3) // 4


def utf16_length(text: str) -> int:
    """The length of `text` in UTF-16 units, as JavaScript counts it."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def fields_of(template: str) -> set[str]:
    """The names in double braces that `template` uses."""
    return set(_FIELD.findall(template))


def fill(template: str, fields: Mapping[str, str]) -> str:
    """`template` with each `{{ name }}` replaced, in one pass, so that a value is never itself expanded.

    Raises KeyError for a name that `fields` lacks.
    """
    return _FIELD.sub(lambda match: fields[match[1]], template)
