"""`doctor`: looks for what is wrong and names the setting at fault."""

import shutil
import sqlite3
import sys
from dataclasses import dataclass

from app import __version__
from app.accounts import audit
from app.core.clock import now_ms
from app.core.errors import NightdeskError
from app.core.ids import EndpointId
from app.store.engine import is_sound
from app.web.house import House

_GB = 1024**3
# The day this version was made: a clock that stands before it is wrong.
_MADE_MS = 1_795_824_000_000


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    what: str
    ok: bool
    detail: str

    def __str__(self) -> str:
        return f"{'ok  ' if self.ok else 'FAIL'}  {self.what}: {self.detail}"


async def examine(house: House) -> list[Finding]:
    """Look at everything that can be looked at from inside."""
    found = [_versions(), _disk(house), _folder(house), _clock(), _names(house)]
    found.append(await _audit(house))
    return found + [
        await _endpoint(house, EndpointId(row.id), row.name) for row, _ in house.models.all() if row.enabled
    ]


def _versions() -> Finding:
    python = ".".join(map(str, sys.version_info[:3]))
    detail = f"Nightdesk {__version__}, Python {python}, SQLite {sqlite3.sqlite_version}"
    if not is_sound(sqlite3.sqlite_version_info):
        detail += "; this SQLite has a known fault, so one connection does everything"
    return Finding("versions", True, detail)


def _disk(house: House) -> Finding:
    free = shutil.disk_usage(house.folder.path).free / _GB
    return Finding(
        "disk", free >= 0.5, f"{free:.1f} GB are free for {house.folder.path} (`data`); 0.5 GB are needed"
    )


def _folder(house: House) -> Finding:
    mode = house.folder.path.stat().st_mode & 0o777
    return Finding("data folder", mode == 0o700, f"{house.folder.path} has mode {mode:o}; it should be 700")


def _clock() -> Finding:
    right = now_ms() >= _MADE_MS
    return Finding(
        "clock",
        right,
        "plausible" if right else "stands before this version was made: set the computer's clock",
    )


def _names(house: House) -> Finding:
    names = house.settings.allowed_hosts
    return Finding(
        "host names (`allowed_hosts`)",
        True,
        f"loopback, private addresses{''.join(f', {name}' for name in names)}",
    )


async def _audit(house: House) -> Finding:
    broken = await audit.verify(house.db)
    return Finding(
        "audit log", broken is None, "unbroken" if broken is None else f"was changed at entry {broken}"
    )


async def _endpoint(house: House, endpoint: EndpointId, name: str) -> Finding:
    try:
        _, models = await house.models.check(endpoint)
    except NightdeskError as error:
        return Finding(f"endpoint '{name}'", False, error.person)
    return Finding(f"endpoint '{name}'", True, f"{len(models)} models")
