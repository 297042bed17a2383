from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.web.api.world import World, world


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[World]:
    async with world(tmp_path / "data") as found:
        yield found
