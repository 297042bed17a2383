"""The headers that every answer carries, errors and static files included.

`Referrer-Policy` is `same-origin` and not `no-referrer`: under the latter browsers send `Origin: null` with a
form, and on the home network over plain HTTP, where `Sec-Fetch-Site` is missing too, no form could be sent.
"""

from functools import cache

Header = tuple[bytes, bytes]

PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; font-src 'self'; "
    "connect-src 'self'; media-src 'self'; frame-src 'self'; manifest-src 'self'; worker-src 'self'; "
    "form-action 'self'; base-uri 'none'; object-src 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types app"
)

# What a person uploaded is only ever bytes: it runs nothing, loads nothing and belongs to no origin.
FILE_POLICY = "default-src 'none'; form-action 'none'; frame-ancestors 'none'; sandbox"

# A frame of our own that draws what a model wrote: its scripts are ours, its origin is nobody's.
FRAME_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src data:; "
    "font-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'self'; sandbox allow-scripts"
)

_ALWAYS: tuple[Header, ...] = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (
        b"permissions-policy",
        b"accelerometer=(), browsing-topics=(), camera=(), display-capture=(), geolocation=(), gyroscope=(), "
        b"magnetometer=(), microphone=(), midi=(), payment=(), serial=(), usb=()",
    ),
)
_NOT_STORED: Header = (b"cache-control", b"no-store")
_TLS_ONLY: Header = (b"strict-transport-security", b"max-age=31536000")


def policy_for(path: str) -> str:
    """The Content-Security-Policy of `path`, which stands below the root path."""
    if path.startswith(("/files/", "/api/v1/files/")):
        return FILE_POLICY
    return FRAME_POLICY if path.startswith("/frames/") else PAGE_POLICY


def headers_for(path: str, secure: bool) -> tuple[Header, ...]:
    """The headers to add to an answer to `path`; `secure` says that the browser came over HTTPS."""
    return _headers(policy_for(path), not path.startswith("/static/"), secure)


@cache
def _headers(policy: str, kept_private: bool, secure: bool) -> tuple[Header, ...]:
    found: list[Header] = [(b"content-security-policy", policy.encode()), *_ALWAYS]
    if kept_private:
        found.append(_NOT_STORED)
    if secure:
        found.append(_TLS_ONLY)
    return tuple(found)
