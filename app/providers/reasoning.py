"""Tells what a model thinks from what it says, where both come in one text.

Three ways are known: a `<think>`-style block at the very start of the text, a closing tag alone at the very
start, and the channels of gpt-oss. White space around both halves of such a text is dropped. A tag anywhere
else is what the answer talks about and stays text. A block that was opened by the prompt, so that only its
closing tag comes, is left as text: it shows too late, when the thought has been shown as text already.
"""

import re
from typing import Literal, NamedTuple

Kind = Literal["text", "reasoning"]

# Each model family has its own; Magistral, Kimi and Seed-OSS write the last three.
_TAGS = {
    "<think>": "</think>",
    "<thinking>": "</thinking>",
    "<thought>": "</thought>",
    "[THINK]": "[/THINK]",
    "◁think▷": "◁/think▷",
    "<seed:think>": "</seed:think>",
}
_CHANNEL, _START, _MESSAGE = "<|channel|>", "<|start|>", "<|message|>"
_ENDS = ("<|end|>", "<|return|>", "<|call|>", _START, _CHANNEL)
_OPENINGS = (*_TAGS, *_TAGS.values(), _CHANNEL, _START)
_FIRSTS = frozenset(tag[0] for tag in _OPENINGS)
_HEADER_LIMIT = 200
_BLANK_LIMIT = 1000  # a model that writes nothing but line ends would hold everything back
_CHANNEL_NAME = re.compile(r"\s*(\w+)")


class Said(NamedTuple):
    kind: Kind
    text: str


class ReasoningSplitter:
    """Text in, pieces of text and reasoning out; any cuts between the pieces give the same whole.

    What may be the beginning of a tag is held back until it is known; `close` gives the rest.
    `plain` says that from here on everything is text as it comes, so that a caller need not ask any more.
    """

    def __init__(self) -> None:
        self.plain = False
        self._held = ""
        self._state: Literal["start", "tag", "text", "header", "channel"] = "start"
        self._closing = ""
        self._kind: Kind = "text"
        self._answered = False  # whether a channel of gpt-oss was opened
        self._dropping = False  # white space at the start of a half
        self._blank = ""  # white space that is dropped if its half ends here

    def feed(self, text: str) -> list[Said]:
        if self.plain:
            return [Said("text", text)] if text else []
        said: list[Said] = []
        self._held += text
        while self._held and self._step(said):
            pass
        return said

    def close(self) -> list[Said]:
        """What was held back. A thought that was not closed is all thought; a half tag is what it says."""
        held, self._held = self._held, ""
        said: list[Said] = []
        if self._state == "header" and self._answered:
            return said
        if self._state in ("start", "header") and not self._dropping:
            return [Said("text", held)] if held else []
        self._say(held, said)
        return said

    def _step(self, said: list[Said]) -> bool:
        """Take something off what is held. False: more has to come first."""
        if self._state == "start":
            return self._start(said)
        if self._state == "tag":
            return self._inside(said, (self._closing,))
        if self._state == "channel":
            return self._inside(said, _ENDS)
        if self._state == "header":
            return self._header(said)
        self._say(self._held, said)
        self._held = ""
        return False

    def _start(self, said: list[Said]) -> bool:
        """Decide what kind of text this is by its first characters."""
        body = self._held.lstrip()
        blank = len(self._held) - len(body)
        if not body and blank <= _BLANK_LIMIT:
            return False
        if body and blank <= _BLANK_LIMIT and body[0] in _FIRSTS:
            opening = next((tag for tag in _OPENINGS if body.startswith(tag)), None)
            if opening is not None:
                self._open(opening, body)
                return True
            if any(tag.startswith(body) for tag in _OPENINGS):
                return False
        if self._dropping:  # the text after a block
            self._state = "text"
            return True
        self.plain = True
        said.append(Said("text", self._held))
        self._held = ""
        return False

    def _open(self, opening: str, body: str) -> None:
        if opening in (_CHANNEL, _START):
            self._state = "header"
            return
        self._dropping, self._blank = True, ""
        if opening in _TAGS:
            self._state, self._kind, self._closing = "tag", "reasoning", _TAGS[opening]
            self._held = body[len(opening) :]
        else:
            self._held = body[len(opening) :]

    def _inside(self, said: list[Said], ends: tuple[str, ...]) -> bool:
        """Go on to the first of `ends`, all of which begin with the same character."""
        held, first = self._held, ends[0][0]
        at = held.find(first)
        while at >= 0:
            if end := next((end for end in ends if held.startswith(end, at)), None):
                self._say(held[:at], said)
                self._held = held[at:] if end in (_START, _CHANNEL) else held[at + len(end) :]
                self._end_half()
                return True
            rest = held[at:]
            if any(end.startswith(rest) for end in ends):
                break
            at = held.find(first, at + 1)
        settled = len(held) if at < 0 else at
        self._say(held[:settled], said)
        self._held = held[settled:]
        return False

    def _end_half(self) -> None:
        """A block or a channel is over: the white space before its end and after it goes."""
        self._blank, self._dropping = "", True
        if self._state == "channel":
            self._state = "header"
        else:
            self._state, self._kind = "start", "text"

    def _header(self, said: list[Said]) -> bool:
        """gpt-oss between two messages: `<|start|>assistant<|channel|>final<|message|>`."""
        body = self._held.lstrip()
        at = self._held.find(_MESSAGE, 0, _HEADER_LIMIT)
        if at < 0 and len(self._held) < _HEADER_LIMIT and _may_begin(body, (_START, _CHANNEL)):
            return False
        if at < 0 or not body.startswith((_START, _CHANNEL)):
            return self._no_header(said)
        name = _CHANNEL_NAME.match(self._held[:at].rpartition(_CHANNEL)[2])
        self._kind = "reasoning" if name is not None and name[1] == "analysis" else "text"
        self._held = self._held[at + len(_MESSAGE) :]
        self._state, self._dropping, self._answered = "channel", True, True
        return True

    def _no_header(self, said: list[Said]) -> bool:
        """What looked like the channels of gpt-oss is text."""
        if self._answered:
            self._state, self._kind = "text", "text"
            return True
        self.plain = True
        said.append(Said("text", self._held))
        self._held = ""
        return False

    def _say(self, text: str, said: list[Said]) -> None:
        """Give `text` out as the half it belongs to, without white space at that half's two ends."""
        if self._dropping:
            text = text.lstrip()
            self._dropping = not text
        body = text.rstrip()
        if body:
            said.append(Said(self._kind, self._blank + body))
            self._blank = text[len(body) :]
        else:
            self._blank += text


def _may_begin(text: str, openings: tuple[str, ...]) -> bool:
    """Whether `text` begins with one of `openings`, or may do so once it goes on."""
    return text.startswith(openings) or any(opening.startswith(text) for opening in openings)
