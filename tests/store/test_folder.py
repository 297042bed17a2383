"""The data folder: private, and used by one process at a time."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from app.store.folder import SCRATCH, DataFolder, FolderInUse, FolderUnusable

ROOT = Path(__file__).parents[2]

_CLAIM = """
import sys
from pathlib import Path
from app.store.folder import DataFolder, FolderInUse
folder = DataFolder(Path(sys.argv[1]))
try:
    folder.lock()
except FolderInUse as refusal:
    print(refusal.person, flush=True)
else:
    print("claimed", flush=True)
    sys.stdin.read()
"""


def claim(path: Path) -> subprocess.Popen[str]:
    """A process that claims the folder until its standard input ends."""
    return subprocess.Popen(
        [sys.executable, "-c", _CLAIM, str(path)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_folder_and_what_is_written_in_it_is_for_its_user_alone(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path / "some" / "where")
    (folder.path / "note").write_text("private")
    assert mode_of(folder.path) == 0o700
    assert mode_of(folder.files) == 0o700
    assert mode_of(folder.path / "note") == 0o600


def test_a_folder_open_to_others_is_narrowed(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    DataFolder(tmp_path)
    assert mode_of(tmp_path) == 0o700


def test_a_place_that_cannot_be_a_folder_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file")
    with pytest.raises(FolderUnusable, match=str(tmp_path / "data")):
        DataFolder(tmp_path / "data")


def test_a_second_process_is_refused_and_told_why(tmp_path: Path) -> None:
    with claim(tmp_path) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "claimed\n"
        with claim(tmp_path) as second:
            said, _ = second.communicate()
        assert str(tmp_path) in said
        assert "Another Nightdesk" in said
        with pytest.raises(FolderInUse):
            DataFolder(tmp_path).lock()
        first.communicate()
    DataFolder(tmp_path).lock()


def test_a_killed_process_holds_nothing(tmp_path: Path) -> None:
    with claim(tmp_path) as first:
        assert first.stdout is not None
        first.stdout.readline()
        first.kill()
    folder = DataFolder(tmp_path)
    folder.lock()
    assert folder.locked


def test_a_claim_ends_with_its_block_but_not_one_that_was_there_before(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path)
    with folder.claimed(), pytest.raises(FolderInUse):
        DataFolder(tmp_path).lock()
    folder.lock()
    with folder.claimed():
        pass
    with pytest.raises(FolderInUse):
        DataFolder(tmp_path).lock()
    folder.unlock()
    DataFolder(tmp_path).lock()


def test_what_a_killed_process_was_making_is_removed_by_the_next_one(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path)
    (tmp_path / f"{SCRATCH}xyz").mkdir()
    (tmp_path / f"{SCRATCH}xyz" / "half").write_text("half")
    folder.lock()
    assert not list(tmp_path.glob(f"{SCRATCH}*"))


def test_a_child_process_does_not_inherit_the_claim(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path)
    folder.lock()
    program = [sys.executable, "-c", "print('up', flush=True); input()"]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, close_fds=False) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"up\n"
        folder.unlock()
        DataFolder(tmp_path).lock()
        child.communicate(os.linesep.encode())
