"""Names of users and tokens. They are recorded as actors, so no name may pass for another one.

Only ASCII: invisible characters and letters that look like others would let one actor appear as another. Users,
tokens and the system share one set of names, compared without case.
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


def spelling_error(name: str) -> str | None:
    """Returns why no user or token may have this name, as the end of a sentence, or None."""
    if PATTERN.fullmatch(name) is None:
        return f"must be 1 to {NAME_LENGTH} ASCII letters, digits, spaces or . _ : @ / + -"
    if name.lower() in RESERVED or name.lower().startswith(RESERVED_PREFIX):
        return "is reserved for the system"
    return None


def is_username(name: str) -> bool:
    return get_user_model()._default_manager.filter(username__iexact=name).exists()


def check_username(sender: Any, instance: Any, raw: bool, **_: Any) -> None:
    """Refuse a new username that is misspelled or taken; called before a user is saved. Old names stay valid."""
    users = sender._default_manager.exclude(pk=instance.pk)
    if raw or sender._default_manager.filter(pk=instance.pk, username=instance.username).exists():
        return
    if error := username_error(instance.username, users):
        raise ValidationError({"username": error})


def username_error(name: str, other_users: Any) -> str | None:
    from .token import Token

    if error := spelling_error(name):
        return f"A username {error}."
    if other_users.filter(username__iexact=name).exists():
        return "A user with this name exists already; upper and lower case do not differ."
    if Token.objects.filter(name__iexact=name).exists():
        return "A token has this name."
    return None
