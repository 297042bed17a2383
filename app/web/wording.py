"""How numbers, times and amounts are said on the page."""

from collections.abc import Callable
from typing import Any

from markupsafe import Markup

from app.core.clock import rfc3339


def duration(ms: int | float | None) -> str:
    """`8 s`, `0.4 s`, `2 min 5 s`, `1 h 4 min`; empty for None."""
    if ms is None:
        return ""
    if ms < 950:
        return f"{max(ms, 0) / 1000:.1f} s"
    seconds = round(ms / 1000)
    if seconds < 60:
        return f"{seconds} s"
    minutes, seconds = divmod(seconds, 60)
    if minutes < 60:
        return f"{minutes} min {seconds} s" if seconds else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def clock(ms: int) -> str:
    """Elapsed time as a clock shows it: `0:14`, `12:05`, `1:02:03`."""
    minutes, seconds = divmod(max(ms, 0) // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"


def count(number: int | None) -> str:
    """`684`, `12,400`; empty for None."""
    return "" if number is None else f"{number:,}"


def size(tokens: int) -> str:
    """A context length: `8 k`, `128 k`, `1 M`; `unknown` for 0."""
    if tokens <= 0:
        return "unknown"
    if tokens >= 1_000_000:
        return f"{tokens / 1_000_000:.3g} M"
    if tokens < 1000:
        return str(tokens)
    return f"{round(tokens / (1024 if tokens % 1000 else 1000))} k"


def weight(number: int) -> str:
    """Bytes as people say them: `812 bytes`, `4.1 MB`."""
    amount = float(number)
    for unit in ("bytes", "KB", "MB", "GB"):
        if amount < 1000 or unit == "GB":
            return f"{number} bytes" if unit == "bytes" else f"{amount:.3g} {unit}"
        amount /= 1000
    raise AssertionError("unreachable")


def money(cost: float | None) -> str:
    """`$0.0042`, `$1.20`; `no cost` for 0 and `unknown` for None."""
    if cost is None:
        return "unknown"
    if cost == 0:
        return "no cost"
    return f"${cost:.2f}" if cost >= 0.1 else f"${cost:.2g}" if cost >= 0.0001 else "under $0.0001"


def plural(number: int, one: str, many: str) -> str:
    """`1 model`, `4 models`."""
    return f"{number:,} {one if number == 1 else many}"


def moment(ms: int | None) -> Markup:
    """A time as an element that the page's script says in the reader's own zone; in UTC without script."""
    if ms is None:
        return Markup("")
    text = rfc3339(ms)
    return Markup('<time datetime="{}">{} {} UTC</time>').format(text, text[:10], text[11:16])


_OUTCOMES: dict[str, str] = {
    "ok": "done",
    "hint": "not done",
    "error": "failed",
    "denied": "denied",
    "expired": "not answered in time",
    "stopped": "stopped",
    "not_run": "not run",
    "interrupted": "interrupted",
}


def outcome(word: str) -> str:
    """What became of a tool call, in a word or two."""
    return _OUTCOMES.get(word, word)


FILTERS: dict[str, Callable[..., Any]] = {
    "duration": duration,
    "clock": clock,
    "count": count,
    "size": size,
    "weight": weight,
    "money": money,
    "plural": plural,
    "moment": moment,
    "outcome": outcome,
}
