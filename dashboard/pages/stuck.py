"""The stuck list: since when, against which deadline, why, acknowledged by whom, and suggested actions."""

from __future__ import annotations

import hashlib
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.core.cache import cache
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_POST, require_safe

from statecore.dashboard import labels, navigation, permissions, rendering
from statecore.dashboard.queries import list_digest
from statecore.kernel.clock import now
from statecore.kernel.refusals import Refusal
from statecore.read_models import stuck as stuck_list
from statecore.records import acknowledgement

from .lookup import get_entity

DIGEST_SECONDS = 5


@require_safe
def stuck(request: HttpRequest) -> HttpResponse:
    wanted = request.GET.get("machine", "")
    visible = {flow.entity_type: flow for flow in permissions.visible_machines(request.user)}
    after = _get_place(request)
    machine = wanted if wanted in visible else None
    if list_digest.is_requested(request):
        return HttpResponse(_get_digest(machine, after, frozenset(visible)))
    page = stuck_list.read_page(after=after, entity_type=machine, visible=visible.keys())
    totals = stuck_list.count_stuck(now(), entity_type=machine, visible=visible.keys())
    kinds = [(kind.value, sum(totals[name, kind] for name in visible)) for kind in stuck_list.Kind]
    context = {
        "rows": [_row(request, item) for item in page.items],
        "kinds": kinds,
        "machines": [(flow, navigation.machine_name(flow)) for flow in visible.values()],
        "wanted": wanted,
        "query": urlencode({"machine": wanted} if wanted else {}),
        "more": urlencode({"after": str(page.next_cursor)}) if page.next_cursor else "",
        "is_first": after is None,
        "digest": _compute_digest(page),
    }
    return rendering.render(request, "dashboard/stuck.html", context)


def _get_digest(machine: str | None, after: stuck_list.ListCursor | None, visible: frozenset[str]) -> str:
    """Cached, so that a hundred open pages cost as much as one."""

    def read() -> str:
        return _compute_digest(stuck_list.read_page(after=after, entity_type=machine, visible=visible))

    key = hashlib.sha256(f"{machine} {after} {sorted(visible)}".encode()).hexdigest()
    return str(cache.get_or_set(f"console:stuck:{key}", read, DIGEST_SECONDS))


def _compute_digest(page: stuck_list.Page) -> str:
    return list_digest.compute(
        (item.entity.flow.entity_type, item.entity.pk, item.entity.state, item.kind, item.acknowledged is not None)
        for item in page.items
    )


def _get_place(request: HttpRequest) -> stuck_list.ListCursor | None:
    try:
        return stuck_list.ListCursor.parse(request.GET.get("after", ""))
    except ValueError:
        return None


def _row(request: HttpRequest, item: stuck_list.Item) -> dict[str, Any]:
    flow = item.entity.flow
    may_operate = permissions.is_allowed(request.user, flow, "operate")
    return {
        "item": item,
        "flow": flow,
        "actions": _list_actions(request, item),
        "may_acknowledge": may_operate,
        "may_approve": may_operate and item.kind is stuck_list.Kind.NEEDS_APPROVAL,
        "may_force": permissions.is_allowed(request.user, flow, "override"),
    }


def _list_actions(request: HttpRequest, item: stuck_list.Item) -> list[tuple[str, str, str]]:
    """Label, title and URL of each action that applies and that the user may take."""
    if settings.STATECORE_READ_ONLY:
        return []
    return [_link_offer(offer) for offer in stuck_list.list_offers(item, permissions.get_actor(request))]


def _link_offer(offer: stuck_list.Offer) -> tuple[str, str, str]:
    flow, pk = offer.entity.flow, offer.entity.pk
    noun, args = labels.noun(flow.entity_type), [flow.collection, pk]
    match offer.action:
        case stuck_list.Action.RETRY:
            return f"Retry {noun}", f"Retry {noun} {pk}", reverse("console:retry", args=args)
        case stuck_list.Action.TRANSITION:
            label = labels.action_label(flow, offer.trigger, offer.entity.state)
            return label, f"{label} {pk}", reverse("console:transition", args=[*args, offer.trigger])
    url = f"{reverse('console:force', args=args)}?{urlencode({'to': offer.to_state})}"
    return f"Fail {noun}", f"Force {noun} {pk} to {labels.humanize_state(offer.to_state)}", url


@require_POST
def acknowledge(request: HttpRequest, collection: str, entity_id: str) -> HttpResponse:
    entity = get_entity(request, collection, entity_id, "operate")
    if not acknowledgement.acknowledge(entity, request.user.get_username()):
        messages.info(request, "This was already acknowledged.")
    return _redirect_to_list(request)


@require_POST
def approve(request: HttpRequest, collection: str, entity_id: str) -> HttpResponse:
    entity = get_entity(request, collection, entity_id, "operate")
    try:
        stuck_list.approve_recovery(type(entity), entity.pk, actor=permissions.get_actor(request))
    except Refusal as refusal:
        messages.error(request, refusal.detail, extra_tags="bad")
    else:
        messages.success(request, f"Recovery of {entity} approved and completed.", extra_tags="good")
    return _redirect_to_list(request)


def _redirect_to_list(request: HttpRequest) -> HttpResponse:
    """Keeps the machine and the page of the list."""
    return HttpResponseRedirect(f"{reverse('console:stuck')}?{request.GET.urlencode()}".rstrip("?"))
