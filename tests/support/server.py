"""Nightdesk as a user runs it: a process of its own on a data folder, started, killed and asked from outside."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).resolve().parents[2]
PASSWORD = "correct horse battery"
_ADDRESS = re.compile(r"(http://127\.0\.0\.1:\d+)")


class ServerProcess:
    """One server on `data`. `log` holds every line that it printed."""

    def __init__(self, data: Path, *options: str, env: Mapping[str, str] | None = None) -> None:
        self.data = data
        self.options = options
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("NIGHTDESK_")}
        for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "PYTHONDONTWRITEBYTECODE"):
            self.env.pop(name, None)
        self.env |= {"PYTHONUNBUFFERED": "1"} | dict(env or {})
        self.log: list[str] = []
        self.url = ""
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None
        self._changed = threading.Condition()
        self._ended = False

    @property
    def process(self) -> subprocess.Popen[str]:
        assert self._process is not None, "the server was not started"
        return self._process

    @property
    def pid(self) -> int:
        return self.process.pid

    def start(self, *, port: int = 0, timeout: float = 60) -> "ServerProcess":
        """Start and return once it listens. Raises AssertionError with its output if it ends before."""
        command = [sys.executable, "-m", "app.cli", "serve", "--data", str(self.data), "--port", str(port)]
        self.url, self._ended = "", False
        self._process = subprocess.Popen(
            [*command, *self.options],
            cwd=ROOT,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, args=(self._process,), daemon=True)
        self._reader.start()
        with self._changed:
            self._changed.wait_for(lambda: self.url or self._ended, timeout)
        assert self.url, "the server did not start:\n" + "".join(self.log)
        self._wait_ready(timeout)
        return self

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                with self._changed:
                    self.log.append(line)
                    if not self.url and (found := _ADDRESS.search(line)):
                        self.url = found[1]
                    self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _wait_ready(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            try:
                if httpx.get(self.url + "/readyz", timeout=5).status_code == 200:
                    return
            except httpx.TransportError:
                pass
            assert not self._ended, "the server ended:\n" + "".join(self.log)
            time.sleep(0.01)
        raise AssertionError("the server is not ready:\n" + "".join(self.log))

    def kill(self) -> None:
        """`kill -9`, at once."""
        self.process.send_signal(signal.SIGKILL)
        self._wait(10)

    def terminate(self, timeout: float = 30) -> int:
        """SIGTERM; the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self._wait(timeout)

    def _wait(self, timeout: float) -> int:
        """The exit status once the process is gone and all that it printed was read."""
        status = self.process.wait(timeout)
        if self._reader is not None:
            self._reader.join(timeout)
        return status

    def close(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self.kill()

    def command(self, *arguments: str, input: str = "", check: bool = True) -> str:
        """Run one command of the command line on this data folder; its standard output."""
        done = subprocess.run(
            [sys.executable, "-m", "app.cli", *arguments, "--data", str(self.data)],
            cwd=ROOT,
            env=self.env,
            input=input,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert not check or done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
        return done.stdout

    def add_user(self, name: str = "ada", *, admin: bool = True) -> str:
        """Make an account; an API key of it."""
        self.command(
            "user", "add", name, *(["--admin"] if admin else []), "--password-stdin", input=PASSWORD + "\n"
        )
        return self.command("key", "add", name).splitlines()[-1]

    def cpu_seconds(self) -> float:
        """User and system time of the process so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident_mb(self) -> float:
        """Resident memory in MB."""
        text = Path(f"/proc/{self.pid}/status").read_text()
        return int(re.findall(r"VmRSS:\s+(\d+)", text)[0]) / 1024


@contextmanager
def serving(data: Path, *options: str, env: Mapping[str, str] | None = None) -> Iterator[ServerProcess]:
    """A running server on `data`, ended afterwards."""
    server = ServerProcess(data, *options, env=env)
    try:
        yield server.start()
    finally:
        server.close()


def client(server: ServerProcess, key: str, **options: Any) -> httpx.Client:
    """An HTTP client that speaks the API with `key`."""
    return httpx.Client(
        base_url=server.url,
        headers={"Authorization": f"Bearer {key}"},
        timeout=options.pop("timeout", 30),
        **options,
    )
