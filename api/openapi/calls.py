"""Which view makes which call, described."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from api import agents, bulk, claims, collections, heartbeat, operators, records
from api.filters import AS_TEXT, filters
from api.pages import LARGEST, USUAL_SIZE, orderings
from statecore.door import Category
from statecore.kernel.flow import Flow
from statecore.machines.task import REPORTS

from . import schemas
from .call import Call
from .fields import ANY_OBJECT, ID, MOMENT, Schema, nullable, taken, text
from .schemas import COUNT, FLAG, REASON, VERSION, WORD, listed, obj, ref

Describe = Callable[[Any, str], Call]


def query(name: str, schema: Schema, description: str = "") -> Schema:
    made: Schema = {"name": name, "in": "query", "schema": schema}
    return {**made, "description": description} if description else made


SIZE = query("page_size", {"type": "integer", "minimum": 1, "maximum": LARGEST}, f"{USUAL_SIZE} unless given.")
CURSOR = query("cursor", WORD, "As it stands in `next` and `previous`.")
AFTER = query("after", {"type": "integer", "minimum": 0, "maximum": 10**9 - 1}, "The number of the last one read.")


def paging(model: Any) -> list[Schema]:
    words = [query(name, _filter(each)) for name, each in filters(model).items()]
    ordering = query("ordering", {"type": "string", "enum": list(orderings(model))})
    return [CURSOR, SIZE, ordering, *words]


def _filter(found: Any) -> Schema:
    return (
        {"type": "array", "items": found.schema, "minItems": 1, "maxItems": 100} if found.repeatable else found.schema
    )


def _word(found: Any) -> Schema:
    """In a body a filter may be one value or a list of them, and a number may be written as a text."""
    written = AS_TEXT.get(found.schema["type"])
    one: Schema = {"anyOf": [found.schema, written]} if written else found.schema
    return {"anyOf": [one, {"type": "array", "items": one, "minItems": 1, "maxItems": 100 if found.repeatable else 1}]}


def of_collection(view: collections.Collection, method: str) -> Call:
    flow = view.flow
    if method == "GET":
        return Call(f"List {flow.collection}", {200: listed(schemas.full(flow))}, parameters=paging(flow.model))
    if flow.entity_type == "patch_ledger":
        return _of_handing_in(flow)
    summary = "Register a worker, idle at once" if flow.entity_type == "worker" else f"Create a {flow.entity_type}"
    answers: dict[int, Schema | None] = {201: schemas.newborn(flow)}
    return Call(summary, answers, body=schemas.creation(flow), body_is_optional=_all_optional(flow), conflicts=True)


def _of_handing_in(flow: Flow) -> Call:
    """Its workstream, or the task that has one."""
    plain = schemas.creation(flow)
    task = {"task": nullable(ID), "attempt": VERSION}
    return Call(
        "Hand in a patch",
        {201: schemas.newborn(flow)},
        body={**plain, "properties": {**plain["properties"], **task}, "required": ["patch"]},
        conflicts=True,
        description="With `task`, and the `attempt` at it that an agent holds, the task waits for this patch when it "
        "is validated, and the patch belongs to the task's workstream. Without, name the `workstream`.",
    )


def _all_optional(flow: Flow) -> bool:
    return not schemas.creation(flow).get("required")


def of_detail(view: collections.Detail, method: str) -> Call:
    flow = view.flow
    told: dict[int, Schema | None] = {200: schemas.full(flow)}
    if method == "GET":
        return Call(f"Read a {flow.entity_type}", told)
    return Call(
        f"Change plain fields of a {flow.entity_type}",
        told,
        body=schemas.edit(flow),
        body_is_optional=True,
        conflicts=True,
    )


def of_transitions(view: collections.Transitions, method: str) -> Call:
    flow = view.flow
    if method == "GET":
        answers: dict[int, Schema | None] = {200: schemas.listed(ref("Event"), retired=schemas.RETIRED)}
        return Call("Its history, oldest first", answers, parameters=[AFTER, SIZE])
    return Call("Fire a trigger", {200: schemas.moved(flow)}, body=schemas.firing(flow), conflicts=True)


def of_explain(view: collections.Explain, method: str) -> Call:
    return Call("Why it is where it is, and what each move from here needs", {200: ref("Explanation")})


def of_override(view: collections.Override, method: str) -> Call:
    better = {
        "to_state": {"type": "string", "enum": list(view.flow.states)},
        "category": {"type": "string", "enum": list(Category.values)},
        "reason": {**REASON, "minLength": 10},
        "metadata": ANY_OBJECT,
        "expected_version": VERSION,
    }
    body = schemas.shape(collections.Override.Asked, **better)
    return Call(
        "Force a state, on record for ever",
        {200: schemas.moved(view.flow)},
        body=body,
        conflicts=True,
        description="Where the policy demands a second person, a token of theirs for `override` stands in "
        "`Approver-Authorization: Bearer <token>`. A dry run needs nobody.",
    )


def of_retry(view: collections.Retry, method: str) -> Call:
    body = schemas.shape(collections.Retry.Asked, reason=REASON)
    answers: dict[int, Schema | None] = {201: schemas.newborn(view.flow)}
    return Call("Make a successor of what is final", answers, body=body, body_is_optional=True, conflicts=True)


def of_bulk(view: bulk.BulkTransitions, method: str) -> Call:
    ids = {"ids": {"type": "array", "items": ID, "maxItems": 100_000}}
    chosen = {"filter": obj({name: _word(each) for name, each in filters(view.flow.model).items()}, [], closed=True)}
    chosen["filter"]["minProperties"] = 1
    done = obj({"total": COUNT, "refused": COUNT, "results": {"type": "array", "items": schemas.BULK_RESULT}})
    job = obj({"job": ref("BulkJob"), "url": WORD})
    return Call(
        "Fire a trigger for many, each moved or refused by itself",
        {200: done, 202: job},
        body=schemas.firing(view.flow, ids, chosen),
        conflicts=True,
        description="Give either `ids` or a `filter` of the list's own words. Many become a job to be asked about.",
    )


def of_job(view: bulk.Job, method: str) -> Call:
    return Call("How far a bulk job is", {200: ref("BulkJob")})


def of_results(view: bulk.Results, method: str) -> Call:
    return Call("What became of each entity of a bulk job", {200: listed(schemas.BULK_RESULT)}, parameters=[AFTER])


def of_records(view: records.Records, method: str) -> Call:
    told = schemas.entity(view.model)
    if method == "GET":
        return Call(f"List {view.model._meta.verbose_name_plural}", {200: listed(told)}, parameters=paging(view.model))
    fields = {name: taken(field) for name, field in view.fields().items()}
    required = [name for name, field in view.fields().items() if not (field.blank or field.has_default())]
    body = obj(
        {"id": {**ID, "type": ["string", "null"]}, **fields, "request_id": schemas.REQUEST_ID}, required, closed=True
    )
    summary = f"Add a {view.model._meta.verbose_name}"
    return Call(summary, {201: told}, body=body, body_is_optional=not required, conflicts=True)


def of_record(view: records.Record, method: str) -> Call:
    told = schemas.entity(view.model)
    if method == "GET":
        return Call(f"Read a {view.model._meta.verbose_name}", {200: told})
    fields = {name: taken(field) for name, field in view.fields().items()}
    body = obj(fields, [], closed=True)
    return Call(f"Change a {view.model._meta.verbose_name}", {200: told}, body=body, body_is_optional=True)


def of_submit(view: agents.Submit, method: str) -> Call:
    item: Schema = {"type": "object", "properties": {"id": ID}, "required": ["id"]}
    stream: Schema = {
        "type": "object",
        "properties": {"id": ID, "tasks": {"type": "array", "items": item, "minItems": 1}},
        "required": ["id", "tasks"],
    }
    body = obj(
        {
            "id": ID,
            "phase": ID,
            "metadata": ANY_OBJECT,
            "workstreams": {"type": "array", "items": stream, "minItems": 1},
            "gates": {"type": "array", "items": item},
            "start": FLAG,
            "request_id": schemas.REQUEST_ID,
        },
        ["phase", "workstreams"],
        closed=True,
    )
    counts = obj({"workstreams": COUNT, "tasks": COUNT, "gates": COUNT})
    return Call(
        "Submit a whole plan, all of it or nothing",
        {201: {"allOf": [ref("Run"), counts]}},
        body=body,
        conflicts=True,
        description="Workstreams, tasks and gates have the fields of their collections. Errors name the place.",
    )


HELD = {"task": ID, "attempt": {**COUNT, "maximum": claims.LARGEST_ATTEMPT}}


def of_heartbeat(view: heartbeat.Heartbeat, method: str) -> Call:
    held = obj(HELD, closed=True)
    holds = {"type": ["array", "null"], "items": held, "maxItems": claims.MOST_HELD}
    told = obj({"state": WORD, "commands": {"type": "array", "items": ANY_OBJECT}})
    return Call(
        "Say that a worker lives",
        {200: told},
        body=schemas.shape(heartbeat.Alive, holds=holds),
        body_is_optional=True,
        description="With `holds`, what its agent is at, the answer names what of it is to be stopped, each time until "
        "it is let go. Without, what was taken from the worker is named until its time is over.",
    )


def _nothing() -> Schema:
    return obj({"request_id": schemas.REQUEST_ID}, [], closed=True)


def of_claim(view: claims.Claim, method: str) -> Call:
    ended = {
        **HELD,
        "trigger": {"enum": sorted(REPORTS)},
        "exit_code": {"type": ["integer", "null"]},
        "output": nullable(WORD),
        "error": nullable(WORD),
    }
    report = obj(ended, ["task", "attempt", "trigger"], closed=True)
    most = {"type": ["integer", "null"], "minimum": 1}
    reports = {"type": "array", "items": report, "minItems": 1, "maxItems": claims.MOST_HELD}
    alone = schemas.shape(claims.Wanted, max=most, reports={"type": "array", "maxItems": 0})
    reporting = schemas.shape(claims.Wanted, max=most, reports=reports, wait={"const": 0})
    reporting["required"] = ["reports"]
    tasks = {"type": "array", "items": ref("Task")}
    told = obj({"tasks": tasks, "reports": {"type": "array", "items": schemas.BULK_RESULT}}, ["tasks"])
    return Call(
        "Take tasks",
        {200: told},
        body={"anyOf": [alone, reporting]},
        body_is_optional=True,
        conflicts=True,
        description="With `reports` the last tasks are ended before the next are taken, in one transaction: what "
        "became of each stands beside the tasks, and no report is refused because there is nothing to take. A task "
        "that only these reports make ready is taken by the next call.",
    )


def of_acquire(view: agents.Acquire, method: str) -> Call:
    told = obj({"allowed": FLAG, "probe": FLAG})
    return Call("Ask for leave to call a tool", {200: told}, body=_nothing(), body_is_optional=True)


def of_report(view: agents.Report, method: str) -> Call:
    told = obj({"counted": FLAG, "state": WORD, "failure_count": COUNT, "success_count": COUNT})
    return Call(
        "Say how a call of a tool went", {200: told}, body=schemas.shape(agents.Report.Told, error=text(10_000))
    )


def of_checkpoint(view: agents.Checkpoint, method: str) -> Call:
    if method == "DELETE":
        return Call("Forget a checkpoint", {204: None})
    headers = "Who stored it, and when, stand in the headers Checkpoint-Job and Checkpoint-Updated-At."
    if method == "GET":
        return Call("Read a checkpoint as it was stored", {200: ANY_OBJECT}, description=headers)
    return Call("Store a checkpoint", {200: ANY_OBJECT}, body=ANY_OBJECT, body_is_optional=True, conflicts=True)


def of_job_events(view: agents.JobEvents, method: str) -> Call:
    event = {
        "job": WORD,
        "sequence": COUNT,
        "type": WORD,
        "payload": ANY_OBJECT,
        "to_state": {"type": ["string", "null"]},
    }
    event |= {"journal_event": {"type": ["string", "null"]}, "actor": WORD, "at": MOMENT}
    if method == "GET":
        return Call("The log of an agent job, oldest first", {200: listed(obj(event))}, parameters=[AFTER, SIZE])
    kind = {"type": "string", "pattern": "^[a-z][a-z0-9_]{0,63}$"}
    body = schemas.shape(
        agents.JobEvents.Appended, type=kind, reason=REASON, payload=ANY_OBJECT, expected_version=VERSION
    )
    told = obj({**event, "changed": FLAG, "state": WORD, "version": COUNT})
    return Call("Append to the log of an agent job", {201: told}, body=body, conflicts=True)


COMPENSATION = obj(
    {
        "patch": WORD,
        "plan": {"type": ["object", "null"]},
        "digest": {"type": ["string", "null"]},
        "approved_by": {"type": ["string", "null"]},
        "default": {"type": ["object", "null"]},
        "steps": {"type": "array", "items": ANY_OBJECT},
    }
)


def of_compensation(view: operators.Compensation, method: str) -> Call:
    if method == "GET":
        return Call("How a committed patch would be taken back", {200: COMPENSATION}, conflicts=True)
    return Call(
        "Write the plan that takes a patch back",
        {200: COMPENSATION},
        body=ANY_OBJECT,
        body_is_optional=True,
        conflicts=True,
    )


def of_approval(view: operators.Approval, method: str) -> Call:
    body = schemas.shape(operators.Approval.Asked)
    return Call("Approve the plan with this digest", {200: COMPENSATION}, body=body, conflicts=True)


def of_rollback(view: operators.Rollback, method: str) -> Call:
    body = schemas.shape(operators.Rollback.Asked, reason=REASON)
    return Call("Ask for the approved plan to be carried out", {202: COMPENSATION}, body=body, conflicts=True)


def of_drain(view: operators.Drain, method: str) -> Call:
    told: dict[int, Schema | None] = {200: ref("Worker")}
    return Call("Let a worker finish and leave", told, body=_nothing(), body_is_optional=True, conflicts=True)


DESCRIPTIONS: dict[type, Any] = {
    operators.Compensation: of_compensation,
    operators.Approval: of_approval,
    operators.Rollback: of_rollback,
    operators.Drain: of_drain,
    collections.Collection: of_collection,
    collections.Detail: of_detail,
    collections.Transitions: of_transitions,
    collections.Explain: of_explain,
    collections.Override: of_override,
    collections.Retry: of_retry,
    bulk.BulkTransitions: of_bulk,
    bulk.Job: of_job,
    bulk.Results: of_results,
    records.Records: of_records,
    records.Record: of_record,
    agents.Submit: of_submit,
    heartbeat.Heartbeat: of_heartbeat,
    claims.Claim: of_claim,
    agents.Acquire: of_acquire,
    agents.Report: of_report,
    agents.Checkpoint: of_checkpoint,
    agents.JobEvents: of_job_events,
}
