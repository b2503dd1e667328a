"""Open and resolved alerts, and their acknowledgements."""

from __future__ import annotations

from django.contrib import messages
from django.db.models import Case, When
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from statecore.dashboard import permissions, rendering
from statecore.dashboard.queries import alert_links, list_digest
from statecore.records import Alert
from statecore.records import alert as alert_record

SEVEREST_FIRST = Case(*(When(severity=name, then=rank) for rank, name in enumerate(("critical", "error"))), default=2)
MAX_OPEN, MAX_RESOLVED = 200, 50


@require_safe
def alerts(request: HttpRequest) -> HttpResponse:
    permissions.require_permission(request, "statecore.view_alert")
    rows, open_alerts = Alert.objects.order_by("-opened_at"), Alert.objects.filter(resolved_at=None)
    open_now = [*open_alerts.order_by(SEVEREST_FIRST, "-opened_at")[:MAX_OPEN]]
    digest = list_digest.compute((each.pk, each.detail, each.acknowledged_by) for each in open_now)
    if list_digest.is_requested(request):
        return HttpResponse(digest)
    context = {
        "open_now": [(each, _find_url(request, each)) for each in open_now],
        "open_count": open_alerts.count(),
        "resolved": [(each, _find_url(request, each)) for each in rows.exclude(resolved_at=None)[:MAX_RESOLVED]],
        "max_resolved": MAX_RESOLVED,
        "may_acknowledge": permissions.may_write(request, "statecore.change_alert"),
        "digest": digest,
    }
    return rendering.render(request, "dashboard/alerts.html", context)


def _find_url(request: HttpRequest, alert: Alert) -> str:
    """The page with what the alert counts, if the user may open it."""
    link = alert_links.find_link(alert)
    return link.url if link and request.user.has_perm(link.permission) else ""


@require_POST
def acknowledge(request: HttpRequest, alert_id: int) -> HttpResponse:
    permissions.require_permission(request, "statecore.change_alert")
    permissions.require_writable()
    if alert_record.acknowledge(alert_id, request.user.get_username()):
        messages.success(request, "Alert acknowledged. It stays open until the condition clears.", extra_tags="good")
    else:
        messages.info(request, "This alert was already acknowledged.")
    return HttpResponseRedirect(reverse("console:alerts"))
