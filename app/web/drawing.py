"""How each kind of markdown is drawn: tokens to HTML, with nothing between two elements."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, cast
from urllib.parse import urlsplit

from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import OptionsDict

from app.web import code


@dataclass(slots=True)
class Notes:
    """The footnotes of a text: which labels are defined, and the numbers they get in the order of first use.

    `mark` keeps the ids of one text apart from those of another on the same page.
    """

    defined: frozenset[str]
    mark: str
    numbers: dict[str, int] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)

    def number(self, label: str) -> int | None:
        if label not in self.defined:
            return None
        return self.numbers.setdefault(label, len(self.numbers) + 1)


class Drawing(RendererHTML):
    """Tokens to HTML, with nothing between two elements."""

    def renderToken(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Any) -> str:
        token = tokens[idx]
        # The page's own heading is the only one of the first level.
        tag = "h2" if token.tag == "h1" else token.tag
        return f"</{tag}>" if token.nesting < 0 else f"<{tag}{self.renderAttrs(token)}>"

    def plain(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Any) -> str:
        return line(tokens[idx].content)

    def softbreak(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Any) -> str:
        return "<br>"

    hardbreak = softbreak

    def definition(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Any) -> str:
        return ""

    # --- code and maths

    def fence(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Any) -> str:
        token = tokens[idx]
        language = code.label_of(token.info)
        if env["live"]:
            lines = token.content.splitlines(keepends=True)
            return code.framed("".join(code.coloured(line, language) for line in lines), language)
        return code.framed(code.coloured(token.content, language), language)

    def code_block(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Any) -> str:
        return code.framed(escape(tokens[idx].content, quote=False), "")

    def math_inline(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Any) -> str:
        return _formula("span", "math", tokens[idx].content)

    def math_display(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Any) -> str:
        return _formula("span", "math display", tokens[idx].content)

    def math_block(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Any) -> str:
        return _formula("div", "math display", tokens[idx].content)

    # --- lists and tables

    def list_item_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Any) -> str:
        if "checked" not in tokens[idx].meta:
            return "<li>"
        leads = idx + 1 < len(tokens) and tokens[idx + 1].type == "paragraph_open"
        return '<li class="task">' if leads else '<li class="task">' + _box(tokens[idx])

    def paragraph_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Any) -> str:
        opening = self.renderToken(tokens, idx, options, env)
        if idx and "checked" in tokens[idx - 1].meta:
            return opening + _box(tokens[idx - 1])
        return opening

    def bullet_list_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Any) -> str:
        tokens[idx].attrs.pop("dir", None)
        return self.renderToken(tokens, idx, options, env)

    def table_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Any) -> str:
        return '<div class="scroll-x" tabindex="0" role="region" aria-label="Table" dir="auto"><table>'

    def table_close(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Any) -> str:
        return "</table></div>"

    def th_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Any) -> str:
        return f'<th scope="col"{_aligned(tokens[idx])}>'

    def td_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Any) -> str:
        return f"<td{_aligned(tokens[idx])}>"

    # --- links, images, footnotes

    def link_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Any) -> str:
        tokens[idx].attrs["target"] = "_blank"
        return self.renderToken(tokens, idx, options, env)

    def image(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Any) -> str:
        token = tokens[idx]
        address = str(token.attrs.get("src", ""))
        alt = self.renderInlineAsText(token.children or [], options, env) or "Image"
        content = f'<span>{escape(alt)}</span> <span class="url">{escape(_readable(address))}</span>'
        depth = sum(t.nesting for t in tokens[:idx] if t.type in ("link_open", "link_close"))
        if depth or not address:
            return f'<span class="held">{content}</span>'
        url = escape(address)
        return f'<a class="held" href="{url}" title="{url}" target="_blank">{content}</a>'

    def note(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Any) -> str:
        return _note(tokens[idx], cast(Notes, env["notes"]))

    def footnote_reference_open(
        self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Any
    ) -> str:
        return _footnote(tokens[idx].meta["label"], cast("Notes | None", env["notes"]))

    def footnote_reference_close(
        self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Any
    ) -> str:
        return "</div>"


def line(text: str) -> str:
    """`text` as it is, its breaks kept."""
    return f'<span class="line">{escape(text, quote=False)}</span>'


def _formula(tag: str, classes: str, tex: str) -> str:
    source = escape(tex)
    return f'<{tag} class="{classes}" data-tex="{source}">{source}</{tag}>'


def _box(token: Token) -> str:
    return f'<input type="checkbox" disabled{" checked" if token.meta["checked"] else ""}> '


def _aligned(token: Token) -> str:
    style = str(token.attrs.get("style", ""))
    return ' class="num"' if style.endswith("right") else ' class="mid"' if style.endswith("center") else ""


def _note(token: Token, notes: Notes) -> str:
    number = token.meta["number"]
    anchor = f' id="ref-{notes.mark}-{number}"' if token.meta["first"] else ""
    return f'<sup class="note"><a href="#note-{notes.mark}-{number}"{anchor}>{number}</a></sup>'


def _footnote(label: str, notes: Notes | None) -> str:
    """The opening of a footnote: numbered once it is known that something points at it."""
    number = notes.numbers.get(label) if notes else None
    if notes is None or number is None:
        return f'<div class="footnote" role="note" dir="auto"><span class="back">{escape(label)}</span>'
    back = f'<a class="back" href="#ref-{notes.mark}-{number}">{number}</a>'
    return f'<div class="footnote" role="note" id="note-{notes.mark}-{number}" dir="auto">{back}'


def _readable(address: str) -> str:
    """Where an address leads, short enough to read: its host and the end of its path."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return address[:80]
    where, _, last = parts.path.rstrip("/").rpartition("/")
    return f"{parts.netloc}{'/…' if where else ''}/{last}"[:80]
