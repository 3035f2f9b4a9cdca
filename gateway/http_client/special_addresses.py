"""Address ranges without public servers: those of IANA's registries, and the metadata addresses of clouds.

Special ranges that the registries call globally reachable are here too (anycast services, AS112): they serve no public
content. Registries: https://www.iana.org/assignments/iana-ipv4-special-registry
https://www.iana.org/assignments/iana-ipv6-special-registry https://www.iana.org/assignments/ipv6-address-space: in IPv6
only 2000::/3 is assigned to networks.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import TypeAlias

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True)
class SpecialRange:
    """`name` and `source` as in the registry. `is_private`: an operator's own servers may be there."""

    network: Network
    name: str
    source: str
    is_private: bool = False


def _range(network: str, name: str, source: str, *, is_private: bool = False) -> SpecialRange:
    return SpecialRange(ipaddress.ip_network(network), name, source, is_private)


GLOBAL_UNICAST_6 = ipaddress.IPv6Network("2000::/3")

_IPV4 = (
    _range("0.0.0.0/8", "This network", "RFC 791"),
    _range("10.0.0.0/8", "Private-Use", "RFC 1918", is_private=True),
    _range("100.64.0.0/10", "Shared Address Space", "RFC 6598", is_private=True),
    _range("127.0.0.0/8", "Loopback", "RFC 1122", is_private=True),
    _range("169.254.0.0/16", "Link Local", "RFC 3927"),
    _range("172.16.0.0/12", "Private-Use", "RFC 1918", is_private=True),
    _range("192.0.0.0/24", "IETF Protocol Assignments", "RFC 6890"),
    _range("192.0.0.0/29", "IPv4 Service Continuity Prefix", "RFC 7335"),
    _range("192.0.0.8/32", "IPv4 dummy address", "RFC 7600"),
    _range("192.0.0.9/32", "Port Control Protocol Anycast", "RFC 7723"),
    _range("192.0.0.10/32", "Traversal Using Relays around NAT Anycast", "RFC 8155"),
    _range("192.0.0.170/31", "NAT64/DNS64 Discovery", "RFC 8880"),
    _range("192.0.2.0/24", "Documentation (TEST-NET-1)", "RFC 5737"),
    _range("192.31.196.0/24", "AS112-v4", "RFC 7535"),
    _range("192.52.193.0/24", "AMT", "RFC 7450"),
    _range("192.88.99.0/24", "Deprecated (6to4 Relay Anycast)", "RFC 7526"),
    _range("192.88.99.2/32", "6a44-relay anycast address", "RFC 6751"),
    _range("192.168.0.0/16", "Private-Use", "RFC 1918", is_private=True),
    _range("192.175.48.0/24", "Direct Delegation AS112 Service", "RFC 7534"),
    _range("198.18.0.0/15", "Benchmarking", "RFC 2544"),
    _range("198.51.100.0/24", "Documentation (TEST-NET-2)", "RFC 5737"),
    _range("203.0.113.0/24", "Documentation (TEST-NET-3)", "RFC 5737"),
    _range("224.0.0.0/4", "Multicast", "RFC 5771"),
    _range("240.0.0.0/4", "Reserved", "RFC 1112"),
    _range("255.255.255.255/32", "Limited Broadcast", "RFC 8190"),
)

_IPV6 = (
    _range("::/96", "Deprecated (IPv4-Compatible Address)", "RFC 4291"),
    _range("::/128", "Unspecified Address", "RFC 4291"),
    _range("::1/128", "Loopback Address", "RFC 4291", is_private=True),
    _range("::ffff:0:0/96", "IPv4-mapped Address", "RFC 4291"),
    _range("64:ff9b::/96", "IPv4-IPv6 Translat.", "RFC 6052"),
    _range("64:ff9b:1::/48", "IPv4-IPv6 Translat.", "RFC 8215"),
    _range("100::/64", "Discard-Only Address Block", "RFC 6666"),
    _range("100:0:0:1::/64", "Dummy IPv6 Prefix", "RFC 9780"),
    _range("2001::/23", "IETF Protocol Assignments", "RFC 2928"),
    _range("2001::/32", "TEREDO", "RFC 4380"),
    _range("2001:1::1/128", "Port Control Protocol Anycast", "RFC 7723"),
    _range("2001:1::2/128", "Traversal Using Relays around NAT Anycast", "RFC 8155"),
    _range("2001:1::3/128", "DNS-SD Service Registration Protocol Anycast", "RFC 9665"),
    _range("2001:2::/48", "Benchmarking", "RFC 5180"),
    _range("2001:3::/32", "AMT", "RFC 7450"),
    _range("2001:4:112::/48", "AS112-v6", "RFC 7535"),
    _range("2001:10::/28", "Deprecated (previously ORCHID)", "RFC 4843"),
    _range("2001:20::/28", "ORCHIDv2", "RFC 7343"),
    _range("2001:30::/28", "Drone Remote ID Protocol Entity Tags (DETs) Prefix", "RFC 9374"),
    _range("2001:db8::/32", "Documentation", "RFC 3849"),
    _range("2002::/16", "6to4", "RFC 3056"),
    _range("2620:4f:8000::/48", "Direct Delegation AS112 Service", "RFC 7534"),
    _range("3fff::/20", "Documentation", "RFC 9637"),
    _range("5f00::/16", "Segment Routing (SRv6) SIDs", "RFC 9602"),
    _range("fc00::/7", "Unique-Local", "RFC 4193", is_private=True),
    _range("fe80::/10", "Link-Local Unicast", "RFC 4291"),
    _range("fec0::/10", "Deprecated (Site-Local)", "RFC 3879"),
    _range("ff00::/8", "Multicast", "RFC 4291"),
)

# Where a cloud machine gets its identity, with keys. These addresses lie in ranges that look public or private.
_CLOUDS = (
    _range("168.63.129.16/32", "Azure's platform", "Azure's documentation"),
    _range("100.100.100.200/32", "Alibaba Cloud's metadata", "Alibaba Cloud's documentation"),
    _range("fd00:ec2::/32", "Amazon EC2's metadata and time", "Amazon's documentation"),
    _range("fd20:ce::254/128", "Google Cloud's metadata", "Google Cloud's documentation"),
    _range("fd00:c1::a9fe:a9fe/128", "Oracle Cloud's metadata", "Oracle Cloud's documentation"),
)

SPECIAL_RANGES = (*_IPV4, *_IPV6, *_CLOUDS)


def special_range(address: Address) -> SpecialRange | None:
    """The narrowest special range that the address is in; None for an ordinary public address."""
    found = [each for each in SPECIAL_RANGES if each.network.version == address.version and address in each.network]
    return max(found, key=lambda each: each.network.prefixlen, default=None)
