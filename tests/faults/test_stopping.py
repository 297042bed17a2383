"""SIGTERM, a second server, lost answers, and the storage that fails."""

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.faults.caller import Caller
from tests.support.server import ROOT, ServerProcess
from tests.support.upstream import UpstreamProcess

pytestmark = pytest.mark.fault


def test_sigterm_lets_a_short_reply_end(caller: Caller) -> None:
    reply = caller.post(caller.new_chat("normal?tokens=60&tps=60"), "go").reply
    caller.server.env["NIGHTDESK_DRAIN"] = "10"
    caller.shown(reply)
    assert caller.server.terminate() == 0
    caller.server.start()
    caller.reconnect()
    assert caller.reply(reply)["state"] in ("complete", "interrupted")


def test_sigterm_ends_in_time_although_replies_and_followers_go_on(caller: Caller) -> None:
    reply = caller.post(caller.new_chat("endless"), "go").reply
    caller.shown(reply)
    follower = threading.Thread(target=lambda: list(caller.events(reply)), daemon=True)
    follower.start()
    assert caller.server.terminate(timeout=8) == 0
    caller.server.start()
    caller.reconnect()
    found = caller.ended(reply)
    assert found["state"] == "interrupted", "a restart is not the owner's Stop"
    assert found["text"]


def test_a_second_sigterm_ends_it_at_once(caller: Caller) -> None:
    caller.server.env["NIGHTDESK_DRAIN"] = "60"
    caller.server.terminate()
    caller.server.start()
    caller.reconnect()
    caller.shown(caller.post(caller.new_chat("endless"), "go").reply)
    caller.server.process.send_signal(signal.SIGTERM)
    caller.until(lambda: httpx.get(caller.server.url + "/readyz").status_code == 503, "closing begins")
    caller.server.process.send_signal(signal.SIGTERM)
    assert caller.server.process.wait(5) != 0


def test_a_second_server_on_the_folder_refuses_and_says_why(server: ServerProcess) -> None:
    server.start()
    command = [sys.executable, "-m", "app.cli", "serve", "--data", str(server.data), "--port", "0"]
    second = subprocess.run(command, cwd=ROOT, env=server.env, capture_output=True, text=True, timeout=30)
    assert second.returncode == 1
    assert str(server.data) in second.stderr
    assert "Traceback" not in second.stderr


def test_a_lost_answer_is_made_good_by_the_same_key_also_after_a_restart(caller: Caller) -> None:
    chat, key = caller.new_chat("normal?tokens=40"), str(uuid.uuid4())
    first = caller.post(chat, "go", key)
    second = caller.post(chat, "go", key)
    caller.ended(first.reply)
    caller.server.kill()
    caller.server.start()
    caller.reconnect()
    third = caller.post(chat, "go", key)
    assert first == second == third
    assert [m["role"] for m in caller.messages(chat)] == ["user", "assistant"]
    other = caller.try_post(chat, "something else", key)
    assert (other.status_code, other.json()["type"]) == (409, "/problems/key-reused")


def test_a_short_lock_of_the_database_is_waited_for(caller: Caller) -> None:
    chat = caller.new_chat("normal?tokens=40")
    database = caller.server.data / "nightdesk.db"
    with sqlite3.connect(database, isolation_level=None, check_same_thread=False) as other:
        other.execute("BEGIN IMMEDIATE")
        release = threading.Timer(1.0, lambda: other.execute("ROLLBACK"))
        release.start()
        caller.post(chat, "go")
        release.join()
    assert caller.ended(caller.ledger[-1].reply)["state"] == "complete"


def test_a_long_lock_of_the_database_is_told_and_nothing_is_lost(caller: Caller) -> None:
    chat, key = caller.new_chat("normal?tokens=40"), str(uuid.uuid4())
    with sqlite3.connect(caller.server.data / "nightdesk.db", isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        refused = caller.try_post(chat, "go", key)
        other.execute("ROLLBACK")
    assert (refused.status_code, refused.headers["content-type"]) == (503, "application/problem+json")
    assert caller.ended(caller.post(chat, "go", key).reply)["state"] == "complete"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 24 MB."""
    place = tmp_path / "disk"
    place.mkdir()
    if (
        os.geteuid() != 0
        or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", place]).returncode
    ):
        pytest.skip("mounting a small disk needs root")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=True)


def test_a_full_disk_is_told_kept_readable_and_recovered_from(
    small_disk: Path, upstream: UpstreamProcess
) -> None:
    server = ServerProcess(small_disk / "data", "--no-local-model")
    caller: Caller | None = None
    try:
        server.start()
        caller = Caller(server, server.add_user())
        server.command("endpoint", "add", "up", "--api", "openai-chat", "--url", upstream.url)
        chat = caller.new_chat("normal?tokens=40")
        caller.ended(caller.post(chat, "before").reply)
        with (small_disk / "ballast").open("wb", buffering=0) as ballast, contextlib.suppress(OSError):
            while True:
                ballast.write(b"x" * 4096)
        key, refused = str(uuid.uuid4()), httpx.Response(202)
        while refused.status_code == 202:
            key = str(uuid.uuid4())
            refused = caller.try_post(chat, "x" * 100_000, key)
        assert refused.status_code == 507, refused.text
        assert refused.json()["type"] == "/problems/storage"
        assert caller.messages(chat), "what is there can still be read"
        (small_disk / "ballast").unlink()
        assert caller.ended(caller.post(chat, "x" * 100_000, key).reply)["state"] == "complete"
        assert not [line for line in server.log if "Traceback" in line]
    finally:
        if caller is not None:
            caller.close()
        server.close()
