"""The guard: which addresses a reach may connect to. It looks at what a name resolves to, never at the name.

The answer of `Guard.admit` is what is connected to, so there is no second look-up that could say something
else (DNS rebinding), and no second parser that could read another host out of the same URL.
"""

import asyncio
import contextlib
import re
import socket
from collections.abc import Awaitable, Callable, Collection
from ipaddress import IPv6Address, ip_address
from typing import Literal

from app.outbound.addresses import Address, Kind, kind_of
from app.outbound.base import Blocked, NoConnection

Reach = Literal["provider", "tool", "discovery"]
Resolve = Callable[[str, int], Awaitable[Collection[Address]]]

# provider: an administrator set the address, and models often run in the same house or machine.
# tool: a model or a web page chose the address. discovery: our own look at this machine.
_MAY_REACH: dict[Reach, frozenset[Kind]] = {
    "provider": frozenset({"public", "loopback", "private", "shared"}),
    "tool": frozenset({"public"}),
    "discovery": frozenset({"loopback"}),
}
_TOOL_PORTS = frozenset({80, 443})
_HOST = re.compile(r"[a-z0-9_](?:[a-z0-9_.-]{0,251}[a-z0-9_.])?")
_DNS_SECONDS = 10.0


async def system_resolve(host: str, port: int) -> list[Address]:
    """Every address of `host`, in the system's order of preference. Raises OSError."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(ip_address(entry[4][0]) for entry in found))


class Guard:
    """The rules of one reach.

    `allowed` holds pairs of exact host (lower case) and port that an administrator lets tools reach although
    they are private. `own_ports` are those that this server listens on: never to be reached on this machine.
    """

    def __init__(
        self,
        reach: Reach,
        resolve: Resolve = system_resolve,
        allowed: Collection[tuple[str, int]] = (),
        own_ports: Collection[int] = (),
    ) -> None:
        self._reach = reach
        self._resolve = resolve
        self._allowed = allowed
        self._own_ports = own_ports

    async def admit(self, host: str, port: int) -> list[Address]:
        """The addresses to connect to for `host`, all of them checked. Raises Blocked or NoConnection."""
        host = host.lower().rstrip(".")
        excepted = self._reach != "discovery" and (host, port) in self._allowed
        if self._reach == "tool" and not excepted and port not in _TOOL_PORTS:
            raise Blocked(f"port {port} is not one that tools may use")
        addresses = await self._addresses(host, port)
        kinds = _MAY_REACH["provider" if excepted else self._reach]
        for address in addresses:
            if (kind := kind_of(address)) not in kinds:
                raise Blocked(f"{host} is at {address}, a {kind} address")
            if port in self._own_ports and _is_ours(address):
                raise Blocked(f"{host}:{port} is Nightdesk itself")
        return addresses

    async def _addresses(self, host: str, port: int) -> list[Address]:
        with contextlib.suppress(ValueError):
            return [ip_address(host)]
        if _HOST.fullmatch(host) is None:
            raise Blocked("the address holds a host name that is none")
        try:
            async with asyncio.timeout(_DNS_SECONDS):
                addresses = list(await self._resolve(host, port))
        except (OSError, UnicodeError) as error:  # TimeoutError is an OSError
            raise NoConnection(f"{host} could not be looked up: {error}") from error
        if not addresses:
            raise NoConnection(f"{host} has no address")
        return addresses


def _is_ours(address: Address) -> bool:
    """Whether `address` is one of this machine's: only to those can a socket be bound."""
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    if address.is_loopback:
        return True
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((str(address), 0))
    except OSError:
        return False
    return True
