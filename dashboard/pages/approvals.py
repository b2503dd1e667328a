"""The inbox of requests for approval: pending with a preview, the decision of a second person, and the history."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from statecore.dashboard import labels, permissions, rendering
from statecore.dashboard.queries.approvals import PAGE_SIZE, count_pending, list_decided, list_pending
from statecore.kernel import registry
from statecore.kernel.actors import Actor
from statecore.kernel.refusals import NotFound, Refusal
from statecore.kernel.second_person import parse_policy
from statecore.records.approval import Approval, Status
from statecore.transitions import approvals as service

from . import forms
from .query_params import get_text

PAGE, INBOX, PREVIEW = "dashboard/approval.html", "dashboard/approvals.html", "dashboard/parts/approval_preview.html"


@require_safe
def approvals(request: HttpRequest) -> HttpResponse:
    visible = [flow.entity_type for flow in permissions.require_visible_machines(request)]
    before = get_text(request, "before")
    decided = list_decided(visible, before)
    context = {
        "pending": [_describe(request, each) for each in list_pending(visible)] if not before else [],
        "pending_count": count_pending(visible) if not before else 0,
        "decided": decided[:PAGE_SIZE],
        "more": decided[PAGE_SIZE - 1].pk if len(decided) > PAGE_SIZE else None,
        "is_first": not before,
    }
    return rendering.render(request, INBOX, context)


@require_safe
def approval(request: HttpRequest, approval_id: str) -> HttpResponse:
    found = _get(request, approval_id)
    return rendering.render(request, PAGE, {"each": _describe(request, found)})


@require_safe
def preview(request: HttpRequest, approval_id: str) -> HttpResponse:
    """Fragment: what approving would change now, or why it would be refused."""
    found = _get(request, approval_id, "override")
    try:
        outcome = service.preview(found, permissions.get_actor(request))
    except Refusal as refusal:
        return rendering.render(request, PREVIEW, {"impossible": refusal})
    return rendering.render(request, PREVIEW, forms.describe_preview(request, outcome))


DECISIONS = {"approve": service.approve, "deny": service.deny}


@require_POST
def decide(request: HttpRequest, approval_id: str) -> HttpResponse:
    found, decision = _get(request, approval_id, "override"), request.POST.get("decision", "")
    if decision not in DECISIONS:
        raise Http404("A request for approval is approved or denied.")
    actor, comment = permissions.get_actor(request), request.POST.get("comment", "")
    key = forms.read_request_key(request)
    outcome = forms.call(lambda: DECISIONS[decision](found.pk, actor=actor, comment=comment, request=key))
    if isinstance(outcome, Refusal):
        context = {"each": _describe(request, _get(request, approval_id)), "comment": comment}
        return forms.render_refusal(request, PAGE, context, outcome)
    if decision == "approve":
        return forms.redirect_to_receipt(outcome)
    messages.success(request, f"Denied: {found}. Nothing was changed.", extra_tags="good")
    return HttpResponseRedirect(reverse("console:approvals"))


def _get(request: HttpRequest, approval_id: str, action: str = "view") -> Approval:
    try:
        found = service.get(approval_id)
    except NotFound as refusal:
        raise Http404(f"There is no request for approval with the id {approval_id}.") from refusal
    permissions.require_action(request, registry.flow(found.entity_type), action)
    return found


def _describe(request: HttpRequest, approval: Approval) -> dict[str, Any]:
    """The request with what this user may do about it."""
    actor, flow = permissions.get_actor(request), registry.flow(approval.entity_type)
    return {
        "approval": approval,
        "status": str(approval.status),
        "is_pending": approval.status is Status.PENDING,
        "is_mine": _is_mine(approval, actor),
        "may_decide": permissions.is_allowed(request.user, flow, "override") and not _is_mine(approval, actor),
        "decided_by_whom": waits_for(approval),
        "noun": labels.noun(approval.entity_type),
        "key": forms.make_key(),
    }


def _is_mine(approval: Approval, actor: Actor) -> bool:
    return approval.account == actor.account


def waits_for(approval: Approval) -> str:
    """`another person`, or the groups that the policies name: `another person of supervisor`."""
    policies = [parse_policy(text) for text in approval.policies]
    groups = sorted({policy.group for policy in policies if policy and policy.group})
    return f"another person of the group {' and '.join(groups)}" if groups else "another person"
