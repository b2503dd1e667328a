"""Coming in, by a password and a code for who has a second factor, and going out."""

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

from dashboard import second_factor, shell
from statecore import sessions

from .asked import onward


class Login(views.LoginView):
    template_name = "dashboard/login.html"
    redirect_authenticated_user = True

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        user = form.get_user()
        if not second_factor.is_due(user):
            return super().form_valid(form)
        second_factor.remember(self.request, user)
        step = "console:code" if second_factor.device_of(user) else "console:enrol"
        return HttpResponseRedirect(_with_next(reverse(step), self.get_redirect_url()))


class Logout(views.LogoutView):
    pass


@login_not_required
@never_cache
@sensitive_post_parameters("code")
@require_http_methods(["GET", "HEAD", "POST"])
def code(request: HttpRequest) -> HttpResponse:
    """The second step, for who has a second factor."""
    user = second_factor.pending(request)
    if user is None or second_factor.device_of(user) is None:
        return _from_the_start(request)
    if second_factor.is_locked(request, user):
        locked_out: HttpResponse = get_lockout_response(request, credentials={"username": user.get_username()})
        return locked_out
    is_wrong = False
    if request.method == "POST":
        if second_factor.passes(request, user, request.POST.get("code", "")):
            second_factor.let_in(request, user)
            return HttpResponseRedirect(onward(request))
        is_wrong = True
    return shell.render(request, "dashboard/code.html", {"is_wrong": is_wrong, "next": onward(request, "")})


@login_not_required
@never_cache
@sensitive_post_parameters("code")
@require_http_methods(["GET", "HEAD", "POST"])
def enrol(request: HttpRequest) -> HttpResponse:
    """The second step where a second factor is required and this person has none yet."""
    user = second_factor.pending(request)
    if user is None or not sessions.second_factor_is_required() or second_factor.device_of(user) is not None:
        return _from_the_start(request)
    is_wrong, codes = False, []
    if request.method == "POST":
        codes = second_factor.confirm(user, request.POST.get("code", ""))
        is_wrong = not codes
        if codes:
            second_factor.let_in(request, user)
    device = None if codes else second_factor.begin(user)
    context = {
        "is_wrong": is_wrong,
        "codes": codes,
        "picture": second_factor.picture_of(device) if device else "",
        "secret": second_factor.secret_of(device) if device else "",
        "next": onward(request, ""),
    }
    return shell.render(request, "dashboard/enrol.html", context)


@login_not_required
@require_safe
def admin_login(request: HttpRequest) -> HttpResponse:
    """The admin sends here who is no member of the staff, logged in or not."""
    if request.user.is_authenticated:
        raise PermissionDenied("the admin is for members of the staff")
    return _from_the_start(request)


def _from_the_start(request: HttpRequest) -> HttpResponse:
    return HttpResponseRedirect(_with_next(reverse("console:login"), onward(request, "")))


def _with_next(address: str, following: str) -> str:
    return f"{address}?{urlencode({'next': following})}" if following else address
