"""Names of users and tokens. They are recorded as actors, so no name may pass for another one.

Only ASCII: invisible characters and letters that look like others would let one actor appear as another. Users,
service accounts, tokens and the system share one set of names, compared without case.
"""

from __future__ import annotations

import re
from typing import Any

from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError

from ..kernel.actors import ANONYMOUS, NAME_LENGTH, THE_SYSTEM

PATTERN = re.compile(rf"(?! )[A-Za-z0-9 ._:@/+-]{{1,{NAME_LENGTH}}}(?<! )")
# Names of actors that are neither users nor tokens.
RESERVED = {THE_SYSTEM.name, ANONYMOUS, "statecore"}
RESERVED_PREFIX = "manage.py"
SERVICE_PREFIX = "service/"  # of service accounts and their tokens


def spelling_error(name: str, *, of_service: bool = False) -> str | None:
    """Returns why no user or token may have this name, as the end of a sentence, or None."""
    if PATTERN.fullmatch(name) is None:
        return f"must be 1 to {NAME_LENGTH} ASCII letters, digits, spaces or . _ : @ / + -"
    if name.lower() in RESERVED or name.lower().startswith(RESERVED_PREFIX):
        return "is reserved for the system"
    if name.lower().startswith(SERVICE_PREFIX) is not of_service:
        return f"must begin with {SERVICE_PREFIX}" if of_service else "is reserved for service accounts"
    return None


def is_of_service(user: Any) -> bool:
    """Whether this is the user of a service account, by its name, which is reserved for them."""
    return str(user.get_username()).startswith(SERVICE_PREFIX) and hasattr(user, "service_account")


def is_username(name: str) -> bool:
    return get_user_model()._default_manager.filter(username__iexact=name).exists()


def check_username(sender: Any, instance: Any, raw: bool, **_: Any) -> None:
    """Refuse a new username that is misspelled or taken; called before a user is saved. Old names stay valid."""
    users = sender._default_manager.exclude(pk=instance.pk)
    if raw or sender._default_manager.filter(pk=instance.pk, username=instance.username).exists():
        return
    # The row of a service account is made before it is saved, and names the user.
    of_service = "service_account" in instance._state.fields_cache
    if error := username_error(instance.username, users, of_service=of_service):
        raise ValidationError({"username": error})


def username_error(name: str, other_users: Any, *, of_service: bool = False) -> str | None:
    from .token import Token

    if error := spelling_error(name, of_service=of_service):
        return f"A username {error}."
    if other_users.filter(username__iexact=name).exists():
        return "A user with this name exists already; upper and lower case do not differ."
    if Token.objects.filter(name__iexact=name).exists():
        return "A token has this name."
    return None
