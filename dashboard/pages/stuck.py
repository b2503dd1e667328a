"""What is stuck: since when, against which deadline, why, who has seen it, and the way out."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_POST, require_safe

from dashboard import rights, shell
from statecore import stuck as stuckness
from statecore.kernel import registry
from statecore.kernel.refusals import Refusal
from statecore.records import acknowledgement

from .found import entity_at


@require_safe
def stuck(request: HttpRequest) -> HttpResponse:
    wanted = request.GET.get("machine", "")
    seen = {flow.entity_type: flow for flow in registry.flows() if rights.may(request.user, flow, "view")}
    after = _place(request)
    page = stuckness.page(after=after, entity_type=wanted if wanted in seen else None, sight=seen.keys())
    shown = [_row(request, item) for item in page.items]
    kinds = [(kind.value, sum(row["item"].kind is kind for row in shown)) for kind in stuckness.Kind]
    context = {
        "rows": shown,
        "kinds": kinds,
        "machines": [(flow, shell.name_of(flow)) for flow in seen.values()],
        "wanted": wanted,
        "query": urlencode({"machine": wanted} if wanted else {}),
        "more": urlencode({"after": str(page.onward)}) if page.onward else "",
        "is_first": after is None,
    }
    return shell.render(request, "dashboard/stuck.html", context)


def _place(request: HttpRequest) -> stuckness.Place | None:
    try:
        return stuckness.Place.read(request.GET.get("after", ""))
    except ValueError:
        return None


def _row(request: HttpRequest, item: stuckness.Item) -> dict[str, Any]:
    flow = item.entity.flow
    return {
        "item": item,
        "flow": flow,
        "may_acknowledge": rights.may(request.user, flow, "operate"),
        "may_approve": item.kind is stuckness.Kind.NEEDS_APPROVAL and rights.may(request.user, flow, "operate"),
        "may_force": rights.may(request.user, flow, "override"),
    }


@require_POST
def take_notice(request: HttpRequest, collection: str, entity_id: str) -> HttpResponse:
    entity = entity_at(request, collection, entity_id, "operate")
    if not acknowledgement.acknowledge(entity, request.user.get_username()):
        messages.info(request, "Somebody has seen it already.")
    return _back(request)


@require_POST
def approve(request: HttpRequest, collection: str, entity_id: str) -> HttpResponse:
    entity = entity_at(request, collection, entity_id, "operate")
    try:
        stuckness.approve_recovery(type(entity), entity.pk, actor=rights.actor_of(request))
    except Refusal as refusal:
        messages.error(request, refusal.detail, extra_tags="bad")
    else:
        messages.success(request, f"The recovery of {entity} was approved and carried out.", extra_tags="good")
    return _back(request)


def _back(request: HttpRequest) -> HttpResponse:
    """To the same machine and the same page of the list."""
    return HttpResponseRedirect(f"{reverse('console:stuck')}?{request.GET.urlencode()}".rstrip("?"))
