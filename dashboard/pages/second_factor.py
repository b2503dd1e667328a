"""The user's own two-factor authentication: set up, new recovery codes, turn off."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth import authenticate
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_http_methods

from statecore import sessions
from statecore.dashboard import rendering
from statecore.dashboard import second_factor as factor
from statecore.dashboard.permissions import get_user

TEMPLATE = "dashboard/second_factor.html"
WRONG_CLOCK = "The code is wrong. Check that the clock of the device with your authenticator app is right."
WRONG_CODE = "The code is wrong or was used before. Wait for the next one and try again."
IS_OFF = "Two-factor authentication is off. You log in with your password only."
Result = tuple[list[str], str]  # recovery codes to show, or an error


@never_cache
@sensitive_post_parameters("code", "password")
@sensitive_variables("codes")
@require_http_methods(["GET", "HEAD", "POST"])
def second_factor(request: HttpRequest) -> HttpResponse:
    if factor.is_off():
        raise Http404("Two-factor authentication is disabled by STATECORE_SECOND_FACTOR.")
    if request.method != "POST":
        return rendering.render(request, TEMPLATE, _context(request))
    codes, error = ACTIONS.get(request.POST.get("do", ""), _enrol)(request)
    if not codes and not error:
        messages.success(request, IS_OFF, extra_tags="good")
        return HttpResponseRedirect(reverse("console:second_factor"))
    context = {**_context(request), "codes": codes, "error": error}
    return rendering.render(request, TEMPLATE, context, status=422 if error else 200)


def _enrol(request: HttpRequest) -> Result:
    """Requires the password again: someone at an unlocked browser must not lock its owner out."""
    name = get_user(request).get_username()
    if authenticate(request, username=name, password=request.POST.get("password", "")) is None:
        return [], "The password is wrong."
    codes = factor.confirm_enrolment(get_user(request), request.POST.get("code", ""))
    if codes:
        request.session[sessions.SECOND_FACTOR_PASSED] = True
    return codes, "" if codes else WRONG_CLOCK


def _renew(request: HttpRequest) -> Result:
    if not factor.verify_code(request, get_user(request), request.POST.get("code", "")):
        return [], WRONG_CODE
    return factor.make_recovery_codes(get_user(request)), ""


def _remove(request: HttpRequest) -> Result:
    if sessions.second_factor_is_required():
        return [], "Two-factor authentication is required on this site and cannot be turned off."
    if not factor.verify_code(request, get_user(request), request.POST.get("code", "")):
        return [], WRONG_CODE
    factor.remove(get_user(request))
    return [], ""


ACTIONS = {"enrol": _enrol, "renew": _renew, "remove": _remove}


def _context(request: HttpRequest) -> dict[str, Any]:
    user = get_user(request)
    device = factor.get_device(user)
    new = None if device else factor.start_enrolment(user)
    return {
        "device": device,
        "left": factor.count_recovery_codes(user) if device else 0,
        "picture": factor.draw_qr_code(new) if new else "",
        "secret": factor.format_secret(new) if new else "",
        "is_required": sessions.second_factor_is_required(),
    }
