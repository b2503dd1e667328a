"""Tokens: one's own, or everybody's for who may see them; made here, shown once, revoked for ever."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_http_methods, require_POST

from dashboard import rights, shell
from statecore.kernel import refusals
from statecore.kernel.refusals import Refusal
from statecore.records import Token
from statecore.records import token as token_record

TEMPLATE = "dashboard/tokens.html"
LIVES = ((7, "a week"), (30, "a month"), (90, "three months"), (365, "a year"))
MOST = 200


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@sensitive_variables("text")
def tokens(request: HttpRequest) -> HttpResponse:
    if request.method != "POST":
        return shell.render(request, TEMPLATE, _context(request))
    rights.require_writable()
    given = request.POST
    try:
        made, text = token_record.make(
            given.get("name", ""), request.user, given.get("scope", ""), expires_in=_life(request),
            by=rights.actor_of(request),
        )  # fmt: skip
    except refusals.PermissionDenied as refusal:
        raise PermissionDenied("a token is for no more than its user may do") from refusal
    except Refusal as refusal:
        return shell.render(request, TEMPLATE, {**_context(request), "refusal": refusal}, status=422)
    return shell.render(request, TEMPLATE, {**_context(request), "made": made, "text": text})


@require_POST
def revoke(request: HttpRequest, prefix: str) -> HttpResponse:
    rights.require_writable()
    token = get_object_or_404(Token, prefix=prefix)
    if token.user_id != request.user.pk and not request.user.has_perm("statecore.change_token"):
        raise PermissionDenied("this is somebody else's token")
    token_record.revoke(token, rights.actor_of(request))
    messages.success(request, f"{token.name} is revoked: nobody can use it any more.", extra_tags="good")
    return HttpResponseRedirect(reverse("console:tokens"))


def _life(request: HttpRequest) -> timedelta:
    given = request.POST.get("days", "")
    days = int(given) if given in {str(number) for number, _ in LIVES} else LIVES[1][0]
    return timedelta(days=days)


def _context(request: HttpRequest) -> dict[str, Any]:
    rows = Token.objects.select_related("user").order_by("-created_at")
    sees_all = request.user.has_perm("statecore.view_token")
    return {
        "tokens": (rows if sees_all else rows.filter(user=rights.person(request)))[:MOST],
        "scopes": [str(scope) for scope in token_record.scopes_of(request.user)],
        "lives": LIVES,
        "given": request.POST,
        "sees_all": sees_all,
    }
