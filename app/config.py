"""Settings: read once, typed and loud. The only module that reads the environment.

Three sources, the later one wins: `nightdesk.toml` in the data folder, `NIGHTDESK_*` variables, the command
line. A misspelt, unreadable or unknown key stops the start and is named.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, get_args, get_type_hints

PREFIX = "NIGHTDESK_"
ROOT = Path(__file__).resolve().parent.parent


class BadSettings(Exception):
    """A setting cannot be used; the text names it and says what it takes."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that is set outside the browser. Each field is a key of `nightdesk.toml`, `NIGHTDESK_<KEY>`
    in the environment and, where it says so, an option of `serve`."""

    data: Path = ROOT / "data"
    """The data folder (`--data`): `data` beside run.py, wherever it is started from."""
    host: str = "127.0.0.1"
    """The address to listen on (`--host`)."""
    port: int = 8787
    """The port to listen on; 0 picks a free one (`--port`)."""
    root_path: str = ""
    """The path under which a proxy serves Nightdesk, such as `/chat` (`--root-path`)."""
    single_user: bool = False
    """No sign-in, on a loopback address only (`--single-user`)."""
    local_model: bool = True
    """Whether the embedded model is offered (`--no-local-model` switches it off)."""
    allowed_hosts: tuple[str, ...] = ()
    """Host names under which browsers may reach it, besides loopback and private addresses; a proxy's name, say."""
    trusted_proxies: tuple[str, ...] = ()
    """Addresses of proxies whose `X-Forwarded-For` and `X-Forwarded-Proto` are believed."""
    secret_key: str | None = field(default=None, repr=False)
    """The master key for stored secrets, base64 of 32 bytes; without it the file `secret.key` is made and used."""
    drain: float = 10.0
    """Seconds that running replies get to end when the server stops."""
    max_text: int = 256 * 1024
    """The longest text of one message, in bytes of UTF-8."""
    max_upload: int = 100 * 1024 * 1024
    """The largest uploaded file, in bytes."""
    messages_per_minute: int = 30
    """How many messages one person may send in a minute; 0 means no limit."""
    idle_timeout: int = 300
    """Seconds of silence after which a new endpoint counts as dead; editable for each endpoint."""
    local_model_idle: int = 300
    """Seconds after its last use when the embedded model is stopped."""
    log_level: str = "info"
    """`debug`, `info`, `warning` or `error`."""


@dataclass(frozen=True, slots=True)
class FromEnvironment:
    """Keys that other programs use too; they become endpoints at the first start."""

    openai_api_key: str | None = field(default=None, repr=False)
    openai_base_url: str | None = None
    anthropic_api_key: str | None = field(default=None, repr=False)


def load_settings(environ: Mapping[str, str], options: Mapping[str, Any] | None = None) -> Settings:
    """The settings of this start. `options` are those given on the command line. Raises BadSettings."""
    given = {name: value for name, value in (options or {}).items() if value is not None}
    from_environ = _from_environ(environ)
    data = given.get("data") or from_environ.get("data") or Settings().data
    merged = _from_file(Path(data) / "nightdesk.toml") | from_environ | given
    settings = replace(Settings(), **{name: _typed(name, value) for name, value in merged.items()})
    return _checked(replace(settings, data=settings.data.expanduser().absolute()))


def load_from_environment(environ: Mapping[str, str]) -> FromEnvironment:
    """The provider keys in `environ`."""
    return FromEnvironment(
        openai_api_key=environ.get("OPENAI_API_KEY") or None,
        openai_base_url=environ.get("OPENAI_BASE_URL") or None,
        anthropic_api_key=environ.get("ANTHROPIC_API_KEY") or None,
    )


# Read by run.py, before there is an environment to run in.
_NOT_SETTINGS = frozenset({"venv", "no_local_model"})


def _from_environ(environ: Mapping[str, str]) -> dict[str, Any]:
    found = {
        name.removeprefix(PREFIX).lower(): value for name, value in environ.items() if name.startswith(PREFIX)
    }
    if found.get("no_local_model", "").lower() in ("1", "true", "yes"):
        found.setdefault("local_model", "false")
    found = {name: value for name, value in found.items() if name not in _NOT_SETTINGS}
    for name in found:
        if name not in _HINTS:
            raise BadSettings(
                f"The environment sets {PREFIX}{name.upper()}, which is no setting of Nightdesk."
            )
    return dict(found)


def _from_file(path: Path) -> dict[str, Any]:
    try:
        found = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadSettings(f"{path} cannot be read: {error}") from error
    for name in found:
        if name not in _HINTS or name == "data":
            raise BadSettings(f"{path} sets '{name}', which is no setting there.")
    return found


_HINTS = get_type_hints(Settings)
_TRUE, _FALSE = {"1", "true", "yes", "on"}, {"0", "false", "no", "off"}


def _typed(name: str, value: Any) -> Any:
    kind = _HINTS[name]
    if isinstance(kind, UnionType):
        kind = next(option for option in get_args(kind) if option is not NoneType)
    try:
        return _convert(kind, value)
    except (TypeError, ValueError) as error:
        raise BadSettings(
            f"The setting '{name}' cannot be {value!r}: {_EXPECTED.get(kind, 'text')} is needed."
        ) from error


_EXPECTED: dict[Any, str] = {bool: "true or false", int: "a whole number", float: "a number", Path: "a path"}


def _convert(kind: Any, value: Any) -> Any:
    if kind is bool:
        word = str(value).lower()
        if word not in _TRUE | _FALSE:
            raise ValueError(word)
        return word in _TRUE
    if kind in (int, float):
        if isinstance(value, bool):
            raise TypeError
        return kind(value)
    if kind in (str, Path):
        if not isinstance(value, str | Path):
            raise TypeError
        return kind(value)
    # What is left is a tuple of texts: a list in TOML, separated by commas elsewhere.
    if isinstance(value, str):
        return tuple(word.strip() for word in value.split(",") if word.strip())
    return tuple(str(word) for word in value)


_LOOPBACK = {"127.0.0.1", "::1", "localhost"}


def _checked(settings: Settings) -> Settings:
    if settings.single_user and settings.host not in _LOOPBACK:
        raise BadSettings(
            f"--single-user runs without sign-in and so only on a loopback address, not on {settings.host}. "
            "Leave out --single-user, or use --host 127.0.0.1."
        )
    if not 0 <= settings.port <= 65535:
        raise BadSettings(f"The port must lie between 0 and 65535, not {settings.port}.")
    if settings.log_level not in ("debug", "info", "warning", "error"):
        raise BadSettings(
            f"The setting 'log_level' is debug, info, warning or error, not '{settings.log_level}'."
        )
    for name in (f.name for f in fields(settings) if _HINTS[f.name] in (int, float)):
        if getattr(settings, name) < 0:
            raise BadSettings(f"The setting '{name}' cannot be negative.")
    root = settings.root_path.rstrip("/")
    if root and not root.startswith("/"):
        raise BadSettings(f"The root path begins with a slash, such as /chat, not '{settings.root_path}'.")
    return replace(settings, root_path=root)
