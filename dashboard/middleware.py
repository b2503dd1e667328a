"""Requires a login for every page, with a second factor where the settings demand one; limits displays to the wall."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import logout
from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponseForbidden
from django.http.response import HttpResponseBase

from statecore import sessions

from . import displays, rendering
from . import sessions as sessions_list

EXPIRED = "Your session has expired. Log in again.\n"


class LoginRequired(LoginRequiredMiddleware):
    def process_view(self, request: HttpRequest, *view: Any) -> Any:
        if sessions.lacks_second_factor(request.user, request.session):
            logout(request)
        match = request.resolver_match
        if (match is None or match.view_name not in displays.VIEWS) and displays.is_display(request.user):
            raise PermissionDenied(displays.WALL_ONLY)
        redirect = super().process_view(request, *view)
        if redirect is None and request.user.is_authenticated and not rendering.is_background(request):
            sessions_list.note_activity(request)
        if redirect is None or not rendering.is_fragment(request):
            return redirect
        # A login page inside a page is useless, and a redirect would lose typed text: the page shows the message.
        return rendering.set_fragment_headers(request, HttpResponseForbidden(EXPIRED, content_type="text/plain"))

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        sessions_list.save_kept(request)
        return response
