"""The shapes of what screens are told, for the OpenAPI description."""

from __future__ import annotations

from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter

from ..pages import LARGEST, USUAL_SIZE

Schema = dict[str, Any]
TEXT: Schema = {"type": "string"}
WHOLE: Schema = {"type": "integer", "minimum": 0}
NUMBER: Schema = {"type": "number"}
MOMENT: Schema = {"type": "string", "format": "date-time"}
TREE: Schema = {"type": "object", "additionalProperties": True}


def shape(required: dict[str, Schema], **optional: Schema) -> Schema:
    """An object that has these, may have those, and may have more some day."""
    return {"type": "object", "required": list(required), "properties": {**required, **optional}}


def listed(item: Schema) -> Schema:
    return {"type": "array", "items": item}


def by_name(item: Schema) -> Schema:
    return {"type": "object", "additionalProperties": item}


def nullable(schema: Schema) -> Schema:
    return {**schema, "type": [schema["type"], "null"]}


def results(item: Schema) -> Schema:
    return shape({"results": listed(item)})


def page(item: Schema) -> Schema:
    return shape({"next": nullable(TEXT), "previous": nullable(TEXT), "results": listed(item)})


PROBLEM = shape({"type": TEXT, "title": TEXT, "status": WHOLE, "detail": TEXT, "code": TEXT})
INVALID: dict[Any, Schema] = {(400, "application/problem+json"): PROBLEM}
NOT_FOUND: dict[Any, Schema] = {(404, "application/problem+json"): PROBLEM}

STATE = shape({"name": TEXT, "terminal": {"type": "boolean"}, "deadline_seconds": nullable(NUMBER)})
MOVE = shape(
    {
        "trigger": TEXT,
        "sources": listed(TEXT),
        "target": TEXT,
        "kind": TEXT,
        "guards": listed(TEXT),
        "actors": listed(TEXT),
    }
)
MACHINE = shape({"entity_type": TEXT, "version": TEXT, "initial": TEXT, "states": listed(STATE), "moves": listed(MOVE)})
EVENT = shape(
    {
        "event_id": TEXT,
        "entity_type": TEXT,
        "entity_id": TEXT,
        "sequence": WHOLE,
        "kind": TEXT,
        "trigger": TEXT,
        "from_state": nullable(TEXT),
        "to_state": TEXT,
        "severity": TEXT,
        "actor": TEXT,
        "channel": TEXT,
        "timestamp": MOMENT,
        "caused_by": nullable(TEXT),
        "prev_hash": TEXT,
        "hash": TEXT,
        "version": WHOLE,
        "operator": nullable(TEXT),
        "reason": nullable(TEXT),
        "metadata": TREE,
        "context": by_name(TEXT),
    }
)
POSITIONED = shape({"position": WHOLE, "event": EVENT})
OVERRIDE: Schema = {
    "allOf": [EVENT, shape({"position": WHOLE, "held": {"type": "boolean"}, "left_by": nullable(TREE)})]
}
STUCK = shape(
    {
        "entity_type": TEXT,
        "id": TEXT,
        "state": TEXT,
        "kind": TEXT,
        "since": MOMENT,
        "deadline_seconds": nullable(NUMBER),
        "overdue_seconds": NUMBER,
        "why": TEXT,
        "recovery": TREE,
    }
)
ALERT = shape(
    {
        "id": WHOLE,
        "rule": TEXT,
        "key": TEXT,
        "severity": TEXT,
        "detail": TEXT,
        "facts": TREE,
        "opened_at": MOMENT,
        "resolved_at": nullable(MOMENT),
        "acknowledged_by": nullable(TEXT),
        "acknowledged_at": nullable(MOMENT),
        "note": nullable(TEXT),
    }
)
NOTE: Schema = {
    "type": "object",
    "properties": {"note": {"type": "string", "maxLength": 2000}, "request_id": TEXT},
    "additionalProperties": False,
}
RATES = {"transitions_per_minute": NUMBER, "failure_rate": NUMBER, "override_rate": NUMBER}
STATS = shape(
    {
        "position": WHOLE,
        "counts": by_name(by_name(WHOLE)),
        "rates": shape({"window_minutes": WHOLE, **RATES, "machines": by_name(shape(RATES))}),
        "minutes": by_name(shape({"transitions": WHOLE, "failures": WHOLE, "overrides": WHOLE})),
        "stuck": shape({"total": WHOLE, "machines": by_name(WHOLE)}),
        "alerts": shape({"open": WHOLE, "critical": WHOLE, "unacknowledged": WHOLE}),
    }
)
MEMBER = shape({"id": TEXT, "state": TEXT, "version": WHOLE, "since": MOMENT, "last_event": TREE}, workstream=TEXT)
RUN_AT = shape(
    {
        "time": MOMENT,
        "run": MEMBER,
        "counts": by_name(by_name(WHOLE)),
        "workstreams": listed(MEMBER),
        "tasks": listed(MEMBER),
        "gates": listed(MEMBER),
        "patches": listed(MEMBER),
        "truncated": {"type": "boolean"},
    }
)
FINDING = shape({"check": TEXT, "severity": TEXT, "entity_type": TEXT, "entity_id": TEXT, "detail": TEXT})
VERIFIED = shape(
    {
        "ok": {"type": "boolean"},
        "scope": TEXT,
        "position": WHOLE,
        "head": WHOLE,
        "next": nullable(TEXT),
        "findings": listed(FINDING),
    }
)


def words(name: str) -> OpenApiParameter:
    return OpenApiParameter(name, OpenApiTypes.STR, many=True, description="may be given several times")


def number(name: str, description: str) -> OpenApiParameter:
    return OpenApiParameter(name, {"type": "integer", "minimum": 0, "maximum": 10**18 - 1}, description=description)


def moment(name: str, description: str) -> OpenApiParameter:
    return OpenApiParameter(name, OpenApiTypes.DATETIME, description=description)


def flag(name: str, description: str) -> OpenApiParameter:
    return OpenApiParameter(name, OpenApiTypes.BOOL, description=description)


def word(name: str, description: str, enum: list[str] | None = None) -> OpenApiParameter:
    return OpenApiParameter(name, OpenApiTypes.STR, enum=enum, description=description)


def page_size() -> OpenApiParameter:
    size = {"type": "integer", "minimum": 1, "maximum": LARGEST, "default": USUAL_SIZE}
    return OpenApiParameter("page_size", size)
