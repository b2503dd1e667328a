"""Who is not logged in sees nothing; neither does, where a second factor is required, who came in without one."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import logout
from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.http import HttpRequest

from statecore import sessions


class LoginRequired(LoginRequiredMiddleware):
    def process_view(self, request: HttpRequest, *view: Any) -> Any:
        if sessions.lacks_the_second_factor(request.user, request.session):
            logout(request)
        return super().process_view(request, *view)
