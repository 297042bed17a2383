"""Maths in markdown: what is a formula, and what is a price in dollars.

A formula in a line stands between `$` and `$`, or `\\(` and `\\)`; a displayed one between `$$` and `$$`, or
`\\[` and `\\]`. A displayed formula on lines of its own holds no blank line and no code fence, so that what comes
later never changes where it ends. Nothing is typeset here: the source goes on as it is.
"""

import re

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline

FENCE = re.compile(r" {0,3}(?:(?P<ticks>`{3,})(?P<info>[^`]*)|(?P<tildes>~{3,})(?P<other>.*))$")

_SIGNS = re.compile(r"[\\^_={}<>+]")
_AMOUNT = re.compile(r"\d[\d.,]*(?:[kKmMbB]|bn)?(?=$|[^\w])")
_WORD = re.compile(r"[^\W\d_]{2,}")
_CLOSINGS = {"$$": "$$", "\\[": "\\]"}


def plug_in(md: MarkdownIt) -> None:
    """Teach `md` formulas: tokens `math_inline`, `math_display` (in a line) and `math_block`."""
    md.inline.ruler.before("escape", "math", _inline)
    # No alternatives: a formula does not interrupt a paragraph, it is shown within it.
    md.block.ruler.before("fence", "math_block", _block)


def begins_block(line: str) -> str | None:
    """The closing mark that a displayed formula begun on `line` waits for; None where none is left open."""
    text = line.strip()
    closing = _CLOSINGS.get(text[:2])
    if closing is None or closing in text[2:]:
        return None
    return closing


def _inline(state: StateInline, silent: bool) -> bool:
    src, pos = state.src, state.pos
    opening = src[pos : pos + 2]
    if src[pos] == "$":
        found = _between(state, "$$", "$$") if opening == "$$" else _dollars(state)
    elif opening in ("\\(", "\\["):
        found = _between(state, opening, "\\)" if opening == "\\(" else "\\]")
        if found and opening == "\\[" and not _SIGNS.search(found[0]):
            return False
    else:
        return False
    if found is None:
        return False
    content, state.pos = found
    if not silent:
        token = state.push("math_display" if opening in _CLOSINGS else "math_inline", "span", 0)
        token.content = content.strip()
        token.markup = opening
    return True


def _between(state: StateInline, opening: str, closing: str) -> tuple[str, int] | None:
    start = state.pos + len(opening)
    end = state.src.find(closing, start, state.posMax)
    if end < 0 or not (content := state.src[start:end]).strip():
        return None
    return content, end + len(closing)


def _dollars(state: StateInline) -> tuple[str, int] | None:
    """`$x$`: no space inside the signs, no digit behind the closing one, and nothing that reads as a price."""
    src, start = state.src, state.pos + 1
    if start >= state.posMax or src[start].isspace() or (start > 1 and src[start - 2].isalnum()):
        return None
    end = src.find("$", start, state.posMax)
    while end > 0 and src[end - 1] == "\\":
        end = src.find("$", end + 1, state.posMax)
    if end <= start or src[end - 1].isspace():
        return None
    if end + 1 < state.posMax and (src[end + 1].isdigit() or src[end + 1] == "$"):
        return None
    content = src[start:end]
    return None if _is_price(content) else (content, end + 1)


def _is_price(content: str) -> bool:
    """Whether `content` begins with an amount and goes on in words: `5/month or 50`, `10 and 20`."""
    if _AMOUNT.match(content) is None or _SIGNS.search(content):
        return False
    return _WORD.search(content) is not None


def _block(state: StateBlock, startLine: int, endLine: int, silent: bool) -> bool:
    if state.is_code_block(startLine):
        return False
    first = _line(state, startLine)
    opening = first[:2]
    closing = _CLOSINGS.get(opening)
    if closing is None:
        return False
    if closing in first[2:]:
        body, rest = first[2:].split(closing, 1)
        if rest.strip() or not body.strip() or (opening == "\\[" and not _SIGNS.search(body)):
            return False
        lines, last = [body], startLine
    else:
        found = _until(state, closing, startLine, endLine)
        if found is None:
            return False
        lines, last = [first[2:], *found[0]], found[1]
    state.line = last + 1
    if not silent:
        token = state.push("math_block", "div", 0)
        token.block = True
        token.content = "\n".join(lines).strip()
        token.markup = opening
        token.map = [startLine, state.line]
    return True


def _until(state: StateBlock, closing: str, start: int, end: int) -> tuple[list[str], int] | None:
    """The lines behind `start` up to the one that ends with `closing`, and that one's number."""
    lines: list[str] = []
    for number in range(start + 1, end):
        line = _line(state, number)
        if not line.strip() or state.sCount[number] < state.blkIndent or FENCE.match(line):
            return None
        if line.rstrip().endswith(closing):
            lines.append(line.rstrip()[: -len(closing)])
            return lines, number
        lines.append(line)
    return None


def _line(state: StateBlock, number: int) -> str:
    return state.src[state.bMarks[number] + state.tShift[number] : state.eMarks[number]]
