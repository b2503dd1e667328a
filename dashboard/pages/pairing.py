"""A new wall shows a code; once somebody has typed it into the console, the wall is in."""

from __future__ import annotations

from axes.helpers import get_client_ip_address
from django.contrib.auth import login
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from dashboard import screens
from dashboard.models import Screen

COOKIE = "statecore_screen"


@login_not_required
@never_cache
@require_safe
def pairing(request: HttpRequest) -> HttpResponse:
    screen = _screen(request)
    secret = ""
    if screen is None:
        screen, secret = screens.ask(get_client_ip_address(request))
    response = render(request, "dashboard/pairing.html", {"screen": screen})
    if secret:
        lives = int(screens.SESSION_LIVES.total_seconds())
        response.set_cookie(COOKIE, secret, max_age=lives, httponly=True, samesite="Strict", secure=request.is_secure())
    return response


@login_not_required
@never_cache
@require_POST
def paired(request: HttpRequest) -> JsonResponse:
    """Asked by the wall every few seconds: may I come in? It is let in as the user that was made for it."""
    screen = _screen(request)
    if screen is None:
        return JsonResponse({"state": "gone"}, status=410)
    if screen.user is None:
        screens.seen(screen)
        return JsonResponse({"state": "waiting"})
    login(request, screen.user, backend="django.contrib.auth.backends.ModelBackend")
    request.session.set_expiry(screens.SESSION_LIVES)
    return JsonResponse({"state": "paired", "address": screen.address or reverse("console:wall")})


def _screen(request: HttpRequest) -> Screen | None:
    secret = request.COOKIES.get(COOKIE, "")
    return screens.known_by(secret) if secret else None
