"""Who is not logged in sees nothing; neither does, where a second factor is required, who came in without one."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import logout
from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.http import HttpRequest

from . import second_factor


class LoginRequired(LoginRequiredMiddleware):
    def process_view(self, request: HttpRequest, *view: Any) -> Any:
        if second_factor.is_required() and _came_in_by_password_alone(request):
            logout(request)
        return super().process_view(request, *view)


def _came_in_by_password_alone(request: HttpRequest) -> bool:
    """A session from before it was required. Wall screens have no password: their code is all they have."""
    user = request.user
    return user.is_authenticated and user.has_usable_password() and second_factor.PASSED not in request.session
