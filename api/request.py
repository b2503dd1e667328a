"""A call as the views see it: Django's own request, and who makes it."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest

from statecore.records.token import Token


class Request(HttpRequest):
    """Only for reading: `authentication.identify` adds the first two to the request that came in."""

    auth: Token | None
    user: Any
    is_counted: bool  # by `throttling.check`
