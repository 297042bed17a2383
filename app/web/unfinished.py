"""Text that is still being written, made to look as it will when it is finished.

Without this, half a mark shows for a moment as what it is not: two stars before a word turns bold, a heading while
a list is begun below a line, a row of bars until a table is one. Marks that are not complete are held back, and
open ones are closed. Only what is drawn of an open block passes here; what settles is drawn from the text alone.
"""

import re

from app.web.maths import begins_block

# A line of which it cannot be told yet what it begins: marks alone, the start of a task's box, a fence, a definition.
_UNDECIDED = re.compile(
    r"[ \t]*(?:[-+*>=_#~`|:\s]+|\d{1,9}[.)]?[ \t]*|[-+*][ \t]+\[[ xX]?\]?[ \t]*|(?:`{3,}|~{3,}).*|\[[^\]^][^\]]*\]:.*)"
)
_ENDING = re.compile(r"(?:[*_~`$\\]+|!?\[|!|<[a-zA-Z]+:[^\s>]*)$")
_HALF_LINK = re.compile(r"!?\[([^\[\]\n]*)\]\([^()\n]*$")
_STARTS = re.compile(r"[ \t]*(?:[-+*>]|\d{1,9}[.)]|#{1,6})(?:[ \t]|$)|[ \t]*\||[ \t]*(?:`{3}|~{3})")
_MARK = re.compile(r"\\.|`+|\*{1,3}|_{1,3}|~~", re.DOTALL)
_BAR = re.compile(r"(?<!\\)\|")
_WIDEST = 64
_RULE = re.compile(r"[ \t]*\|?[ \t:|-]*")


def presentable(whole: str, partial: str) -> str:
    """The whole lines of an open block and the line that is being written, as they should be drawn now."""
    if not partial or _UNDECIDED.fullmatch(partial):
        partial = ""
    text = whole + partial
    if not text or "```" in text or "~~~" in text:
        return text
    if (closing := _open_formula(text)) is not None:
        return f"{text.rstrip()}\n{closing}\n"
    start = _last_run(text)
    if text.startswith("|", start):
        return text[:start] + _table(text[start:])
    if not partial:
        return text
    return text[:start] + _closed(text[start:])


def _open_formula(text: str) -> str | None:
    first, _, rest = text.partition("\n")
    closing = begins_block(first)
    if closing is None or closing in rest or not text.strip("$\\[ \n") or "\n\n" in text:
        return None
    return closing


def _last_run(text: str) -> int:
    """Where the run of lines begins that the last line belongs to."""
    start = len(text)
    for line in reversed(text.splitlines(keepends=True)):
        if not line.strip():
            break
        start -= len(line)
        if _STARTS.match(line) and not line.lstrip().startswith("|"):
            break
    return start


def _closed(run: str) -> str:
    """`run` without half a mark at its end, and with what is open closed."""
    run = _HALF_LINK.sub(r"\1", run)
    run = _ENDING.sub("", run)
    trimmed = run.rstrip()
    return trimmed + "".join(reversed(_open_marks(trimmed))) + run[len(trimmed) :]


def _open_marks(run: str) -> list[str]:
    """The marks of emphasis and code that `run` leaves open."""
    open_marks: list[str] = []
    code = ""
    for match in _MARK.finditer(run):
        mark = match[0]
        if mark[0] == "`":
            code = "" if code == mark else code or mark
        elif not code and mark[0] != "\\":
            before, after = run[match.start() - 1 : match.start()], run[match.end() : match.end() + 1]
            if mark in open_marks and before.strip():
                del open_marks[open_marks.index(mark) :]
            elif after.strip() and not before.isalnum():
                open_marks.append(mark)
    return [*open_marks, code] if code else open_marks


def _table(run: str) -> str:
    """A table of which only the head is there, or the head and half of the line below it."""
    head, _, below = run.partition("\n")
    cells = head.strip()
    if len(cells) < 3 or "\n" in below or not _RULE.fullmatch(below):
        return run
    columns = len(_BAR.split(cells.removeprefix("|").removesuffix("|")))
    if columns > _WIDEST:
        return run
    return f"{head}\n|{'---|' * columns}\n"
