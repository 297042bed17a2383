"""One block of markdown at a time as HTML: the grammar, the outline of blocks, and the gate behind the drawing.

Raw HTML is text. Links go to http, https and mailto alone. An image is never loaded by itself: it is drawn as
a link that opens it, because a picture's address can carry secrets away. Whatever the drawing gives passes nh3,
which knows only the tags, classes and attributes that are used here.
"""

import re
from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import nh3
from markdown_it import MarkdownIt
from markdown_it.common.utils import normalizeReference
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from mdit_py_plugins.footnote.index import footnote_def

from app.web import code, maths
from app.web.drawing import Drawing, Notes, line

# A render bomb is a text in which inline rules start over and over (40 KB of `![`: 0.9 s). In a block with more
# than MANY of these signs, each run of text with more than SOME is shown as it is.
_SIGNS = re.compile(r"[\[\]!*_`<&$\\]|://")
_MANY = 500
_SOME = 64

_SAFE = re.compile(r"(?:https?|mailto):", re.IGNORECASE)
_NOTE = re.compile(r"\[\^([^\s\]]+)\]")
_LABEL = re.compile(r"\[((?:[^\[\]\\]|\\.){1,999})\]", re.DOTALL)

# The direction of writing is found for each of these by itself; code and formulas have none.
_TURNING = frozenset({"paragraph_open", "heading_open", "blockquote_open"})


@dataclass(frozen=True, slots=True)
class Top:
    """A top-level block in an outline. Lines count from 0; `items` are the first lines of a list's items."""

    kind: str
    start: int
    items: tuple[int, ...] = ()


@dataclass(slots=True)
class Block:
    """A top-level block as HTML: one element. A list, code and plain text keep their parts apart, so as to grow.

    `opening` and `closing` are the tags around `parts`; `loose` says that a list's items stand apart.
    """

    kind: Literal["list", "other"]
    opening: str
    parts: list[str]
    closing: str
    loose: bool = False

    @property
    def html(self) -> str:
        opening = self.opening.replace(">", ' class="loose">', 1) if self.loose else self.opening
        return f"{opening}{''.join(self.parts)}{self.closing}"


def outline(text: str) -> list[Top]:
    """The top-level blocks of `text`, link definitions among them."""
    tokens: list[Token] = []
    _settled.block.parse(text, _settled, {}, tokens)
    found: list[Top] = []
    for first, last in _groups(tokens, 0):
        token = tokens[first]
        if token.type.endswith("_list_open"):
            items = (_line(t) for t in tokens[first:last] if t.type == "list_item_open" and t.level == 1)
            found.append(Top("list", _line(token), tuple(items)))
        else:
            found.append(Top(token.type, _line(token)))
    return found


def draw(
    text: str, references: MutableMapping[str, Any], notes: Notes | None = None, *, live: bool = False
) -> list[Block]:
    """The top-level blocks of `text` as HTML.

    Link definitions are read from and added to `references`. `live` text is still being written: addresses in
    it are not links yet, and its code is coloured line by line.
    """
    md = _live if live else _settled
    env: dict[str, Any] = {"references": references, "notes": notes, "live": live}
    tokens = md.parse(text, env)
    _mark_loose(tokens)
    return [
        _block(md, tokens[first:last], env)
        for first, last in _groups(tokens, 0)
        if tokens[first].type != "definition"
    ]


def code_line(text: str, language: str) -> str:
    """A line of code whose block is still open."""
    return _gate.clean(code.coloured(text, language))


def plain_line(text: str) -> str:
    """A line of text that is shown as it is."""
    return _gate.clean(line(text))


def labels_of(text: str) -> set[str]:
    """The labels by which `text` may use link definitions, in the form in which they are compared."""
    return {normalizeReference(label) for label in _LABEL.findall(text)}


def notes_of(text: str) -> list[str]:
    """The labels of the footnotes that `text` defines."""
    env: dict[str, Any] = {}
    _settled.block.parse(text, _settled, env, [])
    return [label[1:] for label in env.get("footnotes", {}).get("refs", {})]


def _line(token: Token) -> int:
    return token.map[0] if token.map else 0


def _groups(tokens: Sequence[Token], level: int) -> list[tuple[int, int]]:
    """Where each block of `level` begins and ends in `tokens`."""
    found: list[tuple[int, int]] = []
    start = 0
    for index, token in enumerate(tokens):
        if token.level != level:
            continue
        if token.nesting >= 0:
            start = index
        if token.nesting <= 0:
            found.append((start, index + 1))
    return found


def _mark_loose(tokens: Sequence[Token]) -> None:
    """Paragraphs in items always have their element; whether a list is loose becomes a class of it."""
    lists: dict[int, Token] = {}
    for token in tokens:
        if token.type in ("bullet_list_open", "ordered_list_open"):
            token.attrs.pop("class", None)
            lists[token.level] = token
        elif token.type in ("bullet_list_close", "ordered_list_close"):
            lists.pop(token.level, None)
        elif token.type == "paragraph_open" and not token.hidden and (owner := lists.get(token.level - 2)):
            owner.attrs["class"] = "loose"


def _block(md: MarkdownIt, tokens: list[Token], env: dict[str, Any]) -> Block:
    first = tokens[0]
    if first.type.endswith("_list_open"):
        inner = tokens[1:-1]
        items = [inner[begin:end] for begin, end in _groups(inner, 1)]
        start = f' start="{int(first.attrs["start"])}"' if "start" in first.attrs else ""
        parts = [_gate.clean(md.renderer.render(item, md.options, env)) for item in items]
        loose = first.attrs.get("class") == "loose"
        return Block("list", f'<{first.tag}{start} dir="auto">', parts, f"</{first.tag}>", loose)
    if first.type in _TURNING:
        first.attrs["dir"] = "auto"
    return Block("other", "", [_gate.clean(md.renderer.render(tokens, md.options, env))], "")


def _note_reference(state: StateInline, silent: bool) -> bool:
    """`[^label]`, once all footnotes are known; before that it is text."""
    notes: Notes | None = state.env.get("notes")
    if notes is None or not state.src.startswith("[^", state.pos):
        return False
    match = _NOTE.match(state.src, state.pos, state.posMax)
    number = notes.number(match[1]) if match else None
    if match is None or number is None:
        return False
    if not silent:
        token = state.push("note", "", 0)
        token.meta = {"number": number, "first": match[1] not in notes.used}
        notes.used.add(match[1])
    state.pos = match.end()
    return True


def _guard(state: StateCore) -> None:
    """Turn what is heavy with signs in a render bomb into plain text."""
    runs = [token for token in state.tokens if token.type == "inline"]
    counts = [len(_SIGNS.findall(token.content)) for token in runs]
    if sum(counts) <= _MANY:
        return
    for token, count in zip(runs, counts, strict=True):
        if count > _SOME:
            token.type = "plain"


def _grammar(*, linkify: bool) -> MarkdownIt:
    options = {
        "html": False,
        "xhtmlOut": False,
        "breaks": True,
        "tasklists": True,
        "inline_definitions": True,
    }
    md = MarkdownIt("commonmark", {**options, "linkify": linkify}, renderer_cls=Drawing)
    md.enable(["table", "strikethrough"])
    md.validateLink = lambda url: _SAFE.match(url) is not None  # type: ignore[method-assign]
    maths.plug_in(md)
    md.block.ruler.before("reference", "footnote_def", footnote_def, {"alt": ["paragraph", "reference"]})
    md.inline.ruler.before("link", "note", _note_reference)
    md.core.ruler.after("block", "guard", _guard)
    if linkify and md.linkify:
        md.enable("linkify")
        # Only what is written as an address becomes a link: `main.py` and `1.1.1.1` do not.
        md.linkify.set({"fuzzy_link": False, "fuzzy_email": False})
    return md


def _cleaner() -> nh3.Cleaner:
    tags = (
        "p h2 h3 h4 h5 h6 ul ol li blockquote hr br strong em s code pre a table thead tbody tr th td div span"
        " header input sup"
    )
    turning = {tag: {"dir"} for tag in ("p", "h2", "h3", "h4", "h5", "h6", "blockquote")}
    return nh3.Cleaner(
        tags=set(tags.split(" ")),
        attributes={
            **turning,
            "ol": {"dir", "start"},
            "ul": {"dir"},
            "a": {"href", "title", "id"},
            "div": {"dir", "id", "tabindex", "aria-label", "data-tex"},
            "span": {"data-tex"},
            "pre": {"tabindex"},
            "input": {"checked", "disabled"},
        },
        tag_attribute_values={
            "a": {"target": {"_blank"}},
            "div": {"role": {"region", "note"}},
            "th": {"scope": {"col"}},
            "input": {"type": {"checkbox"}},
        },
        allowed_classes={
            "span": {"math", "display", "url", "held", "back", "line", *code.CLASSES},
            "div": {"math", "display", "code", "scroll-x", "footnote"},
            "ul": {"loose"},
            "ol": {"loose"},
            "p": {"plain"},
            "li": {"task"},
            "a": {"held", "back"},
            "sup": {"note"},
            "th": {"num", "mid"},
            "td": {"num", "mid"},
        },
        url_schemes={"http", "https", "mailto"},
        # Of relative addresses only those of footnotes are ours.
        url_relative=lambda url: url if url.startswith(("#note-", "#ref-")) else None,
        link_rel="noopener noreferrer nofollow",
    )


_live = _grammar(linkify=False)
_settled = _grammar(linkify=True)
_gate = _cleaner()
