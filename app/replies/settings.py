"""What can be set about replies."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ReplySettings:
    max_text: int = 256 * 1024
    """The longest message a person may send, in bytes of UTF-8."""

    drain: float = 10.0
    """How long running replies may go on when the server is told to stop, in seconds."""

    keep_finished: float = 300.0
    """How long an ended reply stays in memory for late followers, in seconds."""

    stop_grace: float = 2.0
    """How long a stopped reply may take to let go of its endpoint before it is ended anyway, in seconds."""

    status_after: float = 0.5
    """A wait longer than this is named to the person, in seconds."""

    usage_every: float = 2.0
    """How often the estimated usage of a running reply is told, in seconds."""

    flush_every: float = 0.25
    """How long an event may be in memory alone before it is written to the reply's file, in seconds."""

    sync_every: float = 1.0
    """How long what was written may be unsynced, in seconds: what a power cut can cost."""

    tries: int = 5
    """How often one model call is tried while nothing of it has been shown."""

    first_wait: float = 1.0
    """The wait before the second try, in seconds; it doubles with each further one."""

    longest_wait: float = 60.0
    """The longest wait between two tries, in seconds; where an endpoint asks for more, the reply fails."""

    resumes: int = 3
    """How often a restart picks one reply up again by itself."""

    storage_wait: float = 0.5
    """The first wait after a failed write of a reply's rows, in seconds; it doubles up to ten times that."""

    person_backlog: int = 256
    """How many person events wait for one follower before it is given a fresh snapshot instead."""
