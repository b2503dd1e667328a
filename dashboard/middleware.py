"""Who is not logged in sees nothing; neither does, where a second factor is required, who came in without one."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import logout
from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.http import HttpRequest, HttpResponseForbidden

from statecore import sessions

from . import shell

OVER = "Your session is over: log in again.\n"


class LoginRequired(LoginRequiredMiddleware):
    def process_view(self, request: HttpRequest, *view: Any) -> Any:
        if sessions.lacks_the_second_factor(request.user, request.session):
            logout(request)
        to_the_login = super().process_view(request, *view)
        if to_the_login is None or not shell.is_fragment(request):
            return to_the_login
        # A login page within a page helps nobody, and leaving would lose what was typed: the page says it in its place.
        return shell.told_apart(request, HttpResponseForbidden(OVER, content_type="text/plain"))
