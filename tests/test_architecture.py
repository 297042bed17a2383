"""What holds for the source as a whole and no linter checks."""

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import app
from tests.check import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
SOURCES = sorted((ROOT / "app").rglob("*.py"))


def uses(path: Path) -> Iterator[str]:
    """Dotted names that a module mentions or imports: `os.environ`, `asyncio.create_task`, `httpx`."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute):
            yield ast.unparse(node)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def part(path: Path) -> str:
    """The package or module directly under `app` that a file belongs to: `store`, `cli`."""
    return path.relative_to(ROOT / "app").parts[0].removesuffix(".py")


def users_of(*endings: str) -> set[str]:
    """The parts of `app` that mention a name which is, or ends in, one of `endings`."""
    dotted = tuple(f".{ending}" for ending in endings)
    return {part(path) for path in SOURCES if any(f".{name}".endswith(dotted) for name in uses(path))}


def importers_of(*modules: str) -> set[str]:
    """The parts of `app` that import one of `modules`, or something out of it."""
    return {
        part(path)
        for path in SOURCES
        if any(name in modules or name.rpartition(".")[0] in modules for name in uses(path))
    }


def test_every_task_is_started_by_tasks():
    """A task that nobody holds may be collected in mid-air, and its failure is seen by nobody."""
    assert users_of("create_task", "ensure_future") <= {"tasks"}


def test_the_environment_is_read_by_config_alone():
    """`cli` hands `os.environ` to config as it is; whoever looks into it is config."""
    assert users_of("os.environ", "os.environb", "os.getenv", "os.putenv") <= {"config", "cli"}
    assert users_of("os.getenv", "os.environ.get", "os.environ.items", "os.putenv") <= {"config"}


def test_http_goes_out_through_outbound_alone():
    assert importers_of("httpx", "httpx2", "urllib.request", "http.client", "requests", "aiohttp") <= {
        "outbound"
    }


def test_every_part_of_the_application_is_under_an_import_contract():
    contracts = PROJECT["tool"]["importlinter"]["contracts"]
    protected = {name for contract in contracts for name in contract.get("protected_modules", [])}
    parts = {f"app.{part(path)}" for path in SOURCES} - {"app.__init__"}
    assert parts == protected, "pyproject.toml says for each part of app who may import it"


def test_one_provider_knows_nothing_of_another():
    """Only the table knows them all; what several need is in the shared modules. `chat_*` are parts of one."""
    shared = {"base", "sse", "reasoning", "calls", "failures", "listing"}
    names = {path.stem for path in SOURCES if part(path) == "providers"} - shared - {"__init__", "table"}
    own = {name for name in names if name == "openai_chat" or name.startswith("chat_")}
    known = {
        (name, other)
        for name in names
        for used in uses(ROOT / "app" / "providers" / f"{name}.py")
        for other in names - (own if name in own else {name})
        if f"{used}.".startswith(f"app.providers.{other}.")
    }
    assert known == set()


def test_every_folder_of_modules_is_a_package():
    folders = {path.parent for path in SOURCES}
    assert [str(folder) for folder in folders if not (folder / "__init__.py").exists()] == []


def test_the_version_is_the_same_everywhere():
    assert app.__version__ == PROJECT["project"]["version"]


def test_aiosqlite_runs_on_the_sqlite_that_the_wheel_brings():
    pysqlite3 = pytest.importorskip("pysqlite3", reason="no wheel for this platform")
    import aiosqlite

    assert vars(aiosqlite.core)["sqlite3"] is pysqlite3
    assert pysqlite3.sqlite_version_info >= (3, 51, 3)


def test_without_the_wheel_the_standard_module_is_left_alone():
    imports = "import tests.support.system_sqlite, app, sqlite3, sys"
    program = f"{imports}; print(sqlite3.__name__, 'pysqlite3.dbapi2' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["sqlite3", "False"]
