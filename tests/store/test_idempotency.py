"""Idempotency keys: what a key made, for a while."""

import pytest
from sqlalchemy.exc import IntegrityError

from app.core.clock import now_ms
from app.core.errors import KeyReused
from app.core.ids import UserId
from app.store import idempotency
from app.store.engine import Database
from tests.store.steps import add_person


async def test_a_key_stands_for_what_it_made_and_for_nothing_else(db: Database, owner: UserId) -> None:
    await db.write(lambda s: idempotency.record(s, owner, "key", "print", "message", "m1"))
    eve = await add_person(db, "Eve")
    async with db.read() as s:
        assert await idempotency.made(s, owner, "key", "print") == "m1"
        assert await idempotency.made(s, owner, "other", "print") is None
        assert await idempotency.made(s, eve, "key", "another") is None
        with pytest.raises(KeyReused):
            await idempotency.made(s, owner, "key", "another")
        seen = await idempotency.seen(s, owner, "key")
        assert seen is not None
        assert (seen.kind, seen.made, seen.fingerprint) == ("message", "m1", "print")
    with pytest.raises(IntegrityError):
        await db.write(lambda s: idempotency.record(s, owner, "key", "print", "message", "m2"))


async def test_old_keys_are_forgotten(db: Database, owner: UserId) -> None:
    await db.write(lambda s: idempotency.record(s, owner, "key", "print", "message", "m1"))
    await db.write(lambda s: idempotency.forget(s, now_ms() - 60_000))
    async with db.read() as s:
        assert await idempotency.seen(s, owner, "key") is not None
    await db.write(lambda s: idempotency.forget(s, now_ms() + 1))
    async with db.read() as s:
        assert await idempotency.seen(s, owner, "key") is None
