"""API tokens: the user's own, or everyone's with the permission; created, shown once, revoked."""

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

from statecore.dashboard import permissions, rendering
from statecore.kernel import refusals
from statecore.kernel.refusals import Refusal
from statecore.records import Token
from statecore.records import token as token_record
from statecore.records.service_account import MANAGE_ACCOUNTS

from .query_params import get_next_url

TEMPLATE = "dashboard/tokens.html"
LIFETIMES = ((7, "7 days"), (30, "30 days"), (90, "90 days"), (365, "1 year"))
MAX_LISTED = 200


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@sensitive_variables("text")
def tokens(request: HttpRequest) -> HttpResponse:
    if request.method != "POST":
        return rendering.render(request, TEMPLATE, _context(request))
    permissions.require_writable()
    given = request.POST
    try:
        made, text = token_record.make(
            given.get("name", ""), request.user, given.get("scope", ""), expires_in=_read_lifetime(request),
            by=permissions.get_actor(request),
        )  # fmt: skip
    except refusals.PermissionDenied as refusal:
        raise PermissionDenied(
            "A token cannot have more permissions than its user. Choose a smaller scope."
        ) from refusal
    except Refusal as refusal:
        return rendering.render(request, TEMPLATE, {**_context(request), "refusal": refusal}, status=422)
    return rendering.render(request, TEMPLATE, {**_context(request), "made": made, "text": text})


@require_POST
def revoke(request: HttpRequest, prefix: str) -> HttpResponse:
    permissions.require_writable()
    token = get_object_or_404(Token, prefix=prefix)
    may_revoke = request.user.has_perm("statecore.change_token") or request.user.has_perm(MANAGE_ACCOUNTS)
    if token.user_id != request.user.pk and not may_revoke:
        raise PermissionDenied("This token belongs to another user.")
    token_record.revoke(token, permissions.get_actor(request))
    messages.success(request, f"Revoked {token.name}. Calls with this token are refused.", extra_tags="good")
    return HttpResponseRedirect(get_next_url(request, reverse("console:tokens")))


def _read_lifetime(request: HttpRequest) -> timedelta:
    given = request.POST.get("days", "")
    days = int(given) if given in {str(number) for number, _ in LIFETIMES} else LIFETIMES[1][0]
    return timedelta(days=days)


def _context(request: HttpRequest) -> dict[str, Any]:
    # Tokens of service accounts are listed with them.
    rows = Token.objects.filter(user__service_account=None).select_related("user").order_by("-created_at")
    sees_all = request.user.has_perm("statecore.view_token")
    visible = rows if sees_all else rows.filter(user=permissions.get_user(request))
    return {
        "tokens": visible[:MAX_LISTED],
        "total": visible.count(),
        "scopes": [str(scope) for scope in token_record.scopes_of(request.user)],
        "lifetimes": LIFETIMES,
        "given": request.POST,
        "sees_all": sees_all,
    }
