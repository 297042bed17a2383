"""Addresses of endpoints: one strict grammar, so that everything which reads one sees the same host in it."""

import re

from app.core.errors import Invalid

# Plain on purpose: no user, no query, no fragment, no escapes. Where two parsers read an address differently,
# one of them checks a host and the other one connects to another.
_ENDPOINT = re.compile(
    r"(?P<scheme>https?)://"
    r"(?P<host>[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?|\[[0-9a-f:.]+\])"
    r"(?::(?P<port>[0-9]{1,5}))?"
    r"(?P<path>(?:/[A-Za-z0-9._~@:+-]+)*)",
    re.ASCII,
)
# What people copy along with the address from a provider's page.
_TOO_FAR = re.compile(r"/(?:chat/completions|completions|models)$")
_LONGEST = 500


def endpoint_url(text: str) -> str:
    """The base address in its one spelling: lower-case host, no slash at its end, no default port.

    Raises Invalid.
    """
    head, mark, rest = text.strip().partition("://")
    host, slash, path = rest.partition("/")
    path = _TOO_FAR.sub("", f"{slash}{path}".rstrip("/"))
    match = _ENDPOINT.fullmatch(f"{head.lower()}{mark}{host.lower()}{path}")
    if match is None or len(text) > _LONGEST or ".." in path or not 0 < int(match["port"] or 1) < 65_536:
        raise Invalid(
            "This is not an address that can be used. It looks like https://api.example.com/v1.", "base_url"
        )
    return f"{_origin(match)}{path}"


def origin_of(url: str) -> str:
    """`scheme://host:port` of an address from `endpoint_url`, its port always named; "" for any other."""
    match = _ENDPOINT.fullmatch(url)
    if match is None:
        return ""
    return f"{match['scheme']}://{match['host']}:{match['port'] or _DEFAULT_PORT[match['scheme']]}"


_DEFAULT_PORT = {"http": 80, "https": 443}


def _origin(match: re.Match[str]) -> str:
    scheme, host, port = match["scheme"], match["host"], int(match["port"] or 0)
    return f"{scheme}://{host}" if port in (0, _DEFAULT_PORT[scheme]) else f"{scheme}://{host}:{port}"
