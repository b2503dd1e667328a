"""Login with a password and, where required, a second factor; logout."""

from __future__ import annotations

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
from statecore.dashboard import rendering, second_factor

from .query_params import get_next_url


class Login(views.LoginView):
    template_name = "dashboard/login.html"
    redirect_authenticated_user = True

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        user = form.get_user()
        if not second_factor.is_due(user):
            return super().form_valid(form)
        second_factor.set_pending_user(self.request, user)
        step = "console:code" if second_factor.get_device(user) else "console:enrol"
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
    if user is None or second_factor.get_device(user) is None:
        return _redirect_to_login(request)
    if second_factor.is_locked(request, user):
        locked_out: HttpResponse = get_lockout_response(request, credentials={"username": user.get_username()})
        return locked_out
    is_wrong = False
    if request.method == "POST":
        if second_factor.verify_code(request, user, request.POST.get("code", "")):
            second_factor.log_in(request, user)
            return HttpResponseRedirect(get_next_url(request))
        is_wrong = True
    return rendering.render(request, "dashboard/code.html", {"is_wrong": is_wrong, "next": get_next_url(request, "")})


@login_not_required
@never_cache
@sensitive_post_parameters("code")
@require_http_methods(["GET", "HEAD", "POST"])
def enrol(request: HttpRequest) -> HttpResponse:
    """The second step where two-factor authentication is required and the user has not set it up yet."""
    user = second_factor.get_pending_user(request)
    if user is None or not sessions.second_factor_is_required() or second_factor.get_device(user) is not None:
        return _redirect_to_login(request)
    is_wrong, codes = False, []
    if request.method == "POST":
        codes = second_factor.confirm_enrolment(user, request.POST.get("code", ""))
        is_wrong = not codes
        if codes:
            second_factor.log_in(request, user)
    device = None if codes else second_factor.start_enrolment(user)
    context = {
        "is_wrong": is_wrong,
        "codes": codes,
        "picture": second_factor.draw_qr_code(device) if device else "",
        "secret": second_factor.format_secret(device) if device else "",
        "next": get_next_url(request, ""),
    }
    return rendering.render(request, "dashboard/enrol.html", context)


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
