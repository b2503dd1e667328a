"""JSON schemas of the request bodies and responses of the API. Functions are named after the schema they return."""

from __future__ import annotations

from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec
from django.db import models

from statecore.bulk import Name, list_names, resolve
from statecore.bulk import Request as BulkRequest
from statecore.journal import KEY_LENGTH, EventKind
from statecore.kernel import registry
from statecore.kernel.entity import UNSHOWN
from statecore.kernel.flow import Flow
from statecore.kernel.refusals import Refusal
from statecore.kernel.transition import Severity, Transition
from statecore.machines.run import OnFailure
from statecore.records import hold
from statecore.records.approval import Status
from statecore.records.webhook_address import URL_LENGTH
from statecore.scheduling.plan_document import IMPLIED
from statecore.transitions import Category, editable_fields
from statecore.transitions.change import REASON_LIMIT
from statecore.transitions.outcome import MAX_CAUSED

from ..filters import AS_TEXT, Filter, derive_filters
from ..request_body import As, Body
from .fields import (
    ANY_OBJECT,
    ANY_VALUE,
    ID,
    IDS,
    TIME,
    Schema,
    nullable,
    param_schema,
    request_field,
    response_field,
    text,
)

REQUEST_ID: Schema = {**text(KEY_LENGTH), "minLength": 1}
REASON: Schema = text(REASON_LIMIT)
VERSION: Schema = {"type": ["integer", "null"]}
FLAG: Schema = {"type": "boolean"}
STRING: Schema = {"type": "string"}
NUMBER: Schema = {"type": "number"}
COUNT: Schema = {"type": "integer", "minimum": 0}
# The results of the dependencies of a task by their ids.
INPUTS: Schema = {"type": "object", "additionalProperties": ANY_VALUE}


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


# The schemas that have names in the document, beside those of the machines.
_NAMED: dict[str, Schema] = {}


def component(name: str, schema: Schema, description: str = "") -> Schema:
    """Name a schema in the document, and the record that clients read from it; returns the reference to it."""
    _NAMED[name] = {**schema, "description": description} if description else schema
    return ref(name)


def array(item: Schema) -> Schema:
    return {"type": "array", "items": item}


def by_name(schema: Schema) -> Schema:
    return {"type": "object", "additionalProperties": schema}


def list_entity_types() -> list[str]:
    return [flow.entity_type for flow in registry.flows()]


def obj(properties: dict[str, Schema], required: list[str] | None = None, *, closed: bool = False) -> Schema:
    made: Schema = {"type": "object", "properties": properties}
    if required is None or required:
        made["required"] = list(properties) if required is None else required
    return {**made, "additionalProperties": False} if closed else made


def page_of(item: Schema, **more: Schema) -> Schema:
    results: Schema = {"type": "array", "items": item}
    return obj({"next": nullable(STRING), "previous": nullable(STRING), "results": results, **more})


def deprecated(schema: Schema, successor: str) -> Schema:
    return {**schema, "deprecated": True, "description": f"The same as `{successor}`."}


def component_name(flow: Flow) -> str:
    return flow.model.__name__


def record_schema(model: type[models.Model]) -> Schema:
    left_out = UNSHOWN | getattr(model, "detail_only", frozenset())
    columns = [field for field in model._meta.concrete_fields if field.name not in left_out]
    return obj({field.name: response_field(field) for field in columns})


def entity_schema(flow: Flow) -> Schema:
    schema = record_schema(flow.model)
    unverified = {
        "type": "boolean",
        "description": "Present and true if an open alert says that the stored data does not verify.",
    }
    return {**schema, "properties": {**schema["properties"], "unverified": unverified}}


def page_ref(flow: Flow) -> Schema:
    return ref(f"{component_name(flow)}Page")


def created_ref(flow: Flow) -> Schema:
    return ref(f"Created{component_name(flow)}")


def creation_ref(flow: Flow) -> Schema:
    return ref(f"New{component_name(flow)}")


def edit_ref(flow: Flow) -> Schema:
    return ref(f"{component_name(flow)}Changes")


def trigger_ref(flow: Flow) -> Schema:
    return ref(f"{component_name(flow)}Transition")


def result_ref(flow: Flow) -> Schema:
    return ref(f"{component_name(flow)}TransitionResult")


def links(flow: Flow) -> Schema:
    return obj({field.name: IDS for field in flow.model._meta.many_to_many})


def entity_with_links(flow: Flow) -> Schema:
    """Return the schema of an entity with its links, which the response of a claim omits."""
    if not flow.model._meta.many_to_many:
        return ref(component_name(flow))
    return {"allOf": [ref(component_name(flow)), links(flow)]}


def entity_detail(flow: Flow) -> Schema:
    """Return the schema of an entity with its links, and the columns that lists omit because of their size."""
    if not flow.model.detail_only:
        return entity_with_links(flow)
    details = {name: response_field(_field(flow.model, name)) for name in sorted(flow.model.detail_only)}
    return {"allOf": [*entity_with_links(flow)["allOf"], obj(details)]}


def created_schema(flow: Flow) -> Schema:
    return {
        "allOf": [
            entity_with_links(flow),
            obj({"event": EVENT, **CAUSED}),
        ]
    }


def creation_schema(flow: Flow) -> Schema:
    model = flow.model
    plain = [field for field in model._meta.concrete_fields if field.name in model.editable_fields()]
    properties = {"id": nullable(ID), **{field.name: request_field(field) for field in plain}}
    properties |= {field.name: IDS for field in model._meta.many_to_many}
    required = [field.name for field in plain if not (field.null or field.blank or field.has_default())]
    return obj({**properties, "reason": REASON, "request_id": REQUEST_ID}, required, closed=True)


def patch_schema(flow: Flow) -> Schema:
    """Return the body that submits a patch, of a task or as the successor of another."""
    schema = creation_schema(flow)
    task = {"task": nullable(ID), "attempt": VERSION, "based_on": nullable(ID)}
    example = {"patch": "patch-1", "task": "task-1", "attempt": 1}
    return {
        **schema,
        "properties": {**schema["properties"], **task},
        "required": ["patch"],
        "examples": [example],
    }


def edit_schema(flow: Flow) -> Schema:
    fields = {name: request_field(_field(flow.model, name)) for name in editable_fields(flow.model)}
    return obj({**fields, "expected_version": VERSION}, [], closed=True)


def _field(model: type[models.Model], name: str) -> Any:
    return model._meta.get_field(name)


def trigger_schemas(flow: Flow) -> dict[str, Schema]:
    """Return the body that fires each trigger, by the name of its component, such as `TaskExecutionCompleted`."""
    named: dict[str, Schema] = {}
    for transition in flow.transitions:
        words = transition.trigger.replace("-", "_").split("_")
        name = component_name(flow) + "".join(word[:1].upper() + word[1:] for word in words)
        shape = _trigger_schema(transition, {"expected_version": VERSION})
        if named.setdefault(name, shape) != shape:
            named[f"{name}From{'Or'.join(sorted(transition.sources))}"] = shape
    return named


def bulk_schema(flow: Flow, *choices: dict[str, Schema]) -> Schema:
    """Return one alternative for each trigger and each of `choices`, which are sets of further required fields."""
    shapes = [_trigger_schema(each, choice, required=True) for each in flow.transitions for choice in choices]
    return {"anyOf": list({repr(shape): shape for shape in shapes}.values())}


def bulk_action_schema(flow: Flow, *choices: dict[str, Schema]) -> Schema:
    """Return one alternative for each action of a machine and, for those that fire one, each trigger."""
    shapes: list[Schema] = []
    for action in list_names(flow):
        fixed = [{"action": {"const": str(action)}, **choice} for choice in choices]
        if action == Name.TRANSITION:
            shapes += [_trigger_schema(each, more, required=True) for each in flow.transitions for more in fixed]
        else:
            fields, optional = _fields_of_action(flow, action)
            shapes += [_bulk_shape({**more, **fields}, optional) for more in fixed]
    return {"anyOf": list({repr(shape): shape for shape in shapes}.values())}


def _fields_of_action(flow: Flow, action: str) -> tuple[dict[str, Schema], dict[str, Schema]]:
    """Return the fields that an action needs beside the selection, and those that it may have."""
    category = {"category": {"type": "string", "enum": list(Category.values)}, "reason": {**REASON, "minLength": 10}}
    if action == Name.OVERRIDE:
        return {"to_state": {"type": "string", "enum": list(flow.states)}, **category}, {"metadata": ANY_OBJECT}
    if action == Name.WAIVE:
        return category, {"expires_at": nullable(TIME)}
    found = resolve(flow, BulkRequest(action))
    params = {param.name: param_schema(param) for param in found.fields()}
    return {}, params | ({"metadata": ANY_OBJECT} if "metadata" in found.takes else {})


def _bulk_shape(required: dict[str, Schema], more: dict[str, Schema]) -> Schema:
    fixed = {"reason": REASON, "dry_run": FLAG, "request_id": REQUEST_ID}
    return obj({**fixed, **more, **required}, list(required), closed=True)


def describe_filters(model: type[models.Model]) -> Schema:
    """Return the schema of filters in a body: one value or a list of each; numbers and flags may be texts."""
    filters = {name: _filter_schema(each) for name, each in derive_filters(model).items()}
    return {**obj(filters, [], closed=True), "minProperties": 1}


def _filter_schema(found: Filter) -> Schema:
    written = AS_TEXT.get(found.schema["type"])
    one: Schema = {"anyOf": [found.schema, written]} if written else dict(found.schema)
    return {"anyOf": [one, {"type": "array", "items": one, "minItems": 1, "maxItems": 100 if found.repeatable else 1}]}


def _trigger_schema(transition: Transition, more: dict[str, Schema], *, required: bool = False) -> Schema:
    fields = {param.name: param_schema(param) for param in transition.params}
    needed = ["trigger", *(param.name for param in transition.params if param.required), *(more if required else ())]
    fixed = {"reason": REASON, "metadata": ANY_OBJECT, "dry_run": FLAG, "request_id": REQUEST_ID}
    return obj({"trigger": {"const": transition.trigger}, **fields, **fixed, **more}, needed, closed=True)


def body_schema(body: type[Body]) -> Schema:
    """Return the schema of a body, which may have its idempotency key."""
    schema = part_schema(body)
    return {**schema, "properties": {**schema["properties"], "request_id": REQUEST_ID}}


def part_schema(part: type[Body]) -> Schema:
    """Return the schema of an object in a body, from the annotations of its fields."""
    hints = get_type_hints(part, include_extras=True)
    required = [each.name for each in msgspec.structs.fields(part) if each.required]
    return obj({name: _hint_schema(hints[name]) for name in part.__struct_fields__}, required, closed=True)


def _hint_schema(hint: Any) -> Schema:
    """Return what `As` gives; otherwise what msgspec derives from the type, with the parts of the body written out."""
    kind, members = get_origin(hint), [each for each in get_args(hint) if each is not msgspec.UnsetType]
    if kind in (Union, UnionType):
        known = [each for each in members if each is not NoneType]
        schema = _hint_schema(known[0]) if len(known) == 1 else msgspec.json.schema(Union[tuple(known)])  # noqa: UP007
        return nullable(schema) if NoneType in members else schema
    if kind is list:
        return array(_hint_schema(members[0]))
    if kind is Annotated and (given := [each.schema for each in members if isinstance(each, As)]):
        return dict(given[-1])
    if kind is Annotated and get_origin(members[0]) is list:
        limits = [each.max_length for each in members[1:] if isinstance(each, msgspec.Meta)]
        return {**_hint_schema(members[0]), **({"maxItems": limits[-1]} if limits else {})}
    return part_schema(hint) if isinstance(hint, type) and issubclass(hint, Body) else msgspec.json.schema(hint)


_EVENT: Schema = obj(
    {
        "event_id": STRING,
        "event_name": STRING,
        "entity_type": STRING,
        "entity_id": STRING,
        "sequence": COUNT,
        "version": COUNT,
        "kind": {"type": "string", "enum": list(EventKind.values)},
        "trigger": STRING,
        "from_state": nullable(STRING),
        "to_state": STRING,
        "severity": {"type": "string", "enum": [str(severity) for severity in Severity]},
        "actor": STRING,
        "actor_kind": STRING,
        "identity": nullable(STRING),
        "operator": nullable(STRING),
        "channel": STRING,
        "timestamp": TIME,
        "reason": nullable(STRING),
        "metadata": ANY_OBJECT,
        "context": ANY_OBJECT,
        "caused_by": nullable(STRING),
        "dwell_seconds": {"type": "number"},
        "attempt": COUNT,
        "prev_hash": STRING,
        "hash": STRING,
    }
)
# Events of earlier versions have no digest of the evidence.
_EVENT["properties"]["evidence"] = _EVENT["properties"]["evidence_before"] = STRING
EVENT = component("Event", _EVENT)
EVENTS = array(EVENT)
# The file with the first events of a history, if they are archived.
ARCHIVED: Schema = nullable(
    obj(
        {
            "upto_sequence": COUNT, "first_position": COUNT, "last_position": COUNT, "file": STRING, "sha256": STRING,
            "until": TIME, "archived_at": TIME, "operator": STRING, "reason": STRING,
        }
    )
)  # fmt: skip
UNMET: Schema = obj({"code": STRING, "detail": STRING, "entity": STRING, "entity_type": STRING}, ["code", "detail"])
TRANSITION_CHECKS: Schema = {
    "type": "array",
    "items": obj(
        {
            "trigger": STRING,
            "to_state": STRING,
            "allowed": FLAG,
            "kind": STRING,
            "unmet": {"type": "array", "items": UNMET},
            "actors": {"type": "array", "items": STRING},
            "needs": {"type": "array", "items": STRING},
        }
    ),
}
EXPLANATION = component(
    "Explanation",
    obj(
        {
            "entity_type": STRING,
            "id": STRING,
            "state": STRING,
            "since": TIME,
            "deadline_seconds": {"type": ["number", "null"]},
            "overdue_seconds": {"type": ["number", "null"]},
            "sentence": STRING,
            "transitions": TRANSITION_CHECKS,
            "moves": deprecated(TRANSITION_CHECKS, "transitions"),
            "waiting_on": {
                "type": "array",
                "items": obj({"entity_type": STRING, "entity_id": STRING, "detail": STRING}),
            },
        }
    ),
)
BULK_RESULT = component(
    "BulkResult",
    obj(
        {
            "id": STRING,
            "changed": FLAG,
            "event": {"anyOf": [EVENT, {"type": "null"}]},
            "refusal": {"type": ["object", "null"]},
            "approval": ref("Approval"),  # only of an override that waits for a second person
        },
        ["id", "changed", "event", "refusal"],
    ),
    "What an action did to one entity: an event, a refusal, or a request for approval.",
)
APPROVAL = component(
    "Approval",
    obj({
        "id": STRING, "status": {"type": "string", "enum": list(Status.values)}, "entity_type": STRING,
        "entity_id": STRING, "version": COUNT, "from_state": STRING, "to_state": STRING, "reason": STRING,
        "category": STRING, "policies": {"type": "array", "items": STRING}, "requested_by": STRING,
        "requested_at": TIME, "expires_at": TIME, "decided_by": nullable(STRING), "decided_at": nullable(TIME),
        "comment": nullable(STRING), "event_id": nullable(STRING),
    }),
    "A request for approval of an override or a waiver, and its decision.",
)  # fmt: skip
HOLD = component(
    "Hold",
    obj({
        "id": STRING, "scope": STRING, "status": {"type": "string", "enum": list(hold.Status.values)}, "reason": STRING,
        "created_by": STRING, "created_at": TIME, "expires_at": nullable(TIME), "ended_at": nullable(TIME),
        "released_by": nullable(STRING), "release_reason": nullable(STRING),
    }),
    "An order of an operator to give out no new work within a scope.",
)  # fmt: skip
CAUSED_COUNTS: Schema = array(obj({"entity_type": STRING, "to_state": STRING, "count": COUNT}))
BULK_JOB = component(
    "BulkJob",
    obj({
        "id": STRING, "entity_type": STRING, "action": STRING, "trigger": STRING, "to_state": STRING, "reason": STRING,
        "actor": STRING, "total": COUNT, "done": COUNT, "refused": COUNT, "approvals": COUNT, "caused": CAUSED_COUNTS,
        "finished": FLAG, "stopped_by": nullable(STRING), "created_at": TIME, "finished_at": nullable(TIME),
    }),
    "An action that is applied to many entities in portions, and its progress.",
)  # fmt: skip


CAUSED: dict[str, Schema] = {
    "caused": {
        **EVENTS,
        "maxItems": MAX_CAUSED,
        "description": f"The first {MAX_CAUSED} events of the cascade, causes before effects.",
    },
    "caused_count": {**COUNT, "description": "All events of the cascade. The list of events has those left out."},
}


def result_schema(flow: Flow) -> Schema:
    event: Schema = {"anyOf": [EVENT, {"type": "null"}]}
    return obj({"changed": FLAG, "event": event, **CAUSED, "entity": entity_with_links(flow)})


def list_refusal_classes() -> list[type[Refusal]]:
    """Return all classes of refusals, sorted by status and code."""
    found: list[type[Refusal]] = []
    waiting = [Refusal]
    while waiting:
        kind = waiting.pop()
        waiting += kind.__subclasses__()
        if hasattr(kind, "code"):
            found.append(kind)
    return sorted(found, key=lambda kind: (kind.status, kind.code))


def problems() -> dict[str, Schema]:
    """Return a schema for each status, with its codes."""
    codes: dict[int, list[str]] = {}
    for kind in list_refusal_classes():
        codes.setdefault(kind.status, []).append(kind.code)
    return {f"Problem{status}": _problem(status, sorted(set(found))) for status, found in codes.items()}


def _problem(status: int, codes: list[str]) -> Schema:
    return obj(
        {"type": STRING, "title": STRING, "status": {"const": status}, "detail": STRING, "code": {"enum": codes}},
    )


def components() -> dict[str, Schema]:
    machines = {name: schema for flow in registry.flows() for name, schema in _machine_components(flow).items()}
    return {**machines, **plan_components(), **problems(), **list_named()}


def list_named() -> dict[str, Schema]:
    """Return the schemas that `component` has named."""
    return dict(_NAMED)


def _machine_components(flow: Flow) -> dict[str, Schema]:
    name, triggers = component_name(flow), trigger_schemas(flow)
    return {
        name: entity_schema(flow),
        f"{name}Page": page_of(entity_with_links(flow)),
        f"New{name}": creation_schema(flow),
        f"Created{name}": created_schema(flow),
        f"{name}Changes": edit_schema(flow),
        **triggers,
        f"{name}Transition": {"anyOf": [ref(each) for each in triggers]},
        f"{name}TransitionResult": result_schema(flow),
    }


# The fields of a run that a plan sets as they are.
PLAN_OF_RUN = ("max_parallel", "weight", "not_before")


def plan_components() -> dict[str, Schema]:
    """Return the parts of a plan: the fields with which they are created, except for those that the plan implies."""
    flows = {flow.entity_type: flow for flow in registry.flows()}
    task = _plan_part(flows["task"])
    gate = _plan_part(flows["test_gate"])
    workstream = _plan_part(flows["workstream"])
    workstream["properties"] |= {"tasks": _list_of("PlanTask", 1), "gates": _list_of("PlanGate")}
    workstream["required"] = [*workstream["required"], "tasks"]
    plan = obj(
        {
            "id": nullable(ID),
            "phase": ID,
            "metadata": ANY_OBJECT,
            "workstreams": _list_of("PlanWorkstream", 1),
            "gates": _list_of("PlanGate"),
            "start": FLAG,
            "max_repairs": {"type": "integer", "minimum": 0, "maximum": 100},
            "on_failure": {"enum": OnFailure.values},
            "webhook": {"type": "string", "format": "uri", "maxLength": URL_LENGTH},
            **{name: request_field(_field(flows["run"].model, name)) for name in PLAN_OF_RUN},
            "request_id": REQUEST_ID,
        },
        ["phase", "workstreams"],
        closed=True,
    )
    return {"Plan": plan, "PlanWorkstream": workstream, "PlanTask": task, "PlanGate": gate}


def _plan_part(flow: Flow) -> Schema:
    schema = creation_schema(flow)
    implied = {*IMPLIED, "expected_tasks", "reason", "request_id"}
    properties = {name: each for name, each in schema["properties"].items() if name not in implied}
    required = ["id", *(name for name in schema.get("required", []) if name not in implied)]
    return obj({**properties, "id": ID}, required, closed=True)


def _list_of(name: str, least: int = 0) -> Schema:
    return {"type": "array", "items": ref(name), **({"minItems": least} if least else {})}
