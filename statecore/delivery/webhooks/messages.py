"""The messages of webhooks and their signatures, as Standard Webhooks describes them (https://www.standardwebhooks.com).

A message is a JSON object with its `type`, a `timestamp`, the `position` and `epoch` of its event, and `data`. Its id
is the same in every attempt and every replay, so that a receiver can tell what it has already processed.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson
from django.db.models import Count

from ...journal import EVENT_ID_LENGTH, Event
from ...journal.position import Position
from ...kernel.clock import rfc3339
from ...kernel.entity import Entity
from ...machines.run import Run
from ...machines.task import Task
from ...machines.test_gate import TestGate
from ...machines.workstream import Workstream
from ...records.webhook import SECRET_PREFIX, Webhook

CONTENT_TYPE = "application/json"
TEST, RUN_ENDED = "webhook_test", "run_ended"


@dataclass(frozen=True, slots=True)
class Message:
    id: str
    type: str
    body: bytes
    # The number of this attempt, from 1.
    attempt: int
    # None for a test.
    position: int | None = None
    event_id: str = ""
    entity_type: str = ""
    entity_id: str = ""

    @property
    def entity(self) -> tuple[str, str]:
        return self.entity_type, self.entity_id


def build_event_message(webhook: Webhook, numbered: dict[str, Any], attempt: int) -> Message:
    """Return the message of an event with its position, as `history.read_page` returns it."""
    event, position = numbered["event"], numbered["position"]
    body = _encode(event["event_name"], event["timestamp"], position, webhook.epoch, event)
    return Message(
        _build_id(event["event_id"], webhook), event["event_name"], body, attempt, position, event["event_id"],
        event["entity_type"], event["entity_id"],
    )  # fmt: skip


def build_test_message(webhook: Webhook, at: datetime) -> Message:
    data = {"webhook": webhook.pk, "detail": "A test, sent at the request of an operator."}
    return Message(webhook.test, TEST, _encode(TEST, rfc3339(at), None, webhook.epoch, data), 1)


def build_run_message(webhook: Webhook, run: Run, attempt: int) -> Message | None:
    """Return the message about the end of a run, with its outcome and counts; None until its event has a position."""
    last = Event.objects.filter(entity_type=Run.flow.entity_type, entity_id=run.pk, sequence=run.version).first()
    numbered = Position.objects.filter(event_id=last.pk).first() if last else None
    if last is None or numbered is None:
        return None
    event = last.as_dict()
    data = {"run": run.as_dict(), "outcome": run.state, "counts": _count_parts(run), "event": event}
    body = _encode(RUN_ENDED, event["timestamp"], numbered.position, webhook.epoch, data)
    return Message(
        _build_id(last.pk, webhook), RUN_ENDED, body, attempt, numbered.position, last.pk, Run.flow.entity_type, run.pk
    )


def _count_parts(run: Run) -> dict[str, dict[str, int]]:
    """Return the numbers of workstreams, tasks and gates of a run by state."""
    parts: dict[type[Entity], str] = {Workstream: "run", Task: "workstream__run", TestGate: "workstream__run"}
    return {
        model.flow.collection: dict(
            model.objects.filter(**{path: run.pk}).order_by().values_list("state").annotate(count=Count("pk"))
        )
        for model, path in parts.items()
    }


def _build_id(event_id: str, webhook: Webhook) -> str:
    """An event is a message of its own for each webhook. The id has no full stop, which separates the signed parts."""
    return f"{event_id[:EVENT_ID_LENGTH]}-{webhook.pk}"


def _encode(name: str, timestamp: str, position: int | None, epoch: int, data: Any) -> bytes:
    return orjson.dumps({"type": name, "timestamp": timestamp, "position": position, "epoch": epoch, "data": data})


def sign(message: Message, at: datetime, secrets: Sequence[str]) -> dict[str, str]:
    """Return the headers of an attempt, with one signature for each secret."""
    timestamp = str(int(at.timestamp()))
    signed = f"{message.id}.{timestamp}.".encode() + message.body
    signatures = (base64.b64encode(hmac.digest(_decode(each), signed, "sha256")).decode() for each in secrets)
    return {
        "webhook-id": message.id,
        "webhook-timestamp": timestamp,
        "webhook-signature": " ".join(f"v1,{signature}" for signature in signatures),
    }


def _decode(secret: str) -> bytes:
    return base64.b64decode(secret.removeprefix(SECRET_PREFIX))
