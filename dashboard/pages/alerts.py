"""Open and resolved alerts, their acknowledgements and silences."""

from __future__ import annotations

from datetime import timedelta

from django.contrib import messages
from django.db.models import Case, When
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from statecore.dashboard import permissions, rendering
from statecore.dashboard.queries import alert_links
from statecore.kernel.clock import now
from statecore.kernel.refusals import Refusal
from statecore.records import Alert
from statecore.records import alert as alert_record

from .query_params import get_text

SEVEREST_FIRST = Case(*(When(severity=name, then=rank) for rank, name in enumerate(("critical", "error"))), default=2)
MAX_OPEN, MAX_RESOLVED = 200, 50
SILENCES = {"60": "1 hour", "240": "4 hours", "1440": "1 day", "10080": "1 week"}
CHANGE = "statecore.change_alert"


@require_safe
def alerts(request: HttpRequest) -> HttpResponse:
    permissions.require_permission(request, "statecore.view_alert")
    rows, open_alerts = Alert.objects.order_by("-opened_at"), Alert.objects.filter(resolved_at=None)
    open_now, at = open_alerts.order_by(SEVEREST_FIRST, "-opened_at")[:MAX_OPEN], now()
    resolved = rows.exclude(resolved_at=None)[:MAX_RESOLVED]
    context = {
        "open_now": [(each, alert_links.find_url(request.user, each)) for each in open_now],
        "silenced": [each.pk for each in open_now if each.is_silenced(at)],
        "open_count": open_alerts.count(),
        "resolved": [(each, alert_links.find_url(request.user, each)) for each in resolved],
        "max_resolved": MAX_RESOLVED,
        "may_acknowledge": permissions.may_write(request, CHANGE),
        "silences": SILENCES.items(),
    }
    is_part = rendering.is_fragment(request) and get_text(request, "part") == "list"
    return rendering.render(request, "dashboard/parts/alerts.html" if is_part else "dashboard/alerts.html", context)


@require_POST
def acknowledge(request: HttpRequest, alert_id: int) -> HttpResponse:
    _require_change(request)
    if alert_record.acknowledge(alert_id, request.user.get_username()):
        messages.success(request, "Alert acknowledged. It stays open until the condition clears.", extra_tags="good")
    else:
        messages.info(request, "This alert was already acknowledged.")
    return HttpResponseRedirect(reverse("console:alerts"))


@require_POST
def silence(request: HttpRequest, alert_id: int) -> HttpResponse:
    """Keeps an alert from sending notifications for a while; without a duration that ends."""
    _require_change(request)
    minutes = request.POST.get("minutes", "")
    until = now() + timedelta(minutes=int(minutes)) if minutes in SILENCES else None
    try:
        is_open = alert_record.silence(alert_id, request.user.get_username(), until)
    except Refusal as refusal:
        messages.error(request, refusal.detail, extra_tags="bad")
        return HttpResponseRedirect(reverse("console:alerts"))
    if not is_open:
        messages.info(request, "This alert is resolved.")
    elif until:
        text = f"Alert silenced for {SILENCES[minutes]}. It stays open, and sends no notifications until then."
        messages.success(request, text, extra_tags="good")
    else:
        messages.success(request, "The alert sends notifications again.", extra_tags="good")
    return HttpResponseRedirect(reverse("console:alerts"))


def _require_change(request: HttpRequest) -> None:
    permissions.require_permission(request, CHANGE)
    permissions.require_writable()
