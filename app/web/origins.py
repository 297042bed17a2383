"""Which host names are ours, and which requests another site has sent.

Three attacks are met here. DNS rebinding: a name of the attacker's resolves to this machine, so only names
that no stranger can own are answered. Cross-site requests: a page elsewhere makes the browser send one with
our cookie, so a change must say that it comes from our own pages. Cross-site reading: a stream or a document
is fetched from elsewhere, so a request that says so gets nothing.
"""

import ipaddress
import re
from collections.abc import Mapping
from functools import lru_cache

_NAME = r"[a-z0-9_](?:[a-z0-9_.-]{0,251}[a-z0-9_])?|\[[0-9a-f:.]{2,45}\]"
_HOST = re.compile(rf"(?P<name>{_NAME})(?::(?P<port>[0-9]{{1,5}}))?")

# Names in these can belong to nobody on the internet: RFC 6761, RFC 6762, RFC 8375, and what ICANN has set
# aside or never delegated. A single word is none of a stranger's either.
_HOME_SUFFIXES = (".localhost", ".local", ".home.arpa", ".internal", ".test", ".lan", ".home")

_HOME_NETWORKS = tuple(
    ipaddress.ip_network(network)
    for network in (
        *("127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16"),
        "100.64.0.0/10",  # carrier NAT, and what overlay networks for a household hand out
        *("::1/128", "fc00::/7", "fe80::/10"),
    )
)

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


def split_host(value: str) -> tuple[str, str] | None:
    """The name and port ("" if none) of a Host header, in lower case; None for what is no host at all."""
    match = _HOST.fullmatch(value.lower())
    return (match["name"].strip("[]"), match["port"] or "") if match else None


@lru_cache(256)
def is_at_home(name: str) -> bool:
    """Whether a host name stands for this machine or a private network: a name or address no stranger can
    own.
    """
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return ("." not in name and not name.isdigit()) or name.endswith(_HOME_SUFFIXES)
    return any(address in network for network in _HOME_NETWORKS if network.version == address.version)


def is_ours(host: str, allowed: tuple[str, ...]) -> bool:
    """Whether a request for this Host header is answered."""
    found = split_host(host)
    return found is not None and (is_at_home(found[0]) or found[0] in allowed)


def is_own_origin(origin: str, host: str) -> bool:
    """Whether an Origin header names the host that was asked.

    Schemes are not compared: behind a proxy that ends TLS the server sees plain HTTP.
    """
    scheme, mark, rest = origin.partition("://")
    if not mark or scheme not in ("http", "https"):
        return False
    return _without_usual_port(rest.lower(), scheme) == _without_usual_port(host.lower(), scheme)


def _without_usual_port(host: str, scheme: str) -> str:
    return host.removesuffix(":443" if scheme == "https" else ":80")


def comes_from_elsewhere(method: str, headers: Mapping[str, str], host: str) -> bool:
    """Whether the browser says that another site made this request, or, for a change, does not say it was
    ours.

    `Sec-Fetch-Site` is sent to loopback and HTTPS only; on the home network over plain HTTP there is `Origin`
    with changes and nothing at all with a GET, which therefore passes: another site can neither read it nor
    send our SameSite cookie with it. A link on another site that a person follows is let through to a page.
    """
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if method in SAFE_METHODS:
        if site is None:
            return origin is not None and not is_own_origin(origin, host)
        return site not in ("same-origin", "none") and not _is_followed_link(headers)
    if site is not None:
        return site not in ("same-origin", "none")
    return origin is None or not is_own_origin(origin, host)


def _is_followed_link(headers: Mapping[str, str]) -> bool:
    return headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
