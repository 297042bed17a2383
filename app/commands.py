"""What each command does, to a house that is open: in the running server, or alone when none runs."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from app.accounts.access import Scope
from app.accounts.names import folded
from app.config import Settings
from app.control import CommandFailed
from app.core.clock import now_ms
from app.core.errors import NightdeskError, NotFound
from app.core.ids import UserId
from app.store import backup as backups, chats, files, idempotency, people
from app.store.folder import DataFolder
from app.web.house import House

_DAY = 24 * 60 * 60 * 1000


async def run(house: House, verb: str, arguments: dict[str, Any]) -> str:
    """Do `verb`; what to print. Raises NightdeskError, CommandFailed."""
    if verb not in VERBS:
        raise CommandFailed(f"This server does not know the command '{verb}'. Is it an older version?")
    return await VERBS[verb](house, **arguments)


async def user_add(house: House, name: str, password: str, admin: bool) -> str:
    user = await house.people.add_user(name, password, "admin" if admin else "member")
    return f"Made the account '{user.name}'."


async def user_reset(house: House, name: str) -> str:
    token = await house.people.reset(name)
    return f"One sign-in for '{name}', within a day, below the address of this server:\n/sign-in/link?token={token}"


async def key_add(house: House, name: str, scope: Scope) -> str:
    async with house.db.read() as s:
        user = await people.user_by_name(s, folded(name))
    if user is None:
        raise NotFound(f"There is nobody called '{name}'.")
    return await house.sessions.add_key(UserId(user.id), "command line", scope)


async def endpoint_add(house: House, name: str, api: str, url: str, key: str | None = None) -> str:
    endpoint, models = await house.models.add_endpoint(name, api, url, key)
    listed = ", ".join(model.name for model in models[:8]) + (", …" if len(models) > 8 else "")
    return f"Added '{endpoint.name}' with {len(models)} models{': ' + listed if models else ''}."


async def backup(house: House, file: str) -> str:
    await backups.backup(house.folder, Path(file))
    return f"Wrote {file} and checked it. The master key is not in it: keep {house.folder.key} as well, elsewhere."


async def restore(settings: Settings, file: str) -> str:
    try:
        folder = DataFolder(settings.data)
        with folder.claimed():
            await backups.restore(folder, Path(file))
    except NightdeskError as error:
        raise CommandFailed(error.person) from error
    return f"Restored {file} into {settings.data}. What was there before lies in its folder 'backups'."


async def rotate_key(house: House) -> str:
    count = await house.vault.rotate()
    return f"Encrypted {count} secrets under a new key."


async def clear_away(house: House) -> None:
    """Drop what has expired: sessions, idempotency keys, temporary chats and unused files of yesterday."""
    await house.sessions.sweep()
    now = now_ms()
    await house.db.write(lambda s: idempotency.forget(s, now - 2 * _DAY))
    await house.db.write(lambda s: chats.expire_temporary(s, now - _DAY))
    await house.db.write(lambda s: files.clear_away(s, house.files, now - _DAY))


async def doctor(house: House) -> str:
    from app.doctor import examine

    findings = await examine(house)
    if any(not finding.ok for finding in findings):
        raise CommandFailed("\n".join(map(str, findings)))
    return "\n".join(map(str, findings))


VERBS: dict[str, Callable[..., Awaitable[str]]] = {
    "user add": user_add,
    "user reset": user_reset,
    "key add": key_add,
    "endpoint add": endpoint_add,
    "backup": backup,
    "rotate-key": rotate_key,
    "doctor": doctor,
}
