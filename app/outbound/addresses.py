"""What kind of address an IP address is.

Own tables, because `ipaddress.is_global` calls cloud metadata, NAT64, 6to4 and multicast addresses global.
From the IANA special-purpose registries (RFC 6890 and its updates) and the documents of the clouds.
"""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Literal

Address = IPv4Address | IPv6Address
Kind = Literal[
    "public",
    "loopback",
    "private",
    "shared",
    "link-local",
    "metadata",
    "multicast",
    "benchmark",
    "documentation",
    "unspecified",
    "reserved",
]

# In both tables the first match counts, so single addresses stand before the networks that hold them.
_V4: dict[Kind, tuple[str, ...]] = {
    # AWS, GCP, Azure and most others; Alibaba; Azure's platform channel; Oracle's other one.
    "metadata": ("169.254.169.254/32", "100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32"),
    "loopback": ("127.0.0.0/8",),
    "private": ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"),
    "shared": ("100.64.0.0/10",),  # carrier-grade NAT, and Tailscale
    "link-local": ("169.254.0.0/16",),  # AWS's container credentials are here, too
    "multicast": ("224.0.0.0/4",),
    "benchmark": ("198.18.0.0/15",),
    "documentation": ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24"),
    "unspecified": ("0.0.0.0/8",),
    "reserved": ("192.0.0.0/24", "192.88.99.0/24", "240.0.0.0/4"),
    "public": ("0.0.0.0/0",),
}
_V6: dict[Kind, tuple[str, ...]] = {
    # AWS (instances, container credentials), GCP, Oracle.
    "metadata": ("fd00:ec2::254/128", "fd00:ec2::23/128", "fd20:ce::254/128", "fd00:c1::a9fe:a9fe/128"),
    "loopback": ("::1/128",),
    "unspecified": ("::/128",),
    "private": ("fc00::/7", "fec0::/10", "64:ff9b:1::/48"),  # unique-local, site-local, local NAT64
    "link-local": ("fe80::/10",),
    "multicast": ("ff00::/8",),
    "benchmark": ("2001:2::/48",),
    "documentation": ("2001:db8::/32", "3fff::/20"),
    "reserved": ("2001::/23",),
    "public": ("2000::/3",),  # the only unicast space that is given out; the rest is reserved
}
_V4_NETWORKS = tuple((IPv4Network(text), kind) for kind, texts in _V4.items() for text in texts)
_V6_NETWORKS = tuple((IPv6Network(text), kind) for kind, texts in _V6.items() for text in texts)

_COMPATIBLE = IPv6Network("::/96")
_NAT64 = IPv6Network("64:ff9b::/96")


def kind_of(address: Address) -> Kind:
    """The kind of `address`; of one that carries an IPv4 address within it, that one's."""
    if isinstance(address, IPv4Address):
        return next(kind for network, kind in _V4_NETWORKS if address in network)
    if inner := _inside(address):
        return next((kind for kind in map(kind_of, inner) if kind != "public"), "public")
    return next((kind for network, kind in _V6_NETWORKS if address in network), "reserved")


def _inside(address: IPv6Address) -> tuple[IPv4Address, ...]:
    """The IPv4 addresses that packets to `address` end up at: mapped, 6to4, Teredo, NAT64, compatible."""
    if address.ipv4_mapped is not None:
        return (address.ipv4_mapped,)
    if address.sixtofour is not None:
        return (address.sixtofour,)
    if address.teredo is not None:
        return address.teredo
    if address in _NAT64 or (address in _COMPATIBLE and int(address) > 1):
        return (IPv4Address(int(address) & 0xFFFFFFFF),)
    return ()
