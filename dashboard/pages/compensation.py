"""The rollback of a committed patch: its plan is written, approved by a second person, and requested."""

from __future__ import annotations

import json
from typing import Any

from django.contrib import messages
from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from statecore.dashboard import permissions
from statecore.executors import compensation
from statecore.kernel.refusals import Invalid, Refusal
from statecore.machines.patch_ledger import PatchLedger

from .lookup import get_entity

NEEDS = {"write": "operate", "approve": "override", "request": "operate"}
DONE = {
    "write": "Plan stored. Another person has to approve it.",
    "approve": "Plan approved.",
    "request": "Rollback requested.",
}


@require_POST
def act(request: HttpRequest, patch_id: str) -> HttpResponse:
    action = request.POST.get("action", "")
    if action not in NEEDS:
        raise BadRequest(f"{action!r} is not an action of a rollback.")
    patch = get_entity(request, PatchLedger.flow.collection, patch_id, NEEDS[action])
    try:
        _perform(request, patch.pk, action)
    except Refusal as refusal:
        messages.error(request, refusal.detail, extra_tags="bad")
    else:
        messages.success(request, DONE[action], extra_tags="good")
    address = reverse("console:entity", args=[PatchLedger.flow.collection, patch.pk])
    return HttpResponseRedirect(f"{address}?tab=compensation")


def _perform(request: HttpRequest, patch_id: str, action: str) -> None:
    actor, given = permissions.get_actor(request), request.POST
    if action == "write":
        compensation.write_plan(patch_id, _read_plan(given.get("plan", "")), actor)
    elif action == "approve":
        compensation.approve(patch_id, actor, digest=given.get("digest", ""))
    else:
        compensation.request(patch_id, actor, given.get("reason", ""), revert_commit=given.get("revert_commit", ""))


def _read_plan(text: str) -> dict[str, Any]:
    try:
        plan = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Invalid({"plan": [f"is not JSON: {error}."]}) from None
    if not isinstance(plan, dict):
        raise Invalid({"plan": ["must be an object."]})
    return plan
