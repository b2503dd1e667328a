"""Descriptions of the calls for webhooks."""

from __future__ import annotations

from typing import Any

from statecore.api import webhooks
from statecore.delivery.webhooks.subscriptions import FILTERS, MAX_VALUES, VALUE_LENGTH
from statecore.journal import event_names
from statecore.journal.events import ENTITY_KINDS
from statecore.kernel import registry
from statecore.kernel.transition import Severity
from statecore.records.webhook import DESCRIPTION_LENGTH, REASON_LENGTH, Status
from statecore.records.webhook_address import URL_LENGTH

from .fields import ID, NO_NUL, TIME, Schema, nullable, text
from .operation import Operation
from .operations import SIZE, query
from .schemas import COUNT, FLAG, STRING, body_schema, obj, page_of, ref

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


def build_components() -> dict[str, Schema]:
    time = nullable(TIME)
    times = ("failing_since", "next_try_at", "last_success_at", "last_failure_at", "finished_at", "disabled_at",
             "previous_secret_until")  # fmt: skip
    texts: Schema = {"type": "array", "items": STRING}
    fields: dict[str, Schema] = {
        "id": STRING, "url": STRING, "filter": obj(dict.fromkeys(FILTERS, texts), []), "description": STRING,
        "status": {"type": "string", "enum": list(Status.values)}, "run": nullable(STRING),
        "owner": nullable(STRING), "created_by": STRING, "created_at": TIME, "position": COUNT, "epoch": COUNT,
        "failures": COUNT, "disabled_by": nullable(STRING), "disabled_reason": nullable(STRING),
        **dict.fromkeys(times, time),
    }  # fmt: skip
    delivery: dict[str, Schema] = {
        "id": COUNT, "message_id": STRING, "type": STRING, "position": nullable(COUNT), "event_id": nullable(STRING),
        "entity_type": nullable(STRING), "entity_id": nullable(STRING), "attempt": COUNT, "at": TIME,
        "duration_ms": COUNT, "status": nullable(COUNT), "delivered": FLAG, "error": nullable(STRING),
        "response": STRING,
    }  # fmt: skip
    return {"Webhook": obj(fields), "WebhookDelivery": obj(delivery)}


def _with_secret() -> Schema:
    return {"allOf": [ref("Webhook"), obj({"secret": SECRET})]}


def describe_webhooks(view: Any, method: str) -> Operation:
    if method == "GET":
        params = [query("run", ID, "Only the webhook of the plan of this run."),
                  query("before", ID, "Return webhooks with a lower id."), SIZE]  # fmt: skip
        return Operation("List webhooks, newest first", {200: page_of(ref("Webhook"))}, parameters=params)
    body = body_schema(webhooks.Webhooks.Fields, url=URL, filter=_filter(), description=text(DESCRIPTION_LENGTH))
    return Operation(
        "Subscribe to events",
        {201: _with_secret()},
        body=body,
        conflicts=True,
        description="From now on, each event that the filter selects is sent to the URL as a message with a signature "
        "of Standard Webhooks: at least once, in order for each entity, retried until the receiver answers 2xx.",
    )


def describe_webhook(view: Any, method: str) -> Operation:
    if method == "GET":
        return Operation("Read one webhook", {200: ref("Webhook")})
    if method == "DELETE":
        return Operation("Delete a webhook and its log", {204: None})
    body = body_schema(webhooks.Webhook.Fields, url=URL, filter=_filter(), description=text(DESCRIPTION_LENGTH))
    return Operation(
        "Change a webhook",
        {200: ref("Webhook")},
        body=body,
        body_is_optional=True,
        description="Only the owner changes `url` and `filter`: its permissions decide which events are sent.",
    )


def _empty(body: Any) -> dict[str, Any]:
    return {"body": body_schema(body), "body_is_optional": True, "conflicts": True}


def describe_enable(view: Any, method: str) -> Operation:
    return Operation("Enable a webhook", {200: ref("Webhook")}, **_empty(webhooks.Action.Fields))


def describe_disable(view: Any, method: str) -> Operation:
    body = body_schema(webhooks.Disable.Fields, reason=text(REASON_LENGTH))
    return Operation("Disable a webhook", {200: ref("Webhook")}, body=body, body_is_optional=True, conflicts=True)


def describe_rotation(view: Any, method: str) -> Operation:
    return Operation(
        "Make a new secret",
        {200: _with_secret()},
        description="For a day the previous secret signs as well, so messages have two signatures.",
        **_empty(webhooks.Action.Fields),
    )


def describe_test(view: Any, method: str) -> Operation:
    return Operation("Send a test message", {202: obj({"message_id": STRING})}, **_empty(webhooks.Action.Fields))


def describe_replay(view: Any, method: str) -> Operation:
    return Operation(
        "Send events again",
        {202: ref("Webhook")},
        body=body_schema(webhooks.Replay.Fields),
        conflicts=True,
        may_be_archived=True,
        description="Sends all events after the position that the filter selects, with the ids they had.",
    )


def describe_deliveries(view: Any, method: str) -> Operation:
    message = {"type": "array", "items": {"type": "string", "minLength": 1, "maxLength": 200}, "maxItems": 100}
    number = {"type": "integer", "minimum": 0, "maximum": 10**17}
    before = query("before", number, "Return deliveries with a lower id.")
    params = [query("message_id", message), query("delivered", FLAG), before, SIZE]
    return Operation(
        "List attempts to deliver, newest first", {200: page_of(ref("WebhookDelivery"))}, parameters=params
    )


DESCRIPTIONS: dict[type, Any] = {
    webhooks.Webhooks: describe_webhooks,
    webhooks.Webhook: describe_webhook,
    webhooks.Enable: describe_enable,
    webhooks.Disable: describe_disable,
    webhooks.RotateSecret: describe_rotation,
    webhooks.Test: describe_test,
    webhooks.Replay: describe_replay,
    webhooks.Deliveries: describe_deliveries,
}
