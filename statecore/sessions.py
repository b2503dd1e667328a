"""Whether the session of a browser has passed the required second factor; checked by pages, API calls and streams."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from django.conf import settings

SECOND_FACTOR_PASSED = "second_factor"  # key in the session


def second_factor_is_required() -> bool:
    return bool(settings.STATECORE_SECOND_FACTOR == "required")


def lacks_second_factor(user: Any, session: Container[str]) -> bool:
    """True for a login by password alone where a second factor is required. Displays have no password to log in by."""
    if not second_factor_is_required() or SECOND_FACTOR_PASSED in session:
        return False
    return bool(user.is_authenticated and user.has_usable_password())
