import pytest
from sqlalchemy import text

from app.accounts import audit
from app.store.engine import Session
from tests.accounts.conftest import Door


async def fill(door: Door, rows: int = 5) -> None:
    async def note(s: Session) -> None:
        for i in range(rows):
            await audit.note(s, "setting changed", None, target=f"number {i}")

    await door.db.write(note)


async def test_an_untouched_log_is_whole(door: Door):
    assert await audit.verify(door.db) is None
    await fill(door)
    assert await audit.verify(door.db) is None


@pytest.mark.parametrize(
    "statement", ["UPDATE audit SET target = 'x' WHERE seq = 3", "DELETE FROM audit WHERE seq = 3"]
)
async def test_the_log_only_grows(door: Door, statement: str):
    await fill(door)
    with pytest.raises(Exception, match="audit"):
        await door.db.write(lambda s: s.execute(text(statement)))
    assert len(await door.log()) == 5


@pytest.mark.parametrize(
    ("tamper", "named"),
    [
        ("UPDATE audit SET target = 'nothing happened' WHERE seq = 3", 3),
        ("UPDATE audit SET at = at + 1 WHERE seq = 2", 2),
        ("UPDATE audit SET actor_name = 'eve' WHERE seq = 5", 5),
        ("DELETE FROM audit WHERE seq = 3", 4),
    ],
)
async def test_whoever_goes_around_the_triggers_is_found_out(door: Door, tamper: str, named: int):
    await fill(door)

    async def go_around(s: Session) -> None:
        found = await s.execute(
            text("SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'audit'")
        )
        for (name,) in found.all():
            await s.execute(text(f"DROP TRIGGER {name}"))
        await s.execute(text(tamper))

    await door.db.write(go_around)
    assert await audit.verify(door.db) == named


async def test_the_command_line_is_named_where_nobody_signed_in(door: Door):
    await fill(door, 1)
    (row,) = await door.log()
    assert (row.actor, row.actor_name) == (None, "command line")
