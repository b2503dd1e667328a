"""The type of a request in the views: Django's request with the caller."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest

from statecore.records.token import Token


class Request(HttpRequest):
    """For annotations only: `access.identify` sets `auth` and `user` on the incoming request."""

    auth: Token | None
    user: Any
    is_counted: bool  # set by `throttling.check`
