"""What to do first: the demonstration, the command of an agent, a token; and what is already there."""

from __future__ import annotations

import shlex

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from dashboard import shell
from dashboard.rights import person
from statecore.machines.worker import Worker
from statecore.records import Token
from statecore.records.position import head

MANAGE = ".venv/bin/python manage.py"


@require_safe
def start(request: HttpRequest) -> HttpResponse:
    address, user = request.build_absolute_uri("/").rstrip("/"), person(request)
    context = {
        "address": address,
        "simulate": f"{MANAGE} simulate --agents 20 --rate 20",
        "token": f"{MANAGE} token create my-agent --user {shlex.quote(user.get_username())} --scope agent",
        "agent": f"STATECORE_TOKEN=… scripts/statecore agent --url {address} -- ./work.sh",
        "events": head(),
        "has_worker": Worker.objects.exists(),
        "has_token": Token.objects.filter(user=user, revoked_at=None).exists(),
    }
    return shell.render(request, "dashboard/start.html", context)
