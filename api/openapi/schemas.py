"""The JSON schemas of what the API takes and tells."""

from __future__ import annotations

from typing import Any

import msgspec
from django.db import models

from api.bodies import Body
from statecore.door import editable
from statecore.door.change import REASON_LIMIT
from statecore.journal import KEY_LENGTH, EventKind
from statecore.kernel import registry
from statecore.kernel.flow import Flow
from statecore.kernel.moves import Severity
from statecore.kernel.refusals import Refusal

from .fields import ANY_OBJECT, ID, IDS, MOMENT, Schema, nullable, of_param, taken, text, told

REQUEST_ID: Schema = {**text(KEY_LENGTH), "minLength": 1}
REASON: Schema = text(REASON_LIMIT)
VERSION: Schema = {"type": ["integer", "null"]}
FLAG: Schema = {"type": "boolean"}
WORD: Schema = {"type": "string"}
COUNT: Schema = {"type": "integer", "minimum": 0}


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def obj(properties: dict[str, Schema], required: list[str] | None = None, *, closed: bool = False) -> Schema:
    made: Schema = {"type": "object", "properties": properties}
    if required is None or required:
        made["required"] = list(properties) if required is None else required
    return {**made, "additionalProperties": False} if closed else made


def listed(item: Schema, **more: Schema) -> Schema:
    results: Schema = {"type": "array", "items": item}
    return obj({"next": nullable(WORD), "previous": nullable(WORD), "results": results, **more})


def camel(flow: Flow) -> str:
    return flow.model.__name__


def entity(model: type[models.Model]) -> Schema:
    return obj({field.name: told(field) for field in model._meta.concrete_fields})


def links(flow: Flow) -> Schema:
    return obj({field.name: IDS for field in flow.model._meta.many_to_many})


def full(flow: Flow) -> Schema:
    """With what it is linked to, which a claim leaves out."""
    if not flow.model._meta.many_to_many:
        return ref(camel(flow))
    return {"allOf": [ref(camel(flow)), links(flow)]}


def newborn(flow: Flow) -> Schema:
    return {"allOf": [full(flow), obj({"event": ref("Event"), "caused": {"type": "array", "items": ref("Event")}})]}


def creation(flow: Flow) -> Schema:
    model = flow.model
    plain = [field for field in model._meta.concrete_fields if field.name in model.plain_fields()]
    properties = {"id": nullable(ID), **{field.name: taken(field) for field in plain}}
    properties |= {field.name: IDS for field in model._meta.many_to_many}
    required = [field.name for field in plain if not (field.null or field.blank or field.has_default())]
    return obj({**properties, "reason": REASON, "request_id": REQUEST_ID}, required, closed=True)


def edit(flow: Flow) -> Schema:
    fields = {name: taken(_field(flow.model, name)) for name in editable(flow.model)}
    return obj({**fields, "expected_version": VERSION}, [], closed=True)


def _field(model: type[models.Model], name: str) -> Any:
    return model._meta.get_field(name)


def firing(flow: Flow, *choices: dict[str, Schema]) -> Schema:
    """One shape for each trigger and the fields that are its own; of several `choices` for whom one must be made."""
    shapes: dict[str, Schema] = {}
    for move in flow.moves:
        own = {param.name: of_param(param) for param in move.params}
        needed = ["trigger", *(param.name for param in move.params if param.required)]
        fixed = {"reason": REASON, "metadata": ANY_OBJECT, "dry_run": FLAG, "request_id": REQUEST_ID}
        for choice in choices or ({},):
            more = choice or {"expected_version": VERSION}
            shape = obj({"trigger": {"const": move.trigger}, **own, **fixed, **more}, [*needed, *choice], closed=True)
            shapes.setdefault(repr(shape), shape)
    return {"anyOf": list(shapes.values())}


def shape(body: type[Body], **better: Schema) -> Schema:
    """Of a fixed body; `better` says more of a field than its Python type does."""
    found = msgspec.json.schema(body)
    made: Schema = next(iter(found["$defs"].values()))
    properties = {name: _without_title(schema) for name, schema in made["properties"].items()}
    properties |= {**better, "request_id": REQUEST_ID}
    return obj(properties, made.get("required", []), closed=True)


def _without_title(schema: Schema) -> Schema:
    return {name: value for name, value in schema.items() if name not in ("title", "default")}


EVENT: Schema = obj(
    {
        "event_id": WORD,
        "entity_type": WORD,
        "entity_id": WORD,
        "sequence": COUNT,
        "version": COUNT,
        "kind": {"type": "string", "enum": list(EventKind.values)},
        "trigger": WORD,
        "from_state": nullable(WORD),
        "to_state": WORD,
        "severity": {"type": "string", "enum": [str(severity) for severity in Severity]},
        "actor": WORD,
        "actor_kind": WORD,
        "operator": nullable(WORD),
        "channel": WORD,
        "timestamp": MOMENT,
        "reason": nullable(WORD),
        "metadata": ANY_OBJECT,
        "context": ANY_OBJECT,
        "caused_by": nullable(WORD),
        "dwell_seconds": {"type": "number"},
        "attempt": COUNT,
        "prev_hash": WORD,
        "hash": WORD,
    }
)
# Where the first events of a history are, when they are no longer in the database.
RETIRED: Schema = nullable(
    obj(
        {
            "upto_sequence": COUNT, "first_position": COUNT, "last_position": COUNT, "file": WORD, "sha256": WORD,
            "until": MOMENT, "retired_at": MOMENT, "operator": WORD, "reason": WORD,
        }
    )
)  # fmt: skip
UNMET: Schema = obj({"code": WORD, "detail": WORD, "entity": WORD, "entity_type": WORD}, ["code", "detail"])
EXPLANATION: Schema = obj(
    {
        "entity_type": WORD,
        "id": WORD,
        "state": WORD,
        "since": MOMENT,
        "deadline_seconds": {"type": ["number", "null"]},
        "overdue_seconds": {"type": ["number", "null"]},
        "sentence": WORD,
        "moves": {
            "type": "array",
            "items": obj(
                {
                    "trigger": WORD,
                    "to_state": WORD,
                    "allowed": FLAG,
                    "kind": WORD,
                    "unmet": {"type": "array", "items": UNMET},
                    "actors": {"type": "array", "items": WORD},
                    "needs": {"type": "array", "items": WORD},
                }
            ),
        },
        "waiting_on": {"type": "array", "items": obj({"entity_type": WORD, "entity_id": WORD, "detail": WORD})},
    }
)
BULK_RESULT: Schema = obj(
    {"id": WORD, "changed": FLAG, "event": {}, "refusal": {"type": ["object", "null"]}},
)
BULK_JOB: Schema = obj(
    {
        "id": WORD, "entity_type": WORD, "trigger": WORD, "reason": WORD, "actor": WORD, "total": COUNT, "done": COUNT,
        "refused": COUNT, "finished": FLAG, "created_at": MOMENT, "finished_at": nullable(MOMENT),
    }
)  # fmt: skip


def moved(flow: Flow) -> Schema:
    caused = {"type": "array", "items": ref("Event")}
    event: Schema = {"anyOf": [ref("Event"), {"type": "null"}]}
    return obj({"changed": FLAG, "event": event, "caused": caused, "entity": full(flow)})


def refusal_classes() -> list[type[Refusal]]:
    """Every kind of refusal there is, the API's own included."""
    found: list[type[Refusal]] = []
    waiting = [Refusal]
    while waiting:
        kind = waiting.pop()
        waiting += kind.__subclasses__()
        if hasattr(kind, "code"):
            found.append(kind)
    return sorted(found, key=lambda kind: (kind.status, kind.code))


def problems() -> dict[str, Schema]:
    """One schema for each status, with the codes it comes with."""
    codes: dict[int, list[str]] = {}
    for kind in refusal_classes():
        codes.setdefault(kind.status, []).append(kind.code)
    return {f"Problem{status}": _problem(status, sorted(set(found))) for status, found in codes.items()}


def _problem(status: int, codes: list[str]) -> Schema:
    return obj(
        {"type": WORD, "title": WORD, "status": {"const": status}, "detail": WORD, "code": {"enum": codes}},
    )


def components() -> dict[str, Schema]:
    made = {camel(flow): entity(flow.model) for flow in registry.flows()}
    return {**made, **problems(), "Event": EVENT, "Explanation": EXPLANATION, "BulkJob": BULK_JOB}
