"""A full disk: refused clearly, nothing half-written, reading goes on, and all is well again once there is room."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# In a mount namespace of its own, so that nothing is left; without root one gets it together with a user namespace.
NAMESPACES = (["unshare", "--mount"], ["unshare", "--user", "--map-root-user", "--mount"])


def on_a_small_disk(folder: Path, command: list[str]) -> list[str] | None:
    """`command`, with `folder` on a disk of 8 MB; None where this system lets nobody have one."""
    mount = f"mount -t tmpfs -o size=8m,mode=0700 none '{folder}'"
    for namespace in NAMESPACES:
        probe = [*namespace, "sh", "-c", mount]
        try:
            if subprocess.run(probe, capture_output=True, check=False).returncode == 0:
                return [*namespace, "sh", "-c", f'{mount} && exec "$@"', "sh", *command]
        except FileNotFoundError:
            return None
    return None


@pytest.mark.parametrize("means", ["room", "growth"])
def test_a_full_disk_is_told_leaves_nothing_half_written_and_is_recovered_from(
    means: str, tmp_path: Path
) -> None:
    program = [sys.executable, "-m", "tests.store.full_disk", str(tmp_path)]
    command = on_a_small_disk(tmp_path, [*program, "room"]) if means == "room" else None
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command or [*program, "growth"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert "Nothing was saved" in told["said"] or "nothing was saved" in told["said"]
    if command:
        assert "full" in told["said"]
        assert "full" in told["migration"]
