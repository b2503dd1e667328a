"""Webhooks: subscriptions, their log of deliveries, and what operators do with them."""

from __future__ import annotations

from typing import Annotated, Any

from django.http import HttpResponse
from msgspec import UNSET, Meta, UnsetType

from statecore.delivery.webhooks import subscriptions
from statecore.delivery.webhooks.subscriptions import FILTERS, MAX_VALUES, VALUE_LENGTH
from statecore.journal import event_names
from statecore.journal.events import ENTITY_KINDS
from statecore.kernel import registry
from statecore.kernel.ids import is_valid_id
from statecore.kernel.refusals import Invalid
from statecore.kernel.transition import Severity
from statecore.records import webhook as records
from statecore.records.token import Scope
from statecore.records.webhook import DESCRIPTION_LENGTH, REASON_LENGTH, Status
from statecore.records.webhook_address import URL_LENGTH
from statecore.transitions import Outcome
from statecore.transitions.unit_of_work import UnitOfWork

from .access import actor_of
from .openapi.fields import ID, NO_NUL, TIME, Schema, nullable, text
from .openapi.operation import SIZE, operation, query, repeatable
from .openapi.schemas import COUNT, FLAG, STRING, array, component, obj, page_of
from .request import Request
from .request_body import As, Body, RequestBody, respond_once
from .responses import json_response, outcome_response
from .views import ApiView

VIEW_WEBHOOK = "statecore.view_webhook"

URL: Schema = {
    "type": "string", "format": "uri", "pattern": "^https?://[!-~]+$", "maxLength": URL_LENGTH,
    "description": "A public address, with https, without user name and fragment; the settings may allow more.",
    "examples": ["https://ci.example.com/statecore"],
}  # fmt: skip
SECRET: Schema = {
    "type": ["string", "null"],
    "description": "Verifies the signatures. In the first response only: a repeat under the same key has null.",
}


def _values(*known: str) -> Schema:
    one: Schema = {"type": "string", "minLength": 1, "maxLength": VALUE_LENGTH, "pattern": NO_NUL}
    if known:
        one = {"type": "string", "enum": list(known)}
    return _one_or_more(one)


def _states(*known: str) -> Schema:
    """A pattern: of an enum with `closed` and `CLOSED`, generators make two members of one name, and stop."""
    return _one_or_more({"type": "string", "pattern": f"^({'|'.join(known)})$", "maxLength": VALUE_LENGTH})


def _one_or_more(one: Schema) -> Schema:
    return {"anyOf": [one, {"type": "array", "items": one, "minItems": 1, "maxItems": MAX_VALUES}]}


def _filter() -> Schema:
    """Each value restricts the events; several values of one name are alternatives."""
    flows = registry.flows()
    names = {
        "entity_type": _values(*(flow.entity_type for flow in flows)),
        "entity": _values(),
        "run": _values(),
        "to_state": _states(*dict.fromkeys(str(state) for flow in flows for state in flow.states)),
        "kind": _values(*ENTITY_KINDS),
        "severity": _values(*map(str, Severity)),
        "event_name": _values(*event_names.list_names()),
    }
    return {**obj(names, [], closed=True), "examples": [{"entity_type": "task", "to_state": ["failed", "completed"]}]}


TIMES = ("failing_since", "next_try_at", "last_success_at", "last_failure_at", "finished_at", "disabled_at",
         "previous_secret_until")  # fmt: skip
WEBHOOK = component("Webhook", obj({
    "id": STRING, "url": STRING, "filter": obj(dict.fromkeys(FILTERS, array(STRING)), []), "description": STRING,
    "status": {"type": "string", "enum": list(Status.values)}, "run": nullable(STRING),
    "owner": nullable(STRING), "created_by": STRING, "created_at": TIME, "position": COUNT, "epoch": COUNT,
    "failures": COUNT, "disabled_by": nullable(STRING), "disabled_reason": nullable(STRING),
    **dict.fromkeys(TIMES, nullable(TIME)),
}), "A subscription to events. `secret` is only in the response to its creation or rotation.")  # fmt: skip
DELIVERY = component("WebhookDelivery", obj({
    "id": COUNT, "message_id": STRING, "type": STRING, "position": nullable(COUNT), "event_id": nullable(STRING),
    "entity_type": nullable(STRING), "entity_id": nullable(STRING), "attempt": COUNT, "at": TIME,
    "duration_ms": COUNT, "status": nullable(COUNT), "delivered": FLAG, "error": nullable(STRING),
    "response": STRING,
}), "An attempt to deliver a message to a webhook.")  # fmt: skip
WITH_SECRET: Schema = {"allOf": [WEBHOOK, obj({"secret": SECRET})]}
Url = Annotated[str, As(URL)]
Filter = Annotated[dict[str, Any], As(_filter())]
Description = Annotated[str, As(text(DESCRIPTION_LENGTH))]


class WebhookView(ApiView):
    read_permission = VIEW_WEBHOOK
    writes_need = (Scope.OPERATE,)


class Webhooks(WebhookView):
    route = "webhooks/"

    class Fields(Body):
        url: Url
        filter: Filter = {}
        description: Description = ""

    @operation(
        "List webhooks, newest first",
        {200: page_of(WEBHOOK)},
        params=[
            query("run", ID, "Only the webhook of the plan of this run."),
            query("before", ID, "Return webhooks with a lower id."),
            SIZE,
        ],
        name="list_webhooks",
    )
    def get(self, request: Request) -> HttpResponse:
        params = self.params(request)
        rows = records.Webhook.objects.select_related("owner").filter(run_id=params.get_text("run"))
        if before := params.get_text("before"):
            rows = rows.filter(pk__lt=_read_id(before))
        size = params.get_page_size()
        found = [each.as_dict() for each in rows.order_by("-pk")[: size + 1]]
        return json_response(params.build_page_newest_first(found[:size], "id", more=len(found) > size))

    @operation(
        "Subscribe to events",
        {201: WITH_SECRET},
        body=Fields,
        refusals=(409,),
        description="From now on, each event that the filter selects is sent to the URL as a message with a signature "
        "of Standard Webhooks: at least once, in order for each entity, retried until the receiver answers 2xx.",
        name="create_webhook",
    )
    def post(self, request: Request) -> HttpResponse:
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
    route = "webhooks/<str:webhook_id>/"

    class Fields(Body):
        url: Url | UnsetType = UNSET
        filter: Filter | UnsetType = UNSET
        description: Description | UnsetType = UNSET

    @operation("Read one webhook", {200: WEBHOOK}, name="get_webhook")
    def get(self, request: Request, webhook_id: str) -> HttpResponse:
        return json_response(subscriptions.get(webhook_id).as_dict())

    @operation(
        "Change a webhook",
        {200: WEBHOOK},
        body=Fields,
        description="Only the owner changes `url` and `filter`: its permissions decide which events are sent.",
        name="edit_webhook",
    )
    def patch(self, request: Request, webhook_id: str) -> HttpResponse:
        given = RequestBody(request, self.Fields).fields.list_given()
        return json_response(subscriptions.change(webhook_id, given, actor=actor_of(request)).as_dict())

    @operation("Delete a webhook and its log", {204: None}, name="delete_webhook")
    def delete(self, request: Request, webhook_id: str) -> HttpResponse:
        subscriptions.delete(webhook_id, actor=actor_of(request))
        return HttpResponse(status=204)


class Enable(WebhookView):
    route = "webhooks/<str:webhook_id>/enable/"

    @operation("Enable a webhook", {200: WEBHOOK}, body=Body, refusals=(409,), name="enable_webhook")
    def post(self, request: Request, webhook_id: str) -> HttpResponse:
        body, actor = RequestBody(request, Body), actor_of(request)
        return body.respond_once(actor, lambda work: subscriptions.enable(webhook_id, actor=actor).as_dict())


class Disable(WebhookView):
    route = "webhooks/<str:webhook_id>/disable/"

    class Fields(Body):
        reason: Annotated[str, As(text(REASON_LENGTH))] = ""

    @operation("Disable a webhook", {200: WEBHOOK}, body=Fields, refusals=(409,), name="disable_webhook")
    def post(self, request: Request, webhook_id: str) -> HttpResponse:
        body, actor = RequestBody(request, self.Fields), actor_of(request)
        reason = body.fields.reason
        return body.respond_once(
            actor, lambda work: subscriptions.disable(webhook_id, actor=actor, reason=reason).as_dict()
        )


class RotateSecret(WebhookView):
    route = "webhooks/<str:webhook_id>/rotate-secret/"

    @operation(
        "Make a new secret",
        {200: WITH_SECRET},
        body=Body,
        refusals=(409,),
        description="For a day the previous secret signs as well, so messages have two signatures.",
        name="rotate_webhook_secret",
    )
    def post(self, request: Request, webhook_id: str) -> HttpResponse:
        body, actor = RequestBody(request, Body), actor_of(request)
        secrets: list[str] = []

        def rotate(work: UnitOfWork | None) -> dict[str, Any]:
            webhook, secret = subscriptions.rotate_secret(webhook_id, actor=actor)
            secrets.append(secret)
            return webhook.as_dict()

        return _respond_with_secret(respond_once(body.key, actor, rotate), secrets)


class Test(WebhookView):
    route = "webhooks/<str:webhook_id>/test/"

    @operation(
        "Send a test message",
        {202: component("SentTest", obj({"message_id": STRING}), "The id under which the log has the result.")},
        body=Body,
        refusals=(409,),
        name="test_webhook",
    )
    def post(self, request: Request, webhook_id: str) -> HttpResponse:
        body, actor = RequestBody(request, Body), actor_of(request)
        return body.respond_once(
            actor, lambda work: {"message_id": subscriptions.request_test(webhook_id, actor=actor)}, 202
        )


class Replay(WebhookView):
    route = "webhooks/<str:webhook_id>/replay/"

    class Fields(Body):
        after: Annotated[int, Meta(ge=0, le=2**53)]

    @operation(
        "Send events again",
        {202: WEBHOOK},
        body=Fields,
        refusals=(409, 410),
        description="Sends all events after the position that the filter selects, with the ids they had.",
        name="replay_webhook",
    )
    def post(self, request: Request, webhook_id: str) -> HttpResponse:
        body, actor = RequestBody(request, self.Fields), actor_of(request)
        after = body.fields.after
        return body.respond_once(
            actor, lambda work: subscriptions.replay(webhook_id, after, actor=actor).as_dict(), 202
        )


class Deliveries(WebhookView):
    route = "webhooks/<str:webhook_id>/deliveries/"

    @operation(
        "List attempts to deliver, newest first",
        {200: page_of(DELIVERY)},
        params=[
            repeatable("message_id"),
            query("delivered", FLAG),
            query("before", {"type": "integer", "minimum": 0, "maximum": 10**17}, "Return deliveries with a lower id."),
            SIZE,
        ],
        name="list_webhook_deliveries",
    )
    def get(self, request: Request, webhook_id: str) -> HttpResponse:
        params = self.params(request)
        rows, size = subscriptions.get(webhook_id).deliveries.all(), params.get_page_size()
        if messages := params.get_texts("message_id"):
            rows = rows.filter(message_id__in=messages)
        if (is_delivered := params.get_flag("delivered")) is not None:
            rows = rows.filter(is_delivered=is_delivered)
        if (before := params.get_number("before")) is not None:
            rows = rows.filter(pk__lt=before)
        found = [each.as_dict() for each in rows.order_by("-pk")[: size + 1]]
        return json_response(params.build_page_newest_first(found[:size], "id", more=len(found) > size))
