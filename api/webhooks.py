"""Webhooks: subscriptions, their log of deliveries, and what operators do with them."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from django.http import HttpResponse
from django.urls import path
from msgspec import Meta

from statecore.delivery.webhooks import subscriptions
from statecore.kernel.ids import is_valid_id
from statecore.kernel.refusals import Invalid
from statecore.records import webhook as records
from statecore.records.token import Scope
from statecore.transitions import Outcome
from statecore.transitions.unit_of_work import UnitOfWork

from .access import actor_of, require_permission
from .query_params import RequestParams
from .request import Request
from .request_body import Body, RequestBody, respond_once
from .responses import json_response, outcome_response
from .views import ApiView

VIEW_WEBHOOK = "statecore.view_webhook"


class WebhookView(ApiView):
    writes_need = (Scope.OPERATE,)


class Webhooks(WebhookView):
    class Fields(Body):
        url: str
        filter: dict[str, Any] = {}
        description: str = ""

    def get(self, request: Request) -> HttpResponse:
        """List webhooks, newest first; with `run`, the webhook of that run's plan."""
        require_permission(request, VIEW_WEBHOOK)
        params = RequestParams(request, "run", "before", "page_size")
        rows = records.Webhook.objects.select_related("owner").filter(run_id=params.get_text("run"))
        if before := params.get_text("before"):
            rows = rows.filter(pk__lt=_read_id(before))
        size = params.get_page_size()
        found = [each.as_dict() for each in rows.order_by("-pk")[: size + 1]]
        return json_response(params.build_page_newest_first(found[:size], "id", more=len(found) > size))

    def post(self, request: Request) -> HttpResponse:
        """Subscribe to events; the secret is in the first response only."""
        body, actor = RequestBody(request, self.Fields), actor_of(request)
        secrets: list[str] = []

        def subscribe(work: UnitOfWork | None) -> dict[str, Any]:
            fields = body.fields
            webhook, secret = subscriptions.subscribe(
                fields.url, actor=actor, filters=fields.filter, description=fields.description
            )
            secrets.append(secret)
            return webhook.as_dict()

        return _respond_with_secret(respond_once(body.key, actor, subscribe), secrets, 201)


def _respond_with_secret(outcome: Outcome, secrets: list[str], status: int = 200) -> HttpResponse:
    """The secret is not a part of the response that is stored under an idempotency key: a repeat has null."""
    return outcome_response(outcome, {**outcome.as_dict(), "secret": secrets[-1] if secrets else None}, status)


def _read_id(text: str) -> str:
    if not is_valid_id(text):
        raise Invalid({"before": ["must be the id of a webhook."]})
    return text


class Webhook(WebhookView):
    class Fields(Body):
        url: str | msgspec.UnsetType = msgspec.UNSET
        filter: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
        description: str | msgspec.UnsetType = msgspec.UNSET

    def get(self, request: Request, webhook_id: str) -> HttpResponse:
        """Return one webhook, without its secret."""
        require_permission(request, VIEW_WEBHOOK)
        return json_response(subscriptions.get(webhook_id).as_dict())

    def patch(self, request: Request, webhook_id: str) -> HttpResponse:
        """Change the URL, the filter or the description; the first two only as the owner."""
        given = RequestBody(request, self.Fields).fields.list_given()
        return json_response(subscriptions.change(webhook_id, given, actor=actor_of(request)).as_dict())

    def delete(self, request: Request, webhook_id: str) -> HttpResponse:
        """Delete a webhook and its log."""
        subscriptions.delete(webhook_id, actor=actor_of(request))
        return HttpResponse(status=204)


class Action(WebhookView):
    """A change without a body."""

    class Fields(Body):
        pass


class Enable(Action):
    def post(self, request: Request, webhook_id: str) -> HttpResponse:
        """Continue with the events that wait."""
        body, actor = RequestBody(request, self.Fields), actor_of(request)
        return body.respond_once(actor, lambda work: subscriptions.enable(webhook_id, actor=actor).as_dict())


class Disable(WebhookView):
    class Fields(Body):
        reason: str = ""

    def post(self, request: Request, webhook_id: str) -> HttpResponse:
        """Send nothing until the webhook is enabled."""
        body, actor = RequestBody(request, self.Fields), actor_of(request)
        reason = body.fields.reason
        return body.respond_once(
            actor, lambda work: subscriptions.disable(webhook_id, actor=actor, reason=reason).as_dict()
        )


class RotateSecret(Action):
    def post(self, request: Request, webhook_id: str) -> HttpResponse:
        """Make a new secret; the previous one signs as well for a day."""
        body, actor = RequestBody(request, self.Fields), actor_of(request)
        secrets: list[str] = []

        def rotate(work: UnitOfWork | None) -> dict[str, Any]:
            webhook, secret = subscriptions.rotate_secret(webhook_id, actor=actor)
            secrets.append(secret)
            return webhook.as_dict()

        return _respond_with_secret(respond_once(body.key, actor, rotate), secrets)


class Test(Action):
    def post(self, request: Request, webhook_id: str) -> HttpResponse:
        """Send a test message; the log has the result under its id."""
        body, actor = RequestBody(request, self.Fields), actor_of(request)
        return body.respond_once(
            actor, lambda work: {"message_id": subscriptions.request_test(webhook_id, actor=actor)}, 202
        )


class Replay(WebhookView):
    class Fields(Body):
        after: Annotated[int, Meta(ge=0, le=2**53)]

    def post(self, request: Request, webhook_id: str) -> HttpResponse:
        """Send the events after a position again."""
        body, actor = RequestBody(request, self.Fields), actor_of(request)
        after = body.fields.after
        return body.respond_once(
            actor, lambda work: subscriptions.replay(webhook_id, after, actor=actor).as_dict(), 202
        )


class Deliveries(WebhookView):
    def get(self, request: Request, webhook_id: str) -> HttpResponse:
        """List attempts to deliver, newest first."""
        require_permission(request, VIEW_WEBHOOK)
        params = RequestParams(request, "message_id", "delivered", "before", "page_size")
        rows, size = subscriptions.get(webhook_id).deliveries.all(), params.get_page_size()
        if messages := params.get_texts("message_id"):
            rows = rows.filter(message_id__in=messages)
        if (is_delivered := params.get_flag("delivered")) is not None:
            rows = rows.filter(is_delivered=is_delivered)
        if (before := params.get_number("before")) is not None:
            rows = rows.filter(pk__lt=before)
        found = [each.as_dict() for each in rows.order_by("-pk")[: size + 1]]
        return json_response(params.build_page_newest_first(found[:size], "id", more=len(found) > size))


urlpatterns = [
    path("webhooks/", Webhooks.as_view(), name="webhooks"),
    path("webhooks/<str:webhook_id>/", Webhook.as_view(), name="webhook"),
    path("webhooks/<str:webhook_id>/deliveries/", Deliveries.as_view(), name="webhook-deliveries"),
    path("webhooks/<str:webhook_id>/disable/", Disable.as_view(), name="disable-webhook"),
    path("webhooks/<str:webhook_id>/enable/", Enable.as_view(), name="enable-webhook"),
    path("webhooks/<str:webhook_id>/replay/", Replay.as_view(), name="replay-webhook"),
    path("webhooks/<str:webhook_id>/rotate-secret/", RotateSecret.as_view(), name="rotate-webhook-secret"),
    path("webhooks/<str:webhook_id>/test/", Test.as_view(), name="test-webhook"),
]
