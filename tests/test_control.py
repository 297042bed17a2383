"""The control socket: commands reach the server that holds the folder."""

import asyncio
import stat
from pathlib import Path
from typing import Any

import pytest

from app.control import CommandFailed, ControlServer, NoServer, ask
from app.core.errors import NotFound


async def run(verb: str, arguments: dict[str, Any]) -> str:
    if verb == "greet":
        return f"Hello {arguments['name']}"
    if verb == "miss":
        raise NotFound("There is nobody called 'bob'.")
    raise RuntimeError("a secret detail")


async def test_a_command_is_answered_by_the_server(tmp_path: Path) -> None:
    server = ControlServer(tmp_path / "control", run)
    await server.open()
    assert await ask(tmp_path / "control", "greet", {"name": "ada"}) == "Hello ada"
    assert stat.S_IMODE((tmp_path / "control").stat().st_mode) == 0o600
    await server.close()


async def test_a_failure_comes_back_in_the_words_for_the_person(tmp_path: Path) -> None:
    server = ControlServer(tmp_path / "control", run)
    await server.open()
    with pytest.raises(CommandFailed, match="nobody called 'bob'"):
        await ask(tmp_path / "control", "miss", {})
    with pytest.raises(CommandFailed, match="its log says why") as failed:
        await ask(tmp_path / "control", "crash", {})
    assert "secret" not in str(failed.value)
    await server.close()


async def test_without_a_server_the_caller_learns_so(tmp_path: Path) -> None:
    with pytest.raises(NoServer):
        await ask(tmp_path / "control", "greet", {})
    server = ControlServer(tmp_path / "control", run)
    await server.open()
    await server.close()
    with pytest.raises(NoServer):
        await ask(tmp_path / "control", "greet", {})


async def test_the_socket_of_a_killed_server_is_replaced(tmp_path: Path) -> None:
    first = ControlServer(tmp_path / "control", run)
    await first.open()
    second = ControlServer(tmp_path / "control", run)
    await second.open()
    assert await ask(tmp_path / "control", "greet", {"name": "ada"}) == "Hello ada"
    await second.close()
    await first.close()


async def test_rubbish_on_the_socket_harms_nobody(tmp_path: Path) -> None:
    server = ControlServer(tmp_path / "control", run)
    await server.open()
    reader, writer = await asyncio.open_unix_connection(tmp_path / "control")
    writer.write(b"no json\n")
    assert await reader.read() == b""
    writer.close()
    assert await ask(tmp_path / "control", "greet", {"name": "ada"}) == "Hello ada"
    await server.close()
