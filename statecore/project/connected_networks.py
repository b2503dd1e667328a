"""The networks to which this machine is connected directly, as the kernel's routing tables list them.

In a container they are the networks of the engine, which chooses their ranges itself.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from pathlib import Path

ROUTES, ROUTES_6 = Path("/proc/net/route"), Path("/proc/net/ipv6_route")
LOOPBACK = "127.0.0.0/8", "::1/128"
REACHABLE = 0x0001  # RTF_UP
NO_GATEWAY, NO_GATEWAY_6 = "00000000", "0" * 32
LOCAL_6 = "fe80", "ff00"  # link-local and multicast


def find_networks(routes: str, routes_6: str) -> list[str]:
    """Returns the networks in the two tables that are reached without a gateway, and loopback."""
    return list(dict.fromkeys([*LOOPBACK, *_read(routes), *_read_6(routes_6)]))


def read_networks() -> list[str]:
    """Returns the networks of this machine; only loopback where the kernel has no such tables."""
    tables = (path.read_text() if path.exists() else "" for path in (ROUTES, ROUTES_6))
    return find_networks(*tables)


def _read(table: str) -> Iterator[str]:
    for line in table.splitlines()[1:]:
        _interface, destination, gateway, flags, *_, mask, _mtu, _window, _irtt = line.split()
        if gateway == NO_GATEWAY and mask != NO_GATEWAY and int(flags, 16) & REACHABLE:
            yield f"{_address(destination)}/{ipaddress.ip_network(f'0.0.0.0/{_address(mask)}').prefixlen}"


def _address(word: str) -> ipaddress.IPv4Address:
    """The kernel prints addresses as numbers in its own byte order, which is little-endian."""
    return ipaddress.IPv4Address(bytes.fromhex(word)[::-1])


def _read_6(table: str) -> Iterator[str]:
    for line in table.splitlines():
        destination, prefix, _source, _source_prefix, gateway, *_, interface = line.split()
        is_network = 0 < int(prefix, 16) < 128 and interface != "lo"
        if gateway == NO_GATEWAY_6 and is_network and not destination.startswith(LOCAL_6):
            yield str(ipaddress.IPv6Network((bytes.fromhex(destination), int(prefix, 16))))
