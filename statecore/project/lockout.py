"""Lockout after failed logins, for django-axes: by username and address together, by address, and by username.

Guessing the password of one account from one address is stopped first. An address that tries many accounts, and an
account that is tried from many addresses, are stopped after WEIGHT times as many failures: several people may share an
address, and the owner of an account must not be locked out by a few failures of others.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv6Address, IPv6Network, ip_address
from typing import Any

from axes.handlers.database import AxesDatabaseHandler
from axes.models import AccessAttempt
from django.db.models import Sum
from django.http import HttpRequest

from statecore.accounts.caller import get_address

MAX_LENGTH = 150  # of Django's usernames: a longer one belongs to no account
WEIGHT = 4
IPV6_PREFIX = 64  # one customer has at least this network, and any address in it


def get_username(request: HttpRequest | None, credentials: Mapping[str, Any] | None = None) -> str | None:
    """Return the username of an attempt as it can be stored."""
    given = credentials or (request.POST if request is not None else {})
    name = given.get("username")
    return None if name is None else str(name).replace("\0", "")[:MAX_LENGTH]


def get_network(request: HttpRequest) -> str | None:
    """Return the address of the caller, of IPv6 the first one of its network; None for a local socket."""
    try:
        address = ip_address(get_address(request))
    except ValueError:
        return None
    if not isinstance(address, IPv6Address):
        return str(address)
    mapped = address.ipv4_mapped
    return str(mapped or IPv6Network((address, IPV6_PREFIX), strict=False).network_address)


class Handler(AxesDatabaseHandler):  # type: ignore[misc]  # axes has no types
    def get_failures(self, request: Any, credentials: dict[str, Any] | None = None) -> int:
        """Return the number of failures that AXES_FAILURE_LIMIT applies to."""
        both, *single = (_count(attempts) for attempts in self.get_user_attempts(request, credentials))
        return max(both, *(count // WEIGHT for count in single))

    def reset_user_attempts(self, request: Any, credentials: dict[str, Any] | None = None) -> int:
        """After a login, forget only the failures of this user at this address.

        Otherwise an attacker with an account could log in between the guesses and never be locked out.
        """
        own = AccessAttempt.objects.filter(username=get_username(request, credentials))
        count: int = own.filter(ip_address=request.axes_ip_address).delete()[0]
        return count


def _count(attempts: Any) -> int:
    return attempts.aggregate(sum=Sum("failures_since_start"))["sum"] or 0
