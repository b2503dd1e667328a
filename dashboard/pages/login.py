"""Login with a password and, where required, a second factor; logout."""

from __future__ import annotations

from typing import Any

from axes.helpers import get_lockout_response
from django.contrib.auth import views
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.forms import AuthenticationForm
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_safe

from statecore import sessions
from statecore.accounts import identity_header
from statecore.dashboard import passkeys, rendering, second_factor

from . import single_sign_on
from .query_params import get_next_url


class Login(views.LoginView):
    template_name = "dashboard/login.html"
    redirect_authenticated_user = True

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Behind a proxy that has authenticated the browser there is nothing to type."""
        if identity_header.read_person(request) and not request.user.is_authenticated:
            return HttpResponseRedirect(_with_next(reverse("console:single_sign_on"), self.get_redirect_url()))
        return super().get(request, *args, **kwargs)

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return super().get_context_data(**kwargs, sign_in=single_sign_on.LoginOptions(self.request))

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        user = form.get_user()
        if not second_factor.is_due(user):
            return super().form_valid(form)
        second_factor.set_pending_user(self.request, user)
        step = "console:code" if second_factor.is_set_up(user) else "console:enrol"
        return HttpResponseRedirect(_with_next(reverse(step), self.get_redirect_url()))


class Logout(views.LogoutView):
    pass


@login_not_required
@never_cache
@sensitive_post_parameters("code")
@require_http_methods(["GET", "HEAD", "POST"])
def code(request: HttpRequest) -> HttpResponse:
    """The second step for users with two-factor authentication."""
    user = second_factor.get_pending_user(request)
    if user is None or not second_factor.is_set_up(user):
        return _redirect_to_login(request)
    if second_factor.is_locked(request, user):
        locked_out: HttpResponse = get_lockout_response(request, credentials={"username": user.get_username()})
        return locked_out
    is_wrong = False
    if request.method == "POST":
        if second_factor.verify(request, user):
            second_factor.log_in(request, user)
            return HttpResponseRedirect(get_next_url(request))
        is_wrong = True
    proof = passkeys.start_proof(request, passkeys.list_passkeys(user))
    context = {"is_wrong": is_wrong, "next": get_next_url(request, ""), "proof": proof}
    return rendering.render(request, "dashboard/code.html", context)


@login_not_required
@never_cache
@sensitive_post_parameters("code")
@require_http_methods(["GET", "HEAD", "POST"])
def enrol(request: HttpRequest) -> HttpResponse:
    """The second step where two-factor authentication is required and the user has not set it up yet."""
    user = second_factor.get_pending_user(request)
    if user is None or not sessions.second_factor_is_required() or second_factor.is_set_up(user):
        return _redirect_to_login(request)
    is_wrong, codes = False, []
    if request.method == "POST":
        codes = _enrol(request, user)
        is_wrong = not codes
        if codes:
            second_factor.log_in(request, user)
    device = None if codes else second_factor.start_enrolment(user)
    context = {
        "is_wrong": is_wrong,
        "codes": codes,
        "picture": second_factor.draw_qr_code(device) if device else "",
        "secret": second_factor.format_secret(device) if device else "",
        "creation": None if codes else passkeys.start_creation(request, user, passkeys.list_passkeys(user)),
        "next": get_next_url(request, ""),
    }
    return rendering.render(request, "dashboard/enrol.html", context)


def _enrol(request: HttpRequest, user: Any) -> list[str]:
    """The recovery codes; none if the code or the passkey is not valid."""
    if "passkey" in request.POST:
        return second_factor.add_passkey(request, user) or []
    return second_factor.confirm_enrolment(user, request.POST.get("code", ""))


@login_not_required
@require_safe
def admin_login(request: HttpRequest) -> HttpResponse:
    """The admin redirects everyone who is not staff here, logged in or not."""
    if request.user.is_authenticated:
        raise PermissionDenied("The admin is for staff accounts. Ask an administrator for staff status.")
    return _redirect_to_login(request)


def _redirect_to_login(request: HttpRequest) -> HttpResponse:
    return HttpResponseRedirect(_with_next(reverse("console:login"), get_next_url(request, "")))


def _with_next(url: str, next_url: str) -> str:
    return f"{url}?{urlencode({'next': next_url})}" if next_url else url
