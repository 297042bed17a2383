"""Time as the house keeps it: whole milliseconds since 1970 in UTC, as `int`.

Stored times and deadlines that must survive a restart use these. Order comes from positions, and deadlines
within one process come from the event loop's monotonic clock, never from here.
"""

import time
from datetime import UTC, datetime


def now_ms() -> int:
    """Milliseconds since the Unix epoch, UTC."""
    return time.time_ns() // 1_000_000


def rfc3339(ms: int) -> str:
    """`ms` as RFC 3339 in UTC with milliseconds, such as `2026-01-31T08:30:00.125Z`."""
    moment = datetime.fromtimestamp(ms / 1000, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{ms % 1000:03d}Z"
