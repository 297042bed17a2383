"""The command line: it works while the server runs and while it does not, and says what is wrong."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.server import PASSWORD, ROOT, ServerProcess


@pytest.fixture
def server(tmp_path: Path) -> ServerProcess:
    return ServerProcess(tmp_path / "data", "--no-local-model")


def run(*arguments: str, input: str = "") -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "app.cli", *arguments]
    return subprocess.run(command, cwd=ROOT, input=input, capture_output=True, text=True, timeout=60)


def test_accounts_and_keys_are_made_without_a_server(server: ServerProcess) -> None:
    key = server.add_user("ada")
    assert key.startswith("nd_")
    assert "/sign-in/link?token=" in server.command("user", "reset", "ada")


def test_the_same_commands_reach_a_running_server(server: ServerProcess, tmp_path: Path) -> None:
    try:
        server.start()
        assert server.add_user("ada").startswith("nd_")
        server.command("backup", str(tmp_path / "copy.tar"))
        assert (tmp_path / "copy.tar").stat().st_mode & 0o777 == 0o600
        assert "ok    audit log" in server.command("doctor")
        assert "Encrypted 0 secrets" in server.command("rotate-key")
    finally:
        server.close()


def test_a_backup_is_restored_into_a_new_folder(server: ServerProcess, tmp_path: Path) -> None:
    server.add_user("ada")
    server.command("backup", str(tmp_path / "copy.tar"))
    other = ServerProcess(tmp_path / "other", "--no-local-model")
    other.command("restore", str(tmp_path / "copy.tar"))
    (tmp_path / "other" / "secret.key").unlink(missing_ok=True)
    (tmp_path / "other" / "secret.key").write_bytes((tmp_path / "data" / "secret.key").read_bytes())
    assert "/sign-in/link" in other.command("user", "reset", "ada")


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["fly"], 2),
        (["user", "add", "ada"], 2),
        (["--port", "many"], 2),
        (["serve", "--single-user", "--host", "0.0.0.0"], 1),
        (["user", "reset", "nobody"], 1),
        (["key", "add", "nobody"], 1),
        (["restore", "/nowhere/copy.tar"], 1),
        (["endpoint", "add", "x", "--api", "openai-chat", "--url", "http://127.0.0.1:9"], 1),
        (["endpoint", "add", "x", "--api", "morse", "--url", "http://127.0.0.1:9"], 1),
    ],
)
def test_a_mistake_is_told_in_a_sentence(tmp_path: Path, arguments: list[str], status: int) -> None:
    done = run(*arguments, "--data", str(tmp_path / "data"))
    assert done.returncode == status
    assert done.stderr.strip()
    assert "Traceback" not in done.stderr


def test_a_weak_password_is_refused_with_the_rule(tmp_path: Path) -> None:
    done = run("user", "add", "ada", "--password-stdin", "--data", str(tmp_path / "d"), input="short\n")
    assert done.returncode == 1
    assert "12" in done.stderr
    assert PASSWORD not in done.stderr
