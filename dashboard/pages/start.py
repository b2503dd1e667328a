"""What to do first: the demonstration, the command of an agent, a token; and what is already there."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from dashboard import shell
from dashboard.rights import person
from statecore.machines.worker import Worker
from statecore.records import Token
from statecore.records.position import head


@require_safe
def start(request: HttpRequest) -> HttpResponse:
    context = {
        "address": request.build_absolute_uri("/").rstrip("/"),
        "events": head(),
        "has_worker": Worker.objects.exists(),
        "has_token": Token.objects.filter(user=person(request), revoked_at=None).exists(),
    }
    return shell.render(request, "dashboard/start.html", context)
