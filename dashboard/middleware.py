"""Requires a login for every page, with a session that today's settings accept; limits displays to the wall.

A login with a one-time password is limited to the page on which it is replaced.
"""

from __future__ import annotations

from typing import Any

from django.contrib.auth import logout
from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseForbidden, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils.http import urlencode

from statecore import sessions
from statecore.accounts import identity_header
from statecore.records import account_names

from . import displays, rendering
from . import sessions as sessions_list

EXPIRED = "Your session has expired. Log in again.\n"
REPLACE = "Replace your one-time password first, on the page Account."
REPLACING = {"console:account", "console:logout"}


class LoginRequired(LoginRequiredMiddleware):
    def process_view(self, request: HttpRequest, *view: Any) -> Any:
        _refuse_session(request)
        match = request.resolver_match
        if (match is None or match.view_name not in displays.VIEWS) and displays.is_display(request.user):
            raise PermissionDenied(displays.WALL_ONLY)
        if sessions.must_change_password(request.session) and (match is None or match.view_name not in REPLACING):
            if match is None or match.app_name not in rendering.PAGES or rendering.is_fragment(request):
                raise PermissionDenied(REPLACE)
            return HttpResponseRedirect(reverse("console:account"))
        redirect = super().process_view(request, *view)
        if _should_ask_provider(request, view[0]):
            return _redirect_to_provider(request)
        if redirect is None and request.user.is_authenticated and not rendering.is_background(request):
            sessions_list.note_activity(request)
        if redirect is None or not rendering.is_fragment(request):
            return redirect
        # A login page inside a page is useless, and a redirect would lose typed text: the page shows the message.
        return rendering.set_fragment_headers(request, HttpResponseForbidden(EXPIRED, content_type="text/plain"))

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        sessions_list.save_kept(request)
        return response


def _refuse_session(request: HttpRequest) -> None:
    """Ends a session that the settings do not accept. One of single sign-on is kept, for the provider to confirm it."""
    user, session = request.user, request.session
    if not user.is_authenticated:
        return
    if _is_of_service(user):
        logout(request)
        return
    if sessions.is_accepted(user, session) and not identity_header.contradicts(request):
        return
    if sessions.SIGN_IN in session:
        request.user = AnonymousUser()
    else:
        logout(request)


def _should_ask_provider(request: HttpRequest, view: Any) -> bool:
    """Whether a page is opened in a session of single sign-on that has to be confirmed, now or soon."""
    if sessions.SIGN_IN not in request.session or not getattr(view, "login_required", True):
        return False
    is_due = not request.user.is_authenticated or sessions.should_be_renewed(request.session)
    return is_due and request.method == "GET" and not rendering.is_background(request)


def _redirect_to_provider(request: HttpRequest) -> HttpResponse:
    query = urlencode({"next": request.get_full_path()})
    return HttpResponseRedirect(f"{reverse('console:single_sign_on')}?{query}")


def _is_of_service(user: Any) -> bool:
    """A service account has tokens only, whatever a way of logging in takes its name for."""
    return bool(user.username.startswith(account_names.SERVICE_PREFIX) and account_names.is_of_service(user))
