"""What one person has chosen about the page: read from and stored with their account."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import UTC, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from app.core.errors import Invalid

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
    timezone: str = "UTC"
    """An IANA name, as the browser reports it."""

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
        return UTC if self.timezone == "UTC" else ZoneInfo(self.timezone)


def _is_zone(value: Any) -> bool:
    if value == "UTC":
        return True
    try:
        return isinstance(value, str) and len(value) < 64 and ZoneInfo(value).key == value
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False


_CHECKS = {
    "theme": THEMES.__contains__,
    "enter": ENTERS.__contains__,
    "sidebar": SIDEBARS.__contains__,
    "starters": lambda value: isinstance(value, bool),
    "first_steps": lambda value: isinstance(value, bool),
    "timezone": _is_zone,
}
assert set(_CHECKS) == {field.name for field in fields(Preferences)}
