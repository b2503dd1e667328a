"""Refuses passwords where single sign-on is required, except those of the break-glass accounts."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest

from .. import sessions


class PasswordGate:
    """A backend that authenticates no account. Its refusal keeps the backends after it from checking the password.

    Without `get_user`: no session belongs to it.
    """

    def authenticate(
        self, request: HttpRequest | None, username: str | None = None, password: str | None = None, **_: Any
    ) -> None:
        if password is not None and not sessions.may_use_password(username or ""):
            raise PermissionDenied("Passwords are off: STATECORE_SIGN_IN_ONLY is set.")
