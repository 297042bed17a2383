"""How often somebody may try: token buckets in memory.

A sign-in is counted for the account and for the network it comes from; a household on one IPv6 prefix is one
network, as it is on one IPv4 address. Buckets of sign-ins are filled again from the audit log at start, so
that a restart gives nobody new tries. Nobody is locked out for good: every bucket refills.
"""

import ipaddress
import time
from collections.abc import Callable
from dataclasses import dataclass

from app.accounts.access import Person
from app.core.clock import now_ms
from app.core.errors import TooManyTries
from app.store import audit
from app.store.engine import Database


@dataclass(frozen=True, slots=True)
class Allowance:
    """At most `burst` at once, then one each `seconds`."""

    burst: float
    seconds: float


# The shapes follow what Vaultwarden ships: a burst for a person who mistypes, then a trickle.
SIGN_IN = Allowance(10, 60)
LINK = Allowance(10, 60)
UPLOAD = Allowance(60, 60)

# A key belongs to a program, which its owner asked to work: the bound is against one that runs away, no more.
_KEY_FACTOR = 60

# Buckets that are full again say nothing and are dropped when there are this many.
_MOST_BUCKETS = 10_000


class Buckets:
    """The buckets of one allowance. `clock` gives seconds that only grow."""

    def __init__(self, allowance: Allowance, clock: Callable[[], float] = time.monotonic) -> None:
        self.allowance = allowance
        self._clock = clock
        self._levels: dict[str, tuple[float, float]] = {}

    def left(self, key: str) -> float:
        """How many tries `key` has now."""
        level, at = self._levels.get(key, (self.allowance.burst, self._clock()))
        return min(self.allowance.burst, level + (self._clock() - at) / self.allowance.seconds)

    def wait(self, key: str) -> float:
        """Seconds until `key` has a try; 0 if it has one."""
        return max(0.0, 1 - self.left(key)) * self.allowance.seconds

    def take(self, key: str, ago: float = 0) -> None:
        """Count a try of `key`, made `ago` seconds ago; what has refilled since is not counted."""
        self._change(key, min(0.0, ago / self.allowance.seconds - 1))

    def give_back(self, key: str) -> None:
        """A try that turned out to be none."""
        self._change(key, 1)

    def _change(self, key: str, by: float) -> None:
        if len(self._levels) >= _MOST_BUCKETS:
            self._prune()
        level = min(self.allowance.burst, max(0.0, self.left(key) + by))
        self._levels[key] = (level, self._clock())

    def _prune(self) -> None:
        full = [key for key in self._levels if self.left(key) >= self.allowance.burst]
        for key in full or list(self._levels)[: _MOST_BUCKETS // 10]:
            del self._levels[key]


class Rates:
    """The limits of the house. Each method counts, or raises TooManyTries with the seconds to wait."""

    def __init__(self, messages_per_minute: int = 30, clock: Callable[[], float] = time.monotonic) -> None:
        """0 messages a minute: no limit."""
        self._accounts = Buckets(SIGN_IN, clock)
        self._networks = Buckets(SIGN_IN, clock)
        self._links = Buckets(LINK, clock)
        self._uploads = Buckets(UPLOAD, clock)
        self._messages = _messages(messages_per_minute, clock)
        self._programs = _messages(messages_per_minute * _KEY_FACTOR, clock)

    async def restore(self, db: Database) -> None:
        """Count the refused sign-ins that the audit log knows, as far back as they matter."""
        now, reach = now_ms(), SIGN_IN.burst * SIGN_IN.seconds * 1000
        async with db.read() as s:
            rows, _ = await audit.audit(s, limit=500)
        for row in rows:
            if row.action == "sign-in refused" and 0 <= now - row.at < reach:
                ago = (now - row.at) / 1000
                self._networks.take(network(row.address), ago)
                if row.target:
                    self._accounts.take(row.target, ago)

    def sign_in(self, account: str, address: str) -> None:
        """A try to sign in to `account`, a folded name, whether there is such an account or not."""
        wait = max(self._accounts.wait(account), self._networks.wait(network(address)))
        if wait > 0:
            raise TooManyTries(f"Too many tries to sign in. Try again in {_span(wait)}.", wait)
        self._accounts.take(account)
        self._networks.take(network(address))

    def signed_in(self, account: str, address: str) -> None:
        """The try was right and counts for nothing."""
        self._accounts.give_back(account)
        self._networks.give_back(network(address))

    def sign_ins_left(self, account: str, address: str) -> int:
        """How many more tries there are now."""
        return int(min(self._accounts.left(account), self._networks.left(network(address))))

    def link(self, address: str) -> None:
        """A try of a setup or sign-in link."""
        _count(self._links, network(address), "Too many tries")

    def post(self, person: Person) -> None:
        """A message, or a reply asked for anew."""
        buckets = self._programs if person.via == "key" else self._messages
        if buckets is not None:
            _count(buckets, person.id, "That was many messages in a short time. Nothing was sent")

    def upload(self, person: Person) -> None:
        """A file."""
        _count(self._uploads, person.id, "That was many files in a short time")


def _messages(per_minute: int, clock: Callable[[], float]) -> Buckets | None:
    return Buckets(Allowance(2 * per_minute, 60 / per_minute), clock) if per_minute else None


def _count(buckets: Buckets, key: str, sentence: str) -> None:
    if (wait := buckets.wait(key)) > 0:
        raise TooManyTries(f"{sentence}. Try again in {_span(wait)}.", wait)
    buckets.take(key)


def _span(seconds: float) -> str:
    whole = max(1, round(seconds))
    return f"{whole} seconds" if whole != 1 else "a second"


def network(address: str) -> str:
    """Whom an address is counted with: itself, or for IPv6 the /64 that one household or machine is given."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if found.version == 4:
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found, 64), strict=False))
