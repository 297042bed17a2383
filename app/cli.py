"""The commands behind `run.py`. Exit status 0 for success, 2 for wrong use, 1 for a failure told in one sentence."""

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from app.config import BadSettings, Settings, load_from_environment, load_settings
from app.control import CommandFailed, NoServer, ask


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line; the exit status."""
    options = vars(_parser().parse_args(argv))
    command = options.pop("command")
    try:
        settings = load_settings(os.environ, {name: options.pop(name, None) for name in _SETTINGS})
        if command == "serve":
            return _serve(settings)
        print(_run(command, settings, options))
    except (BadSettings, CommandFailed) as error:
        print(f"nightdesk: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


_SETTINGS = ("data", "host", "port", "single_user", "local_model", "root_path")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="run.py",
        description="Nightdesk, a chat whose replies belong to the server.",
        epilog="run.py itself also knows `test` (every check) and `bench` (the figures of docs/speed.md).",
    )
    # --data may stand before or after the command; a default of SUPPRESS keeps the one from undoing the other.
    everywhere = argparse.ArgumentParser(add_help=False)
    everywhere.add_argument(
        "--data", type=Path, default=argparse.SUPPRESS, metavar="DIR", help="the data folder (data)"
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    parser.set_defaults(command="serve")

    def command(name: str, text: str, within: Any = commands) -> argparse.ArgumentParser:
        made: argparse.ArgumentParser = within.add_parser(
            name, help=text, description=text, parents=[everywhere]
        )
        return made

    def group(name: str, text: str) -> Any:
        made = commands.add_parser(name, help=text, description=text)
        return made.add_subparsers(dest="action", required=True, metavar="ACTION")

    for serve in (command("serve", "serve (the default)"), parser):
        _serve_options(serve)
    parser.add_argument("--data", type=Path, default=argparse.SUPPRESS, metavar="DIR", help=argparse.SUPPRESS)

    user = group("user", "accounts")
    add = command("add", "make an account", user)
    add.add_argument("name")
    add.add_argument("--admin", action="store_true", help="an administrator")
    add.add_argument(
        "--password-stdin", action="store_true", required=True, help="read the password from standard input"
    )
    reset = command("reset", "print a one-time sign-in link", user)
    reset.add_argument("name")

    key = command("add", "print one new API key, alone on the last line", group("key", "API keys"))
    key.add_argument("name", help="whose key")
    key.add_argument("--scope", choices=("all", "read", "chat"), default="all")

    endpoint = command(
        "add", "add an endpoint and read its models", group("endpoint", "where models are reached")
    )
    endpoint.add_argument("name")
    endpoint.add_argument("--api", required=True, help="the wire API, such as openai-chat")
    endpoint.add_argument("--url", required=True)
    endpoint.add_argument("--key-stdin", action="store_true", help="read the key from standard input")

    command("backup", "write everything into FILE, checked").add_argument("file", type=Path)
    command("restore", "put back what FILE holds; the server must not run").add_argument("file", type=Path)
    command("doctor", "look for what is wrong and name the setting at fault")
    command("rotate-key", "encrypt all stored secrets under a new key")
    return parser


def _serve_options(serve: argparse.ArgumentParser) -> None:
    def add(name: str, **options: Any) -> None:
        # Also accepted without the word `serve`; SUPPRESS keeps the one place from undoing the other.
        serve.add_argument(name, default=argparse.SUPPRESS, **options)

    add("--host", help="the address to listen on (127.0.0.1)")
    add("--port", type=int, help="the port to listen on (8787)")
    add("--single-user", action="store_true", help="no sign-in; loopback only")
    add("--no-local-model", dest="local_model", action="store_false", help="leave the embedded model out")
    add("--root-path", metavar="/PATH", help="the path under which a proxy serves it")


def _serve(settings: Settings) -> int:
    from app.main import serve

    return serve(settings, load_from_environment(os.environ))


def _run(command: str, settings: Settings, options: dict[str, Any]) -> str:
    """Have the running server do it, or do it here if none runs. Raises CommandFailed."""
    verb = f"{command} {action}" if (action := options.pop("action", None)) else command
    for flag, name in (("password_stdin", "password"), ("key_stdin", "key")):
        if options.pop(flag, False):
            options[name] = _first_line()
    for name, value in options.items():
        if isinstance(value, Path):
            options[name] = str(value.absolute())
    return asyncio.run(_here_or_there(verb, settings, options))


async def _here_or_there(verb: str, settings: Settings, options: dict[str, Any]) -> str:
    if verb == "restore":
        from app.commands import restore

        return await restore(settings, **options)
    try:
        return await ask(settings.data / "control", verb, options)
    except NoServer:
        return await _alone(verb, settings, options)


async def _alone(verb: str, settings: Settings, options: dict[str, Any]) -> str:
    """Open the house without serving it, and do it here."""
    from app.commands import run
    from app.core.errors import NightdeskError
    from app.main import opened
    from app.store.folder import DataFolder

    try:
        folder = DataFolder(settings.data)
        with folder.claimed():
            async with opened(settings, folder) as ready:
                await ready.house.models.refresh()
                return await run(ready.house, verb, options)
    except NightdeskError as error:
        raise CommandFailed(error.person) from error


def _first_line() -> str:
    line = sys.stdin.readline().rstrip("\r\n")
    if not line:
        raise CommandFailed("Nothing came on standard input.")
    return line


if __name__ == "__main__":
    sys.exit(main())
