"""The world of the fault tests: a server in a process of its own on a scripted upstream in another."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.caller import Caller
from tests.support.server import ServerProcess
from tests.support.upstream import UpstreamProcess

# The models that the upstream lists; what each of them does is in `tests.support.upstream_modes`.
MODELS = [
    "normal?tokens=40",
    "normal?tokens=60&tps=60",
    "normal?tokens=400&tps=100",
    "hang",
    "hang?after=10",
    "reset?bytes=2000",
    "reset?at=start",
    "truncate",
    "truncate?in=character&cut=1",
    "html",
    "json-error",
    "error-inside",
    "status?code=401",
    "status?code=429&retry_after=1",
    "endless",
]


@pytest.fixture
def upstream() -> Iterator[UpstreamProcess]:
    process = UpstreamProcess()
    try:
        process.control(models=MODELS)
        yield process
    finally:
        process.stop()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    """A server that was not started yet."""
    process = ServerProcess(
        tmp_path / "data",
        "--no-local-model",
        env={"NIGHTDESK_MESSAGES_PER_MINUTE": "0", "NIGHTDESK_DRAIN": "1"},
    )
    try:
        yield process
    finally:
        process.close()


@pytest.fixture
def caller(server: ServerProcess, upstream: UpstreamProcess) -> Iterator[Caller]:
    """A person who uses the started server over its API, and keeps a ledger of what was acknowledged."""
    server.start()
    key = server.add_user()
    server.command("endpoint", "add", "up", "--api", "openai-chat", "--url", upstream.url)
    caller = Caller(server, key)
    try:
        yield caller
    finally:
        caller.close()
