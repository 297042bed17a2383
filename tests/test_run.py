"""run.py on a project of two tiny packages, without a network."""

import ast
import hashlib
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import run
from tests.check import ROOT

CLI = """
import json, os, sys, thing
print(json.dumps({"arguments": sys.argv[1:], "thing": thing.VERSION, "pid": os.getpid(), "cwd": os.getcwd()}))
"""


class Project:
    """A folder with run.py, lock files and an `app.cli` that prints what it was started with."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = run.Environment(folder / ".venv")

    def lay(self) -> None:
        (self.folder / "app").mkdir(parents=True)
        (self.folder / "app" / "__init__.py").touch()
        (self.folder / "app" / "cli.py").write_text(CLI)
        shutil.copy(ROOT / "run.py", self.folder)
        self.lock("requirements.lock", "thing", "1.0")
        self.lock("requirements-local-model.lock", "model", "1.0")

    def lock(self, name: str, package: str, version: str) -> None:
        digest = hashlib.sha256(self.wheel(package, version).read_bytes()).hexdigest()
        (self.folder / name).write_text(f"{package}=={version} --hash=sha256:{digest}\n")

    def wheel(self, package: str, version: str) -> Path:
        path = self.folder / "index" / f"{package}-{version}-py3-none-any.whl"
        path.parent.mkdir(exist_ok=True)
        information = f"{package}-{version}.dist-info"
        with zipfile.ZipFile(path, "w") as wheel:
            wheel.writestr(f"{package}/__init__.py", f"VERSION = {version!r}\n")
            wheel.writestr(
                f"{information}/METADATA", f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n"
            )
            wheel.writestr(
                f"{information}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            )
            wheel.writestr(f"{information}/RECORD", "")
        return path

    def begin(self, *arguments: str, cwd: Path | None = None, **variables: str) -> subprocess.Popen[str]:
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(("NIGHTDESK_", "PIP_"))
        }
        index = {
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(self.folder / "index"),
            "PIP_CONFIG_FILE": os.devnull,
        }
        return subprocess.Popen(
            [sys.executable, self.folder / "run.py", *arguments],
            cwd=cwd or self.folder,
            env=inherited | index | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def start(self, *arguments: str, cwd: Path | None = None, **variables: str) -> "Ended":
        return Ended(self.begin(*arguments, cwd=cwd, **variables))

    def is_sound(self) -> bool:
        return self.environment.is_sound()


class Ended:
    """A start that has ended: its status, what the command printed, and what run.py told the person."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        output, self.told = process.communicate(timeout=100)
        self.status = process.returncode
        self.pid = process.pid
        self.printed: dict[str, Any] = json.loads(output or "{}")


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, Ended]:
    project = Project(tmp_path_factory.mktemp("first") / "project")
    project.lay()
    return project, project.start("doctor", "--data", "here")


@pytest.fixture
def project(first: tuple[Project, Ended], tmp_path: Path) -> Project:
    """A project whose environment has been made."""
    shutil.copytree(first[0].folder, tmp_path / "project", symlinks=True)
    return Project(tmp_path / "project")


def test_a_first_start_makes_the_environment_and_runs_the_command(first: tuple[Project, Ended]):
    _, ended = first
    assert ended.status == 0, ended.told
    assert ended.printed["arguments"] == ["doctor", "--data", "here"]
    assert "Installing the packages of requirements.lock: done" in ended.told


def test_a_second_start_has_nothing_to_do(project: Project):
    ended = project.start("doctor")
    assert (ended.status, ended.told) == (0, "")


def test_the_command_replaces_the_process_that_started_it(project: Project):
    ended = project.start("doctor")
    assert ended.printed["pid"] == ended.pid


def test_a_start_from_another_folder_is_not_misled_by_what_lies_there(project: Project, tmp_path: Path):
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "cli.py").write_text("raise SystemExit('the wrong one')")
    ended = project.start("doctor", cwd=tmp_path)
    assert ended.printed["cwd"] == str(tmp_path)


def test_a_changed_lock_is_brought_up_to_date_in_place(project: Project):
    project.lock("requirements.lock", "thing", "2.0")
    ended = project.start("doctor")
    assert ended.printed["thing"] == "2.0"
    assert "Making an environment" not in ended.told


def kill_amid_installing(folder: Path) -> None:
    (folder / "requirements.stamp").write_text("")


def kill_amid_making(folder: Path) -> None:
    (folder / "requirements.stamp").unlink()


def lose_a_package(folder: Path) -> None:
    shutil.rmtree(next(folder.glob("lib/python3*/site-packages/thing")))


def lose_the_interpreter(folder: Path) -> None:
    (folder / "bin" / "python").unlink()
    (folder / "bin" / "python").symlink_to("/nonexistent/python3")


def upgrade_the_interpreter(folder: Path) -> None:
    """Another minor version behind the same link, as after an upgrade of the system."""
    (folder / "bin" / "python").unlink()
    (folder / "bin" / "python").write_text("#!/bin/sh\necho cpython-399 linux x86_64\n")
    (folder / "bin" / "python").chmod(0o755)


@pytest.mark.parametrize(
    "harm",
    [kill_amid_installing, kill_amid_making, lose_a_package, lose_the_interpreter, upgrade_the_interpreter],
)
def test_a_broken_environment_is_noticed(project: Project, harm: Callable[[Path], None]):
    assert project.is_sound()
    harm(project.environment.folder)
    assert not project.is_sound()


def test_two_starts_at_once_repair_a_broken_environment_together(project: Project):
    lose_the_interpreter(project.environment.folder)
    begun = [project.begin("doctor"), project.begin("doctor")]
    ended = [Ended(process) for process in begun]
    assert [each.status for each in ended] == [0, 0], [each.told for each in ended]
    assert sum("is made anew" in each.told for each in ended) == 1
    assert sum("waiting for it" in each.told for each in ended) == 1


def test_a_package_that_is_not_the_one_of_the_lock_is_refused(project: Project):
    lock = project.folder / "requirements.lock"
    lock.write_text(f"thing==1.0 --hash=sha256:{'0' * 64}\n")
    ended = project.start("doctor")
    assert ended.status == 1
    assert ended.told.splitlines()[-1].startswith("Nightdesk: Downloading")
    assert project.is_sound(), "what was installed before is as it was"


def test_serve_goes_on_without_a_model_that_cannot_be_had(project: Project):
    (project.folder / "index" / "model-1.0-py3-none-any.whl").unlink()
    ended = project.start("--port", "0")
    assert ended.printed["arguments"] == ["--port", "0"]
    assert "Going on without the embedded model" in ended.told


@pytest.mark.parametrize(
    ("arguments", "variables", "installed"),
    [
        (["serve"], {}, True),
        (["serve", "--no-local-model"], {}, False),
        (["serve"], {"NIGHTDESK_NO_LOCAL_MODEL": "1"}, False),
        (["serve"], {"NIGHTDESK_LOCAL_MODEL": "false"}, False),
        (["backup", "file"], {}, False),
    ],
)
def test_the_model_is_installed_for_serve_unless_it_is_unwanted(
    project: Project, arguments: list[str], variables: dict[str, str], installed: bool
):
    project.start(*arguments, cwd=None, **variables)
    assert (project.environment.folder / "requirements-local-model.stamp").exists() == installed


def test_a_folder_that_is_no_environment_is_left_alone(project: Project, tmp_path: Path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "letter.txt").touch()
    ended = project.start("doctor", NIGHTDESK_VENV=str(tmp_path / "home"))
    assert (ended.status, ended.told.count("\n")) == (1, 1)
    assert (tmp_path / "home" / "letter.txt").exists()


def told_by(preparation: str, tmp_path: Path) -> str:
    """What run.py says, in a new process in which `preparation` has been done to the interpreter."""
    entry = str(ROOT / "run.py")
    program = f"import runpy, sys; {preparation}; runpy.run_path({entry!r}, run_name='__main__')"
    variables = {"PATH": os.environ["PATH"], "NIGHTDESK_VENV": str(tmp_path / "new")}
    done = subprocess.run([sys.executable, "-c", program], env=variables, capture_output=True, text=True)
    assert done.returncode == 1
    return done.stderr


def test_an_older_python_is_told_what_is_needed(tmp_path: Path):
    preparation = "sys.version_info = (3, 9, 2, 'final', 0)"
    assert told_by(preparation, tmp_path).startswith("Nightdesk needs Python 3.11 or newer; this is Python")


def test_an_older_python_gets_as_far_as_that_sentence():
    ast.parse((ROOT / "run.py").read_text(), feature_version=(3, 6))


def test_a_missing_venv_module_is_named_with_the_package_that_brings_it(tmp_path: Path):
    assert "apt install python3-venv" in told_by("sys.modules['ensurepip'] = None", tmp_path)
