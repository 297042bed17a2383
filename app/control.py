"""The control socket: how a command reaches the server that holds the data folder.

`DATA/control` is a Unix socket with mode 0600: whoever may open it may read the database anyway. One line of
JSON in, `{"verb", "arguments"}`; one line out, `{"ok", "text"}`. A command that finds no server takes the
folder's lock and does the work itself (`cli`).
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from app.core.errors import NightdeskError

logger = logging.getLogger(__name__)

Run = Callable[[str, dict[str, Any]], Awaitable[str]]

# The longest request or answer, in bytes; a command's answer is a few lines.
_LIMIT = 1024 * 1024


class CommandFailed(Exception):
    """The command was understood and could not be done; the text says why in one sentence."""


class NoServer(Exception):
    """Nobody listens on the control socket."""


class ControlServer:
    """Answers commands on `path` with `run` until closed."""

    def __init__(self, path: Path, run: Run) -> None:
        self._path = path
        self._run = run
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        """Begin to listen. A socket file left by a killed server is replaced: the folder's lock is ours."""
        self._path.unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(self._serve, self._path, limit=_LIMIT)
        self._path.chmod(0o600)

    async def close(self) -> None:
        """Stop listening. A command in hand is cancelled with its connection."""
        if self._server is not None:
            self._server.close()
            self._path.unlink(missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = json.loads(await reader.readline())
            answer = await self._answer(request["verb"], request["arguments"])
            writer.write(json.dumps(answer).encode() + b"\n")
            await writer.drain()
        except (ConnectionError, ValueError, KeyError) as error:
            logger.warning("control: a request could not be read or answered: %s", type(error).__name__)
        finally:
            writer.close()

    async def _answer(self, verb: str, arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            return {"ok": True, "text": await self._run(verb, arguments)}
        except NightdeskError as error:
            return {"ok": False, "text": error.person}
        except CommandFailed as error:
            return {"ok": False, "text": str(error)}
        except Exception:
            logger.exception("control: %s failed", verb)
            return {"ok": False, "text": "The server could not do this; its log says why."}


async def ask(path: Path, verb: str, arguments: dict[str, Any]) -> str:
    """Have the server at `path` run `verb`; its answer. Raises NoServer, CommandFailed."""
    try:
        reader, writer = await asyncio.open_unix_connection(path, limit=_LIMIT)
    except (FileNotFoundError, ConnectionRefusedError) as error:
        raise NoServer from error
    try:
        writer.write(json.dumps({"verb": verb, "arguments": arguments}).encode() + b"\n")
        await writer.drain()
        line = await reader.readline()
    finally:
        writer.close()
    if not line:
        raise CommandFailed("The server closed before it answered. Try again.")
    answer = json.loads(line)
    if not answer["ok"]:
        raise CommandFailed(answer["text"])
    return str(answer["text"])
