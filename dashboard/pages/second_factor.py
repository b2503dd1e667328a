"""The user's own two-factor authentication: set up an app or passkeys, new recovery codes, turn off."""

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
from statecore.dashboard import passkeys, rendering
from statecore.dashboard import second_factor as factor
from statecore.dashboard.permissions import get_user

TEMPLATE = "dashboard/second_factor.html"
WRONG_CLOCK = "The code is wrong. Check that the clock of the device with your authenticator app is right."
WRONG_CODE = "The code is wrong or was used before. Wait for the next one and try again."
WRONG_PASSWORD = "The password is wrong."  # noqa: S105
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
        return HttpResponseRedirect(reverse("console:second_factor"))
    context = {**_context(request), "codes": codes, "error": error}
    return rendering.render(request, TEMPLATE, context, status=422 if error else 200)


def _enrol(request: HttpRequest) -> Result:
    if not _knows_password(request):
        return [], WRONG_PASSWORD
    codes = factor.confirm_enrolment(get_user(request), request.POST.get("code", ""))
    if codes:
        request.session[sessions.SECOND_FACTOR_PASSED] = True
    return codes, "" if codes else WRONG_CLOCK


def _add_passkey(request: HttpRequest) -> Result:
    if not _knows_password(request):
        return [], WRONG_PASSWORD
    codes = factor.add_passkey(request, get_user(request))
    if codes is None:
        return [], "The passkey is not valid, or you have it already. Try again."
    request.session[sessions.SECOND_FACTOR_PASSED] = True
    messages.success(request, "The passkey was added.", extra_tags="good")
    return codes, ""


def _knows_password(request: HttpRequest) -> bool:
    """Requires the password again: someone at an unlocked browser must not lock its owner out."""
    name = get_user(request).get_username()
    return authenticate(request, username=name, password=request.POST.get("password", "")) is not None


def _renew(request: HttpRequest) -> Result:
    if not factor.verify(request, get_user(request)):
        return [], WRONG_CODE
    return factor.make_recovery_codes(get_user(request)), ""


def _remove_passkey(request: HttpRequest) -> Result:
    user, chosen = get_user(request), request.POST.get("remove_passkey", "")
    if factor.get_device(user) is None and [str(each.pk) for each in passkeys.list_passkeys(user)] == [chosen]:
        return _remove(request)
    if not factor.verify(request, user):
        return [], WRONG_CODE
    if not passkeys.remove(user, chosen):
        return [], "This passkey was removed already."
    messages.success(request, "The passkey was removed.", extra_tags="good")
    return [], ""


def _remove(request: HttpRequest) -> Result:
    if sessions.second_factor_is_required():
        return [], "Two-factor authentication is required on this site and cannot be turned off."
    if not factor.verify(request, get_user(request)):
        return [], WRONG_CODE
    factor.remove(get_user(request))
    messages.success(request, IS_OFF, extra_tags="good")
    return [], ""


ACTIONS = {
    "enrol": _enrol,
    "add_passkey": _add_passkey,
    "renew": _renew,
    "remove": _remove,
    "remove_passkey": _remove_passkey,
}


def _context(request: HttpRequest) -> dict[str, Any]:
    user = get_user(request)
    device = factor.get_device(user)
    new = None if device else factor.start_enrolment(user)
    known = passkeys.list_passkeys(user)
    is_set_up = device is not None or bool(known)
    return {
        "uses_provider": sessions.SIGN_IN in request.session,
        "device": device,
        "is_set_up": is_set_up,
        "passkeys": known,
        "creation": passkeys.start_creation(request, user, known),
        "proof": passkeys.start_proof(request, known),
        "left": factor.count_recovery_codes(user) if is_set_up else 0,
        "picture": factor.draw_qr_code(new) if new else "",
        "secret": factor.format_secret(new) if new else "",
        "is_required": sessions.second_factor_is_required(),
    }
