"""Confirms that the person at the browser is its user, before a change of accounts.

By password; without one, by a code of the second factor; without either, by a login a few minutes ago.
"""

from __future__ import annotations

from datetime import timedelta

from django.contrib.auth import authenticate
from django.http import HttpRequest

from statecore import sessions
from statecore.kernel.clock import now

from . import second_factor
from .permissions import get_user

RECENT = timedelta(minutes=10)
PASSWORD, CODE, LOGIN = "password", "code", "login"
FIELD = "confirmation"


def get_kind(request: HttpRequest) -> str:
    user = get_user(request)
    if user.has_usable_password() and sessions.may_use_password(user.get_username()):
        return PASSWORD
    return LOGIN if second_factor.get_device(user) is None else CODE


def check(request: HttpRequest) -> str:
    """Return an error, or nothing; a wrong password or code counts towards the lockout."""
    user, given, kind = get_user(request), request.POST.get(FIELD, ""), get_kind(request)
    if kind == PASSWORD:
        found = authenticate(request, username=user.get_username(), password=given)
        return "" if found is not None and found.pk == user.pk else "The password is wrong."
    if kind == CODE:
        return "" if second_factor.verify_code(request, user, given) else "The code is wrong or was used before."
    is_recent = user.last_login is not None and user.last_login > now() - RECENT
    return "" if is_recent else "Your login is too long ago. Log out, log in again, and repeat this."
