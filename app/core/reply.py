"""The phases of a reply and the legal moves between them.

    accepted -> running <-> waiting -> complete | stopped | failed | interrupted

A phase is stored; the fold of a reply's events is `state.ReplyState`.
"""

from typing import Literal

Phase = Literal["accepted", "running", "waiting", "complete", "stopped", "failed", "interrupted"]
Ended = Literal["complete", "stopped", "failed", "interrupted"]

LIVE: frozenset[Phase] = frozenset({"accepted", "running", "waiting"})
ENDED: frozenset[Phase] = frozenset({"complete", "stopped", "failed", "interrupted"})

MOVES: dict[Phase, frozenset[Phase]] = {
    "accepted": ENDED | {"running"},
    # A restart runs a reply again: that is a move from running to running, under a new run token.
    "running": ENDED | {"running", "waiting"},
    "waiting": ENDED | {"running"},
    "complete": frozenset(),
    "stopped": frozenset(),
    "failed": frozenset(),
    "interrupted": frozenset(),
}
