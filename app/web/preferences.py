"""What one person has chosen about the page: read from and stored with their account."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from datetime import UTC, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from app.core.errors import Invalid
from app.core.text import is_storable

THEMES = ("system", "light", "dark")
ENTERS = ("send", "break")
SIDEBARS = ("shown", "hidden")


@dataclass(frozen=True, slots=True)
class Preferences:
    """The choices, each with what holds until somebody chooses."""

    theme: str = "system"
    """`system`, `light` or `dark`."""
    enter: str = "send"
    """What Enter does where there is a keyboard: `send`, or `break` the line (then Ctrl+Enter sends)."""
    sidebar: str = "shown"
    """Whether the list of chats stands beside the transcript on a wide screen: `shown` or `hidden`."""
    starters: bool = True
    """Whether an empty chat offers something to begin with."""
    first_steps: bool = True
    """Whether an empty instance shows its checklist."""
    time_zone: str = "UTC"
    """An IANA name, as the browser reports it."""
    display_name: str = ""
    """What the models are told the person is called; empty: nothing."""

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> "Preferences":
        """What is stored, without what this version does not know or cannot use."""
        usable = {name: value for name, value in stored.items() if name in _CHECKS and _CHECKS[name](value)}
        return cls(**usable)

    def changed(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """These with `changes`, as they are stored. Raises Invalid for an unknown name or value."""
        for name, value in changes.items():
            if name not in _CHECKS or not _CHECKS[name](value):
                raise Invalid(f"'{name}' cannot be set to that.", field=name)
        return asdict(self) | dict(changes)

    @property
    def zone(self) -> tzinfo:
        # A bare system has no time zone data at all, not even for UTC.
        return UTC if self.time_zone == "UTC" else ZoneInfo(self.time_zone)


def _is_zone(value: Any) -> bool:
    if value == "UTC":
        return True
    try:
        return isinstance(value, str) and len(value) < 64 and ZoneInfo(value).key == value
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool)


_CHECKS: dict[str, Callable[[Any], bool]] = {
    "theme": lambda value: value in THEMES,
    "enter": lambda value: value in ENTERS,
    "sidebar": lambda value: value in SIDEBARS,
    "starters": _is_bool,
    "first_steps": _is_bool,
    "time_zone": _is_zone,
    "display_name": lambda value: isinstance(value, str) and len(value) <= 60 and is_storable(value),
}
assert set(_CHECKS) == {field.name for field in fields(Preferences)}
