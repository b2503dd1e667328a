"""A login with a password that an administrator has handed out: the session may only replace it."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import BACKEND_SESSION_KEY
from django.http import HttpRequest

from statecore import sessions
from statecore.records import one_time_password

from .second_factor import BACKEND


def note_login(sender: Any, request: HttpRequest, user: Any, **_: Any) -> None:
    """Other ways to log in need no password. The session of one that has expired ends with the next request."""
    one_time_password.expire()
    if request.session.get(BACKEND_SESSION_KEY) == BACKEND and one_time_password.find(user) is not None:
        request.session[sessions.ONE_TIME_PASSWORD] = True
