"""Webhooks: the list with their health, a form for a new one, and one webhook with its log and actions."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.contrib import messages
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from statecore.dashboard import permissions, rendering
from statecore.delivery.webhooks import subscriptions
from statecore.kernel import registry
from statecore.kernel.actors import Actor
from statecore.kernel.refusals import Invalid, NotFound, Refusal
from statecore.kernel.transition import Severity
from statecore.read_models.webhooks import read_oldest_waiting
from statecore.records import Webhook, WebhookDelivery

from .query_params import get_number, get_text

LIST, PAGE = "dashboard/webhooks.html", "dashboard/webhook.html"
PAGE_SIZE = 50
TONES = {"enabled": "done", "failing": "troubled", "disabled": "failed", "finished": "ended"}


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@sensitive_variables("secret")
def webhooks(request: HttpRequest) -> HttpResponse:
    permissions.require_permission(request, "statecore.view_webhook")
    if request.method != "POST":
        return rendering.render(request, LIST, _build_list(request))
    permissions.require_writable()
    permissions.require_permission(request, "statecore.add_webhook")
    given = request.POST
    try:
        made, secret = subscriptions.subscribe(
            given.get("url", "").strip(), actor=permissions.get_actor(request), filters=_read_filter(request),
            description=given.get("description", ""),
        )  # fmt: skip
    except Refusal as refusal:
        return rendering.render(request, LIST, {**_build_list(request), "refusal": refusal}, status=422)
    return rendering.render(request, LIST, {**_build_list(request), "made": made, "secret": secret})


def _read_filter(request: HttpRequest) -> dict[str, list[str]]:
    """Each field may have several values, separated by commas; an empty one does not filter."""
    fields = {name: request.POST.get(name, "") for name in subscriptions.FILTERS}
    found = {name: [word.strip() for word in text.split(",") if word.strip()] for name, text in fields.items()}
    return {name: values for name, values in found.items() if values}


def _build_list(request: HttpRequest) -> dict[str, Any]:
    before = get_text(request, "before")
    rows = Webhook.objects.select_related("owner").filter(run_id="").order_by("-pk")
    shown = list((rows.filter(pk__lt=before) if before else rows)[: PAGE_SIZE + 1])
    waiting = read_oldest_waiting([each for each in shown if each.disabled_at is None])
    return {
        "webhooks": [_describe(each, waiting.get(each.pk)) for each in shown[:PAGE_SIZE]],
        "more": shown[PAGE_SIZE - 1].pk if len(shown) > PAGE_SIZE else None,
        "is_first": not before,
        "given": request.POST,
        "machines": [flow.entity_type for flow in registry.flows()],
        "severities": [str(severity) for severity in Severity],
        "may_add": permissions.may_write(request, "statecore.add_webhook"),
    }


def _describe(webhook: Webhook, oldest_waiting: datetime | None) -> dict[str, Any]:
    status = str(webhook.status)
    return {
        "webhook": webhook,
        "status": status,
        "tone": TONES[status],
        "filter": _describe_filter(webhook.filter),
        "oldest_waiting": oldest_waiting,
    }


def _describe_filter(chosen: dict[str, list[str]]) -> str:
    """The order of the names is ours, because PostgreSQL keeps none."""
    names = [name for name in subscriptions.FILTERS if name in chosen]
    return ", ".join(f"{name}: {' or '.join(chosen[name])}" for name in names) or "all events"


@require_safe
def webhook(request: HttpRequest, webhook_id: str) -> HttpResponse:
    permissions.require_permission(request, "statecore.view_webhook")
    return rendering.render(request, PAGE, _build_page(request, webhook_id))


def _build_page(request: HttpRequest, webhook_id: str) -> dict[str, Any]:
    found, before = _get(webhook_id), get_number(request, "before")
    rows: QuerySet[WebhookDelivery] = found.deliveries.order_by("-pk")
    if get_text(request, "failed"):
        rows = rows.filter(is_delivered=False)
    shown = list((rows if before is None else rows.filter(pk__lt=before))[: PAGE_SIZE + 1])
    return {
        **_describe(found, None if found.run_id else read_oldest_waiting([found]).get(found.pk)),
        "waiting": found.backlog.count(),
        "deliveries": shown[:PAGE_SIZE],
        "more": shown[PAGE_SIZE - 1].pk if len(shown) > PAGE_SIZE else None,
        "is_first": before is None,
        "only_failed": bool(get_text(request, "failed")),
        "may_change": permissions.may_write(request, "statecore.change_webhook"),
        "may_delete": permissions.may_write(request, "statecore.delete_webhook"),
        "is_mine": found.owner_id == permissions.get_user(request).pk,
    }


def _get(webhook_id: str) -> Webhook:
    try:
        return subscriptions.get(webhook_id)
    except NotFound as refusal:
        raise Http404(f"There is no webhook with the id {webhook_id}.") from refusal


@never_cache
@require_POST
@sensitive_variables("secret")
def act(request: HttpRequest, webhook_id: str, action: str) -> HttpResponse:
    """What the buttons of the page do: test, replay, enable, disable, rotate, delete."""
    permissions.require_permission(request, f"statecore.{'delete' if action == 'delete' else 'change'}_webhook")
    permissions.require_writable()
    found, actor = _get(webhook_id), permissions.get_actor(request)
    try:
        if action == "rotate":
            _webhook, secret = subscriptions.rotate_secret(found.pk, actor=actor)
            return rendering.render(request, PAGE, {**_build_page(request, webhook_id), "secret": secret})
        sentence = _perform(request, found, action, actor)
    except Refusal as refusal:
        return rendering.render(request, PAGE, {**_build_page(request, webhook_id), "refusal": refusal}, status=422)
    messages.success(request, sentence, extra_tags="good")
    address = reverse("console:webhooks") if action == "delete" else reverse("console:webhook", args=[webhook_id])
    return HttpResponseRedirect(address)


def _perform(request: HttpRequest, webhook: Webhook, action: str, actor: Actor) -> str:
    """Return a sentence about what was done."""
    if action == "test":
        subscriptions.request_test(webhook.pk, actor=actor)
        return "Sending a test message. Refresh to see its result in the log."
    if action == "replay":
        after = request.POST.get("after", "").strip()
        if not (after.isascii() and after.isdigit() and len(after) < 18):
            raise Invalid({"after": ["must be a position, 0 or more."]})
        subscriptions.replay(webhook.pk, int(after), actor=actor)
        return f"Sending the events after position {after} again."
    if action == "enable":
        subscriptions.enable(webhook.pk, actor=actor)
        return "Enabled. Events that wait are sent now."
    if action == "disable":
        subscriptions.disable(webhook.pk, actor=actor, reason=request.POST.get("reason", ""))
        return "Disabled. Events wait until it is enabled."
    if action == "delete":
        subscriptions.delete(webhook.pk, actor=actor)
        return f"Deleted the webhook to {webhook.host}."
    raise Http404("There is no such action.")
