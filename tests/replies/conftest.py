from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.replies.house import House, opened


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with opened(tmp_path / "data") as house:
        yield house
