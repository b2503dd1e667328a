"""The username of a login attempt, as django-axes can store it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest

MAX_LENGTH = 150  # of Django's usernames: a longer one belongs to no account


def get_username(request: HttpRequest | None, credentials: Mapping[str, Any] | None = None) -> str | None:
    given = credentials or (request.POST if request is not None else {})
    name = given.get("username")
    return None if name is None else str(name).replace("\0", "")[:MAX_LENGTH]
