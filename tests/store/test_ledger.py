"""The ledger: one row per model call, summed by day, model or person."""

from app.core.ids import UserId, new_id
from app.store import ledger
from app.store.engine import Database
from app.store.ledger import Sum
from tests.store.steps import add_person

DAY = 86_400_000
FIRST = 1_767_225_600_000  # 2026-01-01 in UTC


async def spend(db: Database, user: UserId, at: int, **row: object) -> None:
    told = {"role": "chat", "model": new_id(), "model_name": "small", "endpoint": "Home", "estimated": False}
    await db.write(lambda s: ledger.add(s, **{**told, "user": user, "at": at, **row}))


async def test_calls_are_summed_by_day_model_and_person(db: Database, owner: UserId) -> None:
    eve = await add_person(db, "Eve")
    await spend(db, owner, FIRST, input_tokens=10, output_tokens=1, cost=0.25)
    await spend(db, owner, FIRST + DAY - 1, input_tokens=20, output_tokens=2, model_name="large", cost=0.5)
    await spend(db, owner, FIRST + DAY, input_tokens=40, output_tokens=4, estimated=True)
    await spend(db, eve, FIRST, input_tokens=80, output_tokens=8)
    async with db.read() as s:
        assert await ledger.sums(s, owner, "day") == [
            Sum("2026-01-01", 2, 30, 3, 0.75, False),
            Sum("2026-01-02", 1, 40, 4, None, True),
        ]
        assert await ledger.sums(s, owner, "model") == [
            Sum("large", 1, 20, 2, 0.5, False),
            Sum("small", 2, 50, 5, 0.25, True),
        ]
        everybody = {found.group: found.input_tokens for found in await ledger.sums(s, None, "user")}
        assert everybody == {owner: 70, eve: 80}
        assert await ledger.sums(s, owner, "model", since=FIRST + 1, until=FIRST + DAY) == [
            Sum("large", 1, 20, 2, 0.5, False)
        ]


async def test_what_is_left_out_of_a_row_is_nothing(db: Database, owner: UserId) -> None:
    await spend(db, owner, FIRST)
    async with db.read() as s:
        assert await ledger.sums(s, owner) == [Sum("2026-01-01", 1, 0, 0, None, False)]
