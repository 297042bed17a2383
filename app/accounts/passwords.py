"""Passwords: what is accepted as one, and Argon2id around it.

A hash takes tens of milliseconds and megabytes on purpose, so it is made in a thread, two at a time at most.
Nothing is asked of a password but length and that it is no usual one: NIST SP 800-63B, section 5.1.1.
"""

import asyncio
import unicodedata
from collections.abc import Callable
from typing import TypeVar

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from app.core.errors import Invalid, TooManyTries
from app.core.text import is_storable

T = TypeVar("T")

SHORTEST, LONGEST = 12, 1024

# About 45 ms and 32 MiB here; the floor is 19 MiB and two passes (OWASP's sheet on storing passwords).
_HASHER = PasswordHasher(time_cost=3, memory_cost=32 * 1024, parallelism=1)

# Verified in place of the hash that an unknown name has not, so that both take as long. Of no password that
# `checked` would let through; made with the costs above, as a test holds.
_NOBODY = "$argon2id$v=19$m=32768,t=3,p=1$guilaKkBv2LvmKq6RcHZiw$qKFeaBC1fydATnI9lfZg7Xun4KPHNxUk34IPeetIMFI"

# Of the passwords that are tried first everywhere, those long enough to get past the rule of length.
_USUAL_TEXT = """
    123456789012 1234567890123 12345678901234 1234567890123456 111111111111 000000000000
    password1234 password12345 password123456 passwordpassword password123! mypassword123
    qwertyuiop12 qwertyuiop123 qwertyuiopasdf qwertyqwerty qwerty123456 1q2w3e4r5t6y 1qaz2wsx3edc
    1qaz2wsx1qaz2wsx abcdefghijkl abcdefghijklmnop abc123abc123 abcd12345678 iloveyou1234
    iloveyouforever letmeinletmein administrator administrator1 adminadminadmin admin1234567
    changemechangeme changeme1234 welcome12345 welcome123456 trustno1trustno1 football1234
    baseball1234 superman1234 correcthorsebatterystaple nightdesknightdesk asdfghjkl123 zxcvbnm12345
    q1w2e3r4t5y6
"""
_USUAL = frozenset(_USUAL_TEXT.split())

# How many may wait for their turn before the next is sent away: some seconds' worth.
_LONGEST_LINE = 30


def checked(password: str, name: str = "") -> str:
    """`password` in the one form it is hashed in. Raises Invalid, field `password`, for a poor one."""
    if not is_storable(password):
        raise Invalid("The password holds a character that can't be used.", field="password")
    normal = _normal(password)
    if len(normal) < SHORTEST or not normal.strip():
        raise Invalid(
            f"The password needs at least {SHORTEST} characters. A few words will do.", field="password"
        )
    if len(normal) > LONGEST:
        raise Invalid(f"The password can have at most {LONGEST} characters.", field="password")
    plain = normal.casefold()
    if plain in _USUAL or len(set(plain)) < 4 or (name and plain == name.casefold()):
        raise Invalid("This password is one of those tried first. Take another.", field="password")
    return normal


def _normal(password: str) -> str:
    # Keyboards differ in whether an accent comes composed or apart (RFC 8265, section 4.2.1).
    return unicodedata.normalize("NFC", password)


class Passwords:
    """Makes and checks hashes, two at a time."""

    def __init__(self) -> None:
        self._turns = asyncio.Semaphore(2)
        self._waiting = 0

    async def hash(self, password: str) -> str:
        """The hash of a password that `checked` gave. Raises TooManyTries when too many wait."""
        return await self._in_turn(lambda: _HASHER.hash(password))

    async def verify(self, stored: str | None, password: str) -> bool:
        """Whether `password` is the one behind `stored`. None takes as long and never is. Raises
        TooManyTries.
        """
        given = _normal(password) if len(password) <= LONGEST else ""
        right = await self._in_turn(lambda: _matches(stored or _NOBODY, given))
        return right and stored is not None

    def is_outdated(self, stored: str) -> bool:
        """Whether `stored` was made at other costs than today's and should be made anew."""
        return _HASHER.check_needs_rehash(stored)

    async def _in_turn(self, work: Callable[[], T]) -> T:
        if self._waiting >= _LONGEST_LINE:
            raise TooManyTries(
                "Many are signing in at this moment. Try again in a few seconds.", retry_after=5
            )
        self._waiting += 1
        try:
            async with self._turns:
                return await asyncio.to_thread(work)
        finally:
            self._waiting -= 1


def _matches(stored: str, password: str) -> bool:
    try:
        return _HASHER.verify(stored, password)
    except (VerificationError, InvalidHashError):
        return False
