"""The list of chats at the side: pinned ones, then by folder and by when something last happened in them."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta

from app.core.ids import UserId
from app.store import chats
from app.store.chats import ChatRow
from app.store.engine import Session
from app.web.preferences import Preferences

# A first page fills a tall screen; what lies beyond comes as the reader scrolls there.
ROWS = 60
_MOST_ROWS = 1_000
PINNED = "Pinned"


@dataclass(slots=True)
class Group:
    """Chats under one heading. `goes_on`: the heading stands on the page before."""

    name: str
    folder: bool = False
    goes_on: bool = False
    rows: list[ChatRow] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Sidebar:
    """A page of the list, and the cursor of the next one."""

    groups: list[Group]
    next: str | None = None

    @property
    def last(self) -> str:
        """The date heading that the next page may go on with."""
        return next((group.name for group in reversed(self.groups) if not group.folder), "")


async def read(
    s: Session,
    user: UserId,
    preferences: Preferences,
    *,
    rows: int = ROWS,
    cursor: str | None = None,
    after: str = "",
) -> Sidebar:
    """The first page of the person's list, or the one at `cursor`; `after` is the heading it goes on with."""
    limit = max(ROWS, min(rows, _MOST_ROWS))
    found, following = await chats.listing(s, user, cursor=cursor, limit=limit)
    today = datetime.now(preferences.zone).date()
    return Sidebar(grouped(found, preferences, today, after), following)


def grouped(rows: Iterable[ChatRow], preferences: Preferences, today: date, after: str = "") -> list[Group]:
    """Pinned ones, then by date, newest first; a folder stands where its newest chat would."""
    groups: dict[tuple[bool, str], Group] = {}
    for row in rows:
        day = datetime.fromtimestamp(row.active / 1000, UTC).astimezone(preferences.zone).date()
        folder = row.folder is not None and not row.pinned
        name = PINNED if row.pinned else row.folder or heading(day, today)
        place = (folder, name)
        if place not in groups:
            groups[place] = Group(name, folder, goes_on=not folder and name == after)
        groups[place].rows.append(row)
    return list(groups.values())


def heading(day: date, today: date) -> str:
    """`Today`, `Yesterday`, `Last 7 days`, `Last 30 days`, then the month."""
    if day >= today:
        return "Today"
    if day == today - timedelta(days=1):
        return "Yesterday"
    if day > today - timedelta(days=7):
        return "Last 7 days"
    return "Last 30 days" if day > today - timedelta(days=30) else f"{day:%B %Y}"
