"""Alerts: what is broken now, what was, and who has seen it."""

from __future__ import annotations

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from dashboard import rights, shell
from statecore.records import Alert
from statecore.records import alert as alert_record

SEVEREST_FIRST = {"critical": 0, "error": 1, "warning": 2}
OPEN_AT_MOST, OLD_AT_MOST = 200, 50


@require_safe
def alerts(request: HttpRequest) -> HttpResponse:
    rights.require_permission(request, "statecore.view_alert")
    rows = Alert.objects.order_by("-opened_at")
    open_now = sorted(
        rows.filter(resolved_at=None)[:OPEN_AT_MOST], key=lambda alert: SEVEREST_FIRST.get(alert.severity, 3)
    )
    context = {
        "open_now": open_now,
        "resolved": rows.exclude(resolved_at=None)[:OLD_AT_MOST],
        "may_acknowledge": _may_acknowledge(request),
    }
    return shell.render(request, "dashboard/alerts.html", context)


@require_POST
def acknowledge(request: HttpRequest, alert_id: int) -> HttpResponse:
    rights.require_permission(request, "statecore.change_alert")
    rights.require_writable()
    if alert_record.acknowledge(alert_id, request.user.get_username()):
        messages.success(request, "Noted that you have seen it; it stays open until it is over.", extra_tags="good")
    else:
        messages.info(request, "Somebody has seen it already.")
    return HttpResponseRedirect(reverse("console:alerts"))


def _may_acknowledge(request: HttpRequest) -> bool:
    return not settings.STATECORE_READ_ONLY and request.user.has_perm("statecore.change_alert")
