"""An upstream on the test's own loop, and the way out to it."""

from collections.abc import AsyncIterator

import pytest

from app.outbound import Http, Outbound
from tests.support.upstream import Upstream


@pytest.fixture
async def upstream() -> AsyncIterator[Upstream]:
    server = Upstream()
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def http() -> AsyncIterator[Http]:
    outbound = Outbound()
    yield outbound.http("provider")
    await outbound.close()
