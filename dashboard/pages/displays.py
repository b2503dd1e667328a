"""Wall displays: the list for operators, and the page on which a new display shows its pairing code."""

from __future__ import annotations

from axes.helpers import get_client_ip_address
from django.contrib import messages
from django.contrib.auth import login
from django.contrib.auth.decorators import login_not_required
from django.db.models import F
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from statecore.dashboard import displays as pairing_service
from statecore.dashboard import permissions, rendering
from statecore.dashboard.models import Display

ADD, CHANGE = "dashboard.add_display", "dashboard.change_display"
MAX_LISTED = 200
MAX_ADDRESS_LENGTH = 500
COOKIE = "statecore_display"


@require_http_methods(["GET", "HEAD", "POST"])
def displays(request: HttpRequest) -> HttpResponse:
    permissions.require_permission(request, "dashboard.view_display")
    if request.method == "POST":
        return _pair(request)
    paired = Display.objects.exclude(paired_at=None)
    # PostgreSQL sorts null last, SQLite first: displays that are still paired come first.
    shown = paired.order_by(F("revoked_at").desc(nulls_first=True), "name")[:MAX_LISTED]
    is_writable = not rendering.FrameContext(request).read_only
    context = {
        "rows": [(display, pairing_service.is_offline(display)) for display in shown],
        "total": paired.count(),
        "may_add": request.user.has_perm(ADD) and is_writable,
        "may_revoke": request.user.has_perm(CHANGE) and is_writable,
        "pair_address": request.build_absolute_uri(reverse("console:pairing")),
    }
    return rendering.render(request, "dashboard/displays.html", context)


def _pair(request: HttpRequest) -> HttpResponse:
    permissions.require_permission(request, ADD)
    permissions.require_writable()
    name = request.POST.get("name", "").replace("\x00", "").strip()[:80]
    by = permissions.get_user(request).get_username()
    display = pairing_service.pair(request.POST.get("code", ""), name, _wall_address(request), by)
    if display is None:
        minutes = pairing_service.CODE_LIFETIME.seconds // 60
        text = f"No display shows this code. Codes expire after {minutes} minutes: use the one on the display now."
        messages.error(request, text, extra_tags="bad")
    else:
        messages.success(request, f"Paired {display}. It shows the wall within a few seconds.", extra_tags="good")
    return HttpResponseRedirect(reverse("console:displays"))


def _wall_address(request: HttpRequest) -> str:
    names = ("machines", "theme", "scale", "layout", "seconds")
    chosen = {name: request.POST.get(name, "").strip()[:200] for name in names}
    given = {name: value for name, value in chosen.items() if value}
    wall = reverse("console:wall")
    address = f"{wall}?{urlencode(given)}" if given else wall
    # No valid combination is longer.
    return address if len(address) <= MAX_ADDRESS_LENGTH else wall


@require_POST
def unpair(request: HttpRequest, display_id: int) -> HttpResponse:
    permissions.require_permission(request, CHANGE)
    permissions.require_writable()
    display = get_object_or_404(Display, pk=display_id)
    pairing_service.unpair(display)
    messages.success(request, f"Unpaired {display}. It no longer has access.", extra_tags="good")
    return HttpResponseRedirect(reverse("console:displays"))


@login_not_required
@never_cache
@require_safe
def pairing(request: HttpRequest) -> HttpResponse:
    """On the display: shows the code that an operator types into the console."""
    display, secret = _find_display(request), ""
    if display is None:
        display, secret = pairing_service.request_pairing(get_client_ip_address(request))
    response = render(request, "dashboard/pairing.html", {"display": display})
    if secret:
        age = int(pairing_service.SESSION_LIFETIME.total_seconds())
        response.set_cookie(COOKIE, secret, max_age=age, httponly=True, samesite="Strict", secure=request.is_secure())
    return response


@login_not_required
@never_cache
@require_POST
def paired(request: HttpRequest) -> JsonResponse:
    """Polled by a waiting display every few seconds; once it is paired, logs it in as its user."""
    display = _find_display(request)
    if display is None:
        return JsonResponse({"state": "gone"}, status=410)
    if display.user is None:
        pairing_service.record_contact(display)
        return JsonResponse({"state": "waiting"})
    login(request, display.user, backend="django.contrib.auth.backends.ModelBackend")
    request.session.set_expiry(pairing_service.SESSION_LIFETIME)
    return JsonResponse({"state": "paired", "address": display.address or reverse("console:wall")})


def _find_display(request: HttpRequest) -> Display | None:
    secret = request.COOKIES.get(COOKIE, "")
    return pairing_service.find_by_secret(secret) if secret else None
