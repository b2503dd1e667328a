"""Whether a browser's session lets anybody in: asked by every page and call, and by what stays open."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from django.conf import settings

SECOND_FACTOR_PASSED = "second_factor"  # in the session


def second_factor_is_required() -> bool:
    return bool(settings.STATECORE_SECOND_FACTOR == "required")


def lacks_the_second_factor(user: Any, session: Container[str]) -> bool:
    """Came in by a password alone where that is not enough (any more). Wall screens have no password to come in by."""
    if not second_factor_is_required() or SECOND_FACTOR_PASSED in session:
        return False
    return bool(user.is_authenticated and user.has_usable_password())
