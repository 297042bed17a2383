"""Settings: a name and a JSON value of any kind."""

import pytest

from app.store import settings
from app.store.engine import Database


@pytest.mark.parametrize("value", [None, False, 0, 1.5, "", "text", [], [1, "a"], {}, {"a": {"b": None}}])
async def test_a_setting_holds_any_value(db: Database, value: object) -> None:
    await db.write(lambda s: settings.put(s, "name", "before"))
    await db.write(lambda s: settings.put(s, "name", value))
    async with db.read() as s:
        assert await settings.read_all(s) == {"name": value}
