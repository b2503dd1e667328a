"""The addresses to which webhooks may be sent: rules for URLs, and for the network addresses of their hosts."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from ipaddress import IPv4Address, IPv6Address, ip_network
from typing import NamedTuple
from urllib.parse import urlsplit

from django.conf import settings

from ..kernel.validation import text_error

URL_LENGTH = 2_000
PORTS = {"https": 443, "http": 80}
FIRST_FREE_PORT = 1_024
PRINTABLE = re.compile(r"[!-~]+")
# A number in any of the notations that resolvers take for an address: 2130706433, 0x7f.1, 0177.0.0.1.
NUMERIC = re.compile(r"(?:0x[0-9a-f]*|[0-9]+)(?:\.(?:0x[0-9a-f]*|[0-9]+))*\.?")
HOST = re.compile(r"(?=.{1,253}$)(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9])?\.)*[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.?")
IPAddress = IPv4Address | IPv6Address
# What `is_global` lets pass, depending on the version of Python: metadata services and translated addresses.
NOT_PUBLIC = tuple(
    ip_network(each)
    for each in (
        "0.0.0.0/8", "100.64.0.0/10", "169.254.0.0/16", "168.63.129.16/32", "192.0.0.0/24", "192.88.99.0/24",
        "198.18.0.0/15", "240.0.0.0/4", "::/128", "::1/128", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32",
        "3fff::/20", "5f00::/16", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8",
    )
)  # fmt: skip
TRANSLATED = ip_network("64:ff9b::/96")  # NAT64: the last four bytes are an IPv4 address
COMPATIBLE = ip_network("::/96")


class Target(NamedTuple):
    scheme: str
    host: str
    port: int


def url_error(url: object) -> str | None:
    """Return the end of a sentence that begins with the field's name; None if webhooks may have this URL."""
    if error := text_error(url, URL_LENGTH):
        return error
    if not PRINTABLE.fullmatch(str(url)) or "\\" in str(url):
        return "must consist of visible ASCII characters without a backslash; write other letters in percent encoding."
    try:
        parts = urlsplit(str(url))
        port = parts.port
    except ValueError:
        return "must be a URL like https://example.com/hook."
    if parts.scheme not in PORTS or not parts.hostname:
        return "must be a URL like https://example.com/hook."
    if parts.scheme == "http" and not settings.STATECORE_WEBHOOK_HTTP:
        return "must begin with https://, because STATECORE_WEBHOOK_HTTP does not allow http://."
    if parts.username is not None or parts.password is not None:
        return "must be without user name and password: the signature identifies the sender."
    if "#" in str(url):
        return "must be without a fragment."
    if port is not None and port not in PORTS.values() and port < FIRST_FREE_PORT:
        return f"must have the port 443, 80, or one from {FIRST_FREE_PORT} on."
    return _host_error(parts.hostname)


def _host_error(host: str) -> str | None:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        is_name = HOST.fullmatch(host) and not NUMERIC.fullmatch(host)
        return None if is_name else f"has the host {host!r}, which is neither a name nor a plain address."
    return None if is_allowed(address) else f"has the address {address}, {why_refused()}."


def parse_target(url: str) -> Target:
    """Return where a URL that `url_error` accepts leads to."""
    parts = urlsplit(url)
    return Target(parts.scheme, str(parts.hostname), parts.port or PORTS[parts.scheme])


def is_allowed(address: IPAddress) -> bool:
    """Whether webhooks may connect to an address: it is public, or STATECORE_WEBHOOK_PRIVATE_ADDRESSES names it."""
    if any(_contains(network, address) for network in settings.STATECORE_WEBHOOK_PRIVATE_ADDRESSES):
        return True
    return all(_is_public(each) for each in (address, *_find_embedded(address)))


def why_refused() -> str:
    return "which is not public and not in STATECORE_WEBHOOK_PRIVATE_ADDRESSES"


def _contains(network: str, address: IPAddress) -> bool:
    """Whether a network that the setting allows contains an address, or the IPv4 address that it is written for."""
    allowed = ip_network(network)
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return address in allowed or (mapped is not None and mapped in allowed)


def _is_public(address: IPAddress) -> bool:
    refused = address.is_multicast or address.is_reserved or address.is_unspecified or address.is_link_local
    is_listed = any(address in network for network in NOT_PUBLIC)
    is_mapped = isinstance(address, IPv6Address) and address.ipv4_mapped is not None
    is_translated = address in TRANSLATED
    return is_mapped or is_translated or (address.is_global and not refused and not is_listed)


def _find_embedded(address: IPAddress) -> Iterable[IPv4Address]:
    """Yield the IPv4 addresses that a packet to an IPv6 address may reach."""
    if not isinstance(address, IPv6Address):
        return
    if address.ipv4_mapped is not None:
        yield address.ipv4_mapped
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo
    if address in TRANSLATED or address in COMPATIBLE:
        yield IPv4Address(address.packed[-4:])


def is_agent_host(host: str) -> bool:
    """Whether agents may have webhooks sent to a host: STATECORE_AGENT_WEBHOOK_HOSTS names it."""
    return any(fnmatchcase(host, pattern.lower()) for pattern in settings.STATECORE_AGENT_WEBHOOK_HOSTS)
