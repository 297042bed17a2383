"""Idempotency: under one key a person gets one answer, however often they ask, before and after a restart."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from app.core.errors import Invalid
from app.core.ids import UserId
from app.core.text import is_storable
from app.store import idempotency
from app.store.engine import Session

LONGEST_KEY = 200


@dataclass(frozen=True, slots=True)
class Stamp:
    """Who asks for what under which key. Without a key nothing is remembered."""

    user: UserId
    key: str | None
    asked: str

    async def known(self, s: Session) -> str | None:
        """The id of what was made under this key before. Raises KeyReused where something else was asked."""
        return await idempotency.made(s, self.user, self.key, self.asked) if self.key is not None else None

    async def record(self, s: Session, kind: str, made: str) -> None:
        """Remember what was made, in the transaction that makes it."""
        if self.key is not None:
            await idempotency.record(s, self.user, self.key, self.asked, kind, made)


def stamp(user: UserId, key: str | None, *asked: Any) -> Stamp:
    """The stamp of one request; `asked` is all that makes it what it is, as JSON knows it. Raises Invalid."""
    if key is not None and (not key or len(key) > LONGEST_KEY or not is_storable(key)):
        raise Invalid(f"An Idempotency-Key has 1 to {LONGEST_KEY} characters.", field="Idempotency-Key")
    content = json.dumps(asked, sort_keys=True).encode()
    return Stamp(user, key, hashlib.sha256(content).hexdigest())
