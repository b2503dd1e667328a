"""The start page: how to run the demo, create a token and start an agent. Tests run each command as it is printed."""

from __future__ import annotations

import shlex
from pathlib import Path

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

import statecore
from statecore.dashboard import rendering
from statecore.dashboard.permissions import get_user
from statecore.journal.position import head
from statecore.machines.worker import Worker
from statecore.records import Token

# A checkout has the command in its folder of scripts.
STATECORE = (
    "scripts/statecore" if Path(statecore.__file__).parents[1].joinpath("scripts/statecore").exists() else "statecore"
)
MANAGE = f"{STATECORE} manage"


@require_safe
def get_started(request: HttpRequest) -> HttpResponse:
    address, user = request.build_absolute_uri("/").rstrip("/"), get_user(request)
    create_token = f"{MANAGE} token create my-agent --user {shlex.quote(user.get_username())} --scope operate"
    context = {
        "address": address,
        "simulate": f"{MANAGE} simulate --agents 20 --rate 20",
        "token": f"export STATECORE_TOKEN=$({create_token})",
        "agent": f"{STATECORE} agent --url {address} -- cat",
        "events": head(),
        "has_worker": Worker.objects.exists(),
        "has_token": Token.objects.filter(user=user, revoked_at=None).exists(),
    }
    return rendering.render(request, "dashboard/get_started.html", context)
