"""One's own second factor: get one, make new codes for the paper, take it away."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth import authenticate
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_http_methods

from dashboard import second_factor as factor
from dashboard import shell
from dashboard.rights import person
from statecore import sessions

TEMPLATE = "dashboard/second_factor.html"
Answer = tuple[list[str], str]


@never_cache
@sensitive_post_parameters("code", "password")
@sensitive_variables("codes")
@require_http_methods(["GET", "HEAD", "POST"])
def second_factor(request: HttpRequest) -> HttpResponse:
    if factor.is_off():
        raise Http404("the second factor is off: STATECORE_SECOND_FACTOR")
    if request.method != "POST":
        return shell.render(request, TEMPLATE, _context(request))
    codes, complaint = DEEDS.get(request.POST.get("do", ""), _enrol)(request)
    if not codes and not complaint:
        messages.success(request, "The second factor is gone: your password alone lets you in.", extra_tags="good")
        return HttpResponseRedirect(reverse("console:second_factor"))
    context = {**_context(request), "codes": codes, "complaint": complaint}
    return shell.render(request, TEMPLATE, context, status=422 if complaint else 200)


def _enrol(request: HttpRequest) -> Answer:
    """Takes the password again: who finds an open browser must not lock its owner out."""
    name = person(request).get_username()
    if authenticate(request, username=name, password=request.POST.get("password", "")) is None:
        return [], "That is not your password."
    codes = factor.confirm(person(request), request.POST.get("code", ""))
    if codes:
        request.session[sessions.SECOND_FACTOR_PASSED] = True
    return codes, "" if codes else "That is not the code of this secret. Is the telephone's clock right?"


def _renew(request: HttpRequest) -> Answer:
    if not factor.passes(request, person(request), request.POST.get("code", "")):
        return [], "That code is wrong, or was used before."
    return factor.new_recovery_codes(person(request)), ""


def _remove(request: HttpRequest) -> Answer:
    if sessions.second_factor_is_required():
        return [], "A second factor is required here."
    if not factor.passes(request, person(request), request.POST.get("code", "")):
        return [], "That code is wrong, or was used before."
    factor.remove(person(request))
    return [], ""


DEEDS = {"enrol": _enrol, "renew": _renew, "remove": _remove}


def _context(request: HttpRequest) -> dict[str, Any]:
    user = person(request)
    device = factor.device_of(user)
    new = None if device else factor.begin(user)
    return {
        "device": device,
        "left": factor.recovery_codes_left(user) if device else 0,
        "picture": factor.picture_of(new) if new else "",
        "secret": factor.secret_of(new) if new else "",
        "is_required": sessions.second_factor_is_required(),
    }
