"""The audit log: it grows, and a change in it shows."""

from contextlib import closing

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from app.core.errors import Invalid
from app.core.ids import UserId
from app.store.audit import append_audit, audit, broken_link
from app.store.copy import connect
from app.store.engine import Database
from app.store.folder import DataFolder
from tests.store.conftest import Opened


async def note(db: Database, action: str, owner: UserId | None = None, **detail: object) -> None:
    await db.write(
        lambda s: append_audit(
            s, action=action, actor=owner, actor_name="Ada", target="t", detail=detail, address="::1"
        )
    )


async def test_the_log_is_read_newest_first_page_by_page(db: Database, owner: UserId) -> None:
    for number in range(7):
        await note(db, f"act {number}", owner, number=number, words=["é", None])
    seen: list[str] = []
    cursor = None
    while True:
        async with db.read() as s:
            page, cursor = await audit(s, cursor, limit=3)
        seen += [row.action for row in page]
        if cursor is None:
            break
    assert seen == [f"act {number}" for number in reversed(range(7))]
    async with db.read() as s:
        assert await broken_link(s) is None
        with pytest.raises(Invalid):
            await audit(s, "x")


@pytest.mark.parametrize("statement", ["UPDATE audit SET action = 'x'", "DELETE FROM audit"])
async def test_nothing_in_the_log_is_changed_or_removed(db: Database, statement: str) -> None:
    await note(db, "signed in")
    with pytest.raises(IntegrityError, match="only grows"):
        await db.write(lambda s: s.execute(text(statement)))
    async with db.read() as s:
        assert [row.action for row in (await audit(s))[0]] == ["signed in"]


@pytest.mark.parametrize(
    "tampering",
    [
        "UPDATE audit SET actor_name = 'Eve' WHERE seq = 3",
        "UPDATE audit SET detail = '{}' WHERE seq = 3",
        "UPDATE audit SET at = at + 1 WHERE seq = 3",
        "UPDATE audit SET seq = 30 WHERE seq = 3",
        "DELETE FROM audit WHERE seq = 2",
    ],
)
async def test_what_somebody_changed_behind_our_back_is_named(
    folder: DataFolder, open_database: Opened, tampering: str
) -> None:
    async with open_database(folder) as db:
        for number in range(5):
            await note(db, "act", None, number=number)
    with closing(connect(folder.database)) as connection:
        connection.execute("DROP TRIGGER audit_no_update")
        connection.execute("DROP TRIGGER audit_no_delete")
        connection.execute(tampering)
        for name in ("update", "delete"):
            connection.execute(
                f"CREATE TRIGGER audit_no_{name} BEFORE {name} ON audit BEGIN SELECT raise(ABORT, 'no'); END"
            )
    async with open_database(folder) as db, db.read() as s:
        assert await broken_link(s) == (4 if "seq = 30" in tampering else 3)
