"""Every check of the project in one go: what `python3 run.py test` runs inside the environment.

With arguments it is pytest alone, with them. A failed check keeps none of the others from running; the exit
status says whether all passed, and the last line is pytest's closing line, summed over its passes.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = Path(sys.executable).parent
PYTEST = (sys.executable, "-m", "pytest")

NO_TESTS_COLLECTED = 5  # pytest's exit status


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    command: Sequence[str | Path]


CHECKS = (
    Check("Style", [SCRIPTS / "ruff", "check"]),
    Check("Format", [SCRIPTS / "ruff", "format", "--check"]),
    Check("Types", [SCRIPTS / "mypy"]),
    Check("Imports", [SCRIPTS / "lint-imports"]),
    # Two workers halve what only computes. What drives a browser or kills servers watches clocks: alone.
    Check("Tests", [*PYTEST, "-q", "-n", "2", "-m", "not (browser or fault or nightly)"]),
    Check(
        "Tests of the store on the system's SQLite",
        [*PYTEST, "-q", "-p", "tests.support.system_sqlite", "tests/store"],
    ),
    Check(
        "Tests with a browser and with faults", [*PYTEST, "-q", "-m", "(browser or fault) and not nightly"]
    ),
)


def main(arguments: Sequence[str]) -> int:
    os.chdir(ROOT)
    if arguments:
        os.execv(sys.executable, [*PYTEST, *arguments])
    began = time.monotonic()
    failed = [] if provide_system_packages() else ["System packages"]
    totals: Counter[str] = Counter()
    for check in CHECKS:
        status, output = run(check)
        totals += counts(output)
        if status not in (0, NO_TESTS_COLLECTED):
            failed.append(check.name)
    print(f"\nFailed: {', '.join(failed)}." if failed else "\nEvery check passed.")
    print(closing_line(totals, time.monotonic() - began))
    return 1 if failed else 0


def run(check: Check) -> tuple[int, str]:
    """Runs one check, passing on what it prints; its exit status and its output."""
    print(f"\n=== {check.name}", flush=True)
    began = time.monotonic()
    output = []
    with subprocess.Popen(
        check.command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            output.append(line)
    print(f"=== {check.name}: {verdict(process.returncode)}, {time.monotonic() - began:.1f} s", flush=True)
    return process.returncode, "".join(output)


def verdict(status: int) -> str:
    return {0: "passed", NO_TESTS_COLLECTED: "nothing to run"}.get(status, "FAILED")


# pytest's closing line

CLOSING = re.compile(r"^=* ?(\d+ \w+(?:, \d+ \w+)*) in [\d.]+s", re.MULTILINE)
ORDER = ("failed", "passed", "skipped", "xfailed", "xpassed", "error", "errors")


def counts(output: str) -> Counter[str]:
    """How many tests ended how, by pytest's last line in `output`; nothing when there is none."""
    found = CLOSING.findall(output)
    words = [part.split() for part in found[-1].split(", ")] if found else []
    return Counter({outcome: int(number) for number, outcome in words if outcome in ORDER})


def closing_line(totals: Counter[str], seconds: float) -> str:
    told = [f"{totals[outcome]} {outcome}" for outcome in ORDER if totals[outcome]]
    return f" {', '.join(told) or 'no tests ran'} in {seconds:.2f}s ".center(80, "=")


# What comes from the operating system: a browser to drive, and an sshd to talk to

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
SSHD = "/usr/sbin/sshd"


def missing_packages() -> list[str]:
    """Debian's names of what is not there yet."""
    missing = [] if any(map(shutil.which, BROWSERS)) else ["chromium"]
    return missing if Path(SSHD).exists() else [*missing, "openssh-server"]


def provide_system_packages() -> bool:
    missing = missing_packages()
    if not missing:
        return True
    names = " ".join(missing)
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        print(
            f"Some tests need {names} from the system; on Debian: sudo apt-get install {names}",
            file=sys.stderr,
        )
        return False
    print(f"=== Installing {names}", flush=True)
    began = time.monotonic()
    # A package list that is there may be good enough, and fetching it anew takes longer than the packages.
    done = apt("install", *missing) or (apt("update") and apt("install", *missing))
    print(f"=== Installing {names}: {verdict(not done)}, {time.monotonic() - began:.1f} s", flush=True)
    return done


def apt(verb: str, *names: str) -> bool:
    variables = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    options = ["-qq", "-y", "--no-install-recommends"] if verb == "install" else ["-qq"]
    done = subprocess.run(["apt-get", verb, *options, *names], env=variables, capture_output=True, text=True)
    if done.returncode:
        print(done.stderr, file=sys.stderr)
    return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
