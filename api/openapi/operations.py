"""Descriptions of the calls of machines, records, agents and operators, by view."""

from __future__ import annotations

from typing import Any

from statecore.api import agents, artifacts, bulk, claims, collections, heartbeat, logs, operators, records
from statecore.api.claim_wait import MAX_WAIT_SECONDS
from statecore.api.filters import AS_TEXT, derive_filters
from statecore.api.pages import DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE, list_orderings
from statecore.kernel.flow import Flow
from statecore.scheduling.task_logs import MAX_LINES
from statecore.transitions import Category

from . import schemas
from .fields import (
    ANY_OBJECT,
    ANY_VALUE,
    COMMAND,
    ID,
    TIME,
    Schema,
    nullable,
    request_field,
    text,
)
from .operation import BINARY, BYTES, Operation
from .schemas import (
    COUNT,
    FLAG,
    REASON,
    STRING,
    VERSION,
    obj,
    page_of,
    ref,
)


def query(name: str, schema: Schema, description: str = "") -> Schema:
    param: Schema = {"name": name, "in": "query", "schema": schema}
    return {**param, "description": description} if description else param


SIZE = query(
    "page_size",
    {"type": "integer", "minimum": 1, "maximum": MAX_PAGE_SIZE},
    f"Results per page; {DEFAULT_PAGE_SIZE} by default.",
)
CURSOR = query("cursor", STRING, "Opaque; part of the URLs in `next` and `previous`.")
AFTER = query("after", {"type": "integer", "minimum": 0, "maximum": 10**9 - 1}, "Return results after this number.")


def noun(flow: Flow) -> str:
    return flow.entity_type.replace("_", " ")


def paging(model: Any) -> list[Schema]:
    filter_params = [query(name, _filter_param(each)) for name, each in derive_filters(model).items()]
    ordering = query("ordering", {"type": "string", "enum": list(list_orderings(model))})
    return [CURSOR, SIZE, ordering, *filter_params]


def _filter_param(found: Any) -> Schema:
    return (
        {"type": "array", "items": found.schema, "minItems": 1, "maxItems": 100} if found.repeatable else found.schema
    )


def _filter_in_body(found: Any) -> Schema:
    """In a body, a filter is one value or a list, and numbers and flags may be written as text."""
    written = AS_TEXT.get(found.schema["type"])
    one: Schema = {"anyOf": [found.schema, written]} if written else found.schema
    return {"anyOf": [one, {"type": "array", "items": one, "minItems": 1, "maxItems": 100 if found.repeatable else 1}]}


def describe_collection(view: collections.Collection, method: str) -> Operation:
    flow = view.flow
    if method == "GET":
        return Operation(
            f"List {flow.collection.replace('-', ' ')}", {200: schemas.page_ref(flow)}, parameters=paging(flow.model)
        )
    if flow.entity_type == "patch_ledger":
        return _describe_patch_submission(flow)
    is_worker = flow.entity_type == "worker"
    summary = "Register an idle worker" if is_worker else f"Create a new {noun(flow)}"
    responses: dict[int, Schema | None] = {201: schemas.created_ref(flow)}
    return Operation(
        summary, responses, body=schemas.creation_ref(flow), body_is_optional=_is_body_optional(flow), conflicts=True
    )


def _describe_patch_submission(flow: Flow) -> Operation:
    plain = schemas.creation_schema(flow)
    task = {"task": nullable(ID), "attempt": VERSION, "based_on": nullable(ID)}
    return Operation(
        "Submit a patch",
        {201: schemas.created_ref(flow)},
        body={
            **plain,
            "properties": {**plain["properties"], **task},
            "required": ["patch"],
            "examples": [{"patch": "patch-1", "task": "task-1", "attempt": 1}],
        },
        conflicts=True,
        description="With `task` and the `attempt` that the agent holds, the patch belongs to the task's workstream, "
        "and the validation of the task waits for it. With `based_on`, a quarantined patch, it is its successor, and "
        "the quarantined one is dropped. Without either, `workstream` is required.",
    )


def _is_body_optional(flow: Flow) -> bool:
    return not schemas.creation_schema(flow).get("required")


def describe_detail(view: collections.Detail, method: str) -> Operation:
    flow = view.flow
    if method == "GET":
        return Operation(f"Read one {noun(flow)}", {200: schemas.entity_detail(flow)})
    response: dict[int, Schema | None] = {200: schemas.entity_with_links(flow)}
    return Operation(
        f"Change fields of one {noun(flow)}",
        response,
        body=schemas.edit_ref(flow),
        body_is_optional=True,
        conflicts=True,
    )


def describe_transitions(view: collections.Transitions, method: str) -> Operation:
    flow = view.flow
    if method == "GET":
        responses: dict[int, Schema | None] = {200: schemas.page_of(ref("Event"), archived=schemas.ARCHIVED)}
        states = {"type": "array", "items": {"type": "string", "enum": list(flow.states)}, "minItems": 1}
        chosen = query("to_state", states, "Only the events that lead to one of these states.")
        return Operation("List the events of an entity, oldest first", responses, parameters=[chosen, AFTER, SIZE])
    return Operation("Fire a trigger", {200: schemas.result_ref(flow)}, body=schemas.trigger_ref(flow), conflicts=True)


def describe_explain(view: collections.Explain, method: str) -> Operation:
    return Operation("Explain the current state and what each transition requires", {200: ref("Explanation")})


def describe_override(view: collections.Override, method: str) -> Operation:
    overrides = {
        "to_state": {"type": "string", "enum": list(view.flow.states)},
        "category": {"type": "string", "enum": list(Category.values)},
        "reason": {**REASON, "minLength": 10},
        "metadata": ANY_OBJECT,
        "expected_version": VERSION,
        "verified_output": nullable(schemas.part_schema(collections.VerifiedOutput)),
    }
    body = schemas.body_schema(collections.Override.Fields, **overrides)
    return Operation(
        "Override the state",
        {200: schemas.result_ref(view.flow), 202: obj({"approval": ref("Approval")})},
        body=body,
        conflicts=True,
        description="If a policy requires a second person, nothing changes yet and the response is 202 with a request "
        "for approval, which another account decides with `approvals/{id}/approve/` or `deny/`.",
    )


def describe_waive(view: collections.Waive, method: str) -> Operation:
    fields = {
        "category": {"type": "string", "enum": list(Category.values)},
        "reason": {**REASON, "minLength": 10},
        "expires_at": nullable(TIME),
        "expected_version": VERSION,
    }
    return Operation(
        "Waive a gate",
        {200: schemas.result_ref(view.flow), 202: obj({"approval": ref("Approval")})},
        body=schemas.body_schema(collections.Waive.Fields, **fields),
        conflicts=True,
        description="The gate keeps its state; what waits for it treats it as passed until `expires_at`, or for good. "
        "Takes the permission to waive gates. If the policy `test_gate->waived`, or one that protects a state which "
        "follows, requires a second person, the response is 202 with a request for approval.",
    )


def describe_retry(view: collections.Retry, method: str) -> Operation:
    body = schemas.body_schema(collections.Retry.Fields, reason=REASON)
    responses: dict[int, Schema | None] = {201: schemas.created_ref(view.flow)}
    return Operation(
        "Create a successor of a final entity", responses, body=body, body_is_optional=True, conflicts=True
    )


def describe_bulk(view: bulk.BulkTransitions, method: str) -> Operation:
    ids = {"ids": {"type": "array", "items": ID, "maxItems": 100_000}}
    chosen = {
        "filter": obj(
            {name: _filter_in_body(each) for name, each in derive_filters(view.flow.model).items()}, [], closed=True
        )
    }
    chosen["filter"]["minProperties"] = 1
    done = obj({"total": COUNT, "refused": COUNT, "results": {"type": "array", "items": ref("BulkResult")}})
    job = obj({"job": ref("BulkJob"), "url": STRING})
    return Operation(
        "Fire a trigger for many entities, each applied or refused separately",
        {200: done, 202: job},
        body=schemas.bulk_schema(view.flow, ids, chosen),
        conflicts=True,
        description="Give either `ids` or a `filter` with the filters of the list. A large selection becomes a "
        "background job; the response is 202 with its URL.",
    )


def describe_job(view: bulk.Job, method: str) -> Operation:
    return Operation("Read the progress of a bulk job", {200: ref("BulkJob")})


def describe_results(view: bulk.Results, method: str) -> Operation:
    return Operation("List the results of a bulk job by entity", {200: page_of(ref("BulkResult"))}, parameters=[AFTER])


def describe_records(view: records.Records, method: str) -> Operation:
    response = schemas.record_schema(view.model)
    if method == "GET":
        return Operation(
            f"List {view.model._meta.verbose_name_plural}", {200: page_of(response)}, parameters=paging(view.model)
        )
    fields = {name: request_field(field) for name, field in view.fields().items()}
    required = [name for name, field in view.fields().items() if not (field.blank or field.has_default())]
    body = obj(
        {"id": {**ID, "type": ["string", "null"]}, **fields, "request_id": schemas.REQUEST_ID}, required, closed=True
    )
    summary = f"Add a {view.model._meta.verbose_name}"
    return Operation(summary, {201: response}, body=body, body_is_optional=not required, conflicts=True)


def describe_record(view: records.Record, method: str) -> Operation:
    response = schemas.record_schema(view.model)
    if method == "GET":
        return Operation(f"Read a {view.model._meta.verbose_name}", {200: response})
    fields = {name: request_field(field) for name, field in view.fields().items()}
    body = obj(fields, [], closed=True)
    return Operation(f"Change a {view.model._meta.verbose_name}", {200: response}, body=body, body_is_optional=True)


def describe_submit(view: agents.Submit, method: str) -> Operation:
    hook = obj({"id": STRING, "secret": nullable(STRING)}, ["id"])
    counts = obj(
        {"workstreams": COUNT, "tasks": COUNT, "gates": COUNT, "webhook": hook}, ["workstreams", "tasks", "gates"]
    )
    return Operation(
        "Submit a plan in one transaction",
        {201: {"allOf": [ref("Run"), counts]}},
        body=ref("Plan"),
        conflicts=True,
        description="Workstreams, tasks and gates have the fields of their collections. Errors name the invalid part. "
        "`webhook` is a URL that gets one message at the end of the run; the response has its `secret` once. Agents "
        "may use the hosts in STATECORE_AGENT_WEBHOOK_HOSTS.",
    )


HELD = {"task": ID, "attempt": {**COUNT, "maximum": claims.MAX_ATTEMPT}}


PROGRESS = obj(
    {"fraction": {"type": ["number", "null"], "minimum": 0, "maximum": 1}, "detail": text(heartbeat.MAX_DETAIL)},
    [],
    closed=True,
)


def describe_renewal(view: collections.Renewal, method: str) -> Operation:
    response = obj({"state": STRING, "attempt": COUNT, "lease_expires_at": nullable(TIME), "commands": COMMANDS})
    attempt = {**COUNT, "type": ["integer", "null"], "maximum": claims.MAX_ATTEMPT}
    return Operation(
        f"Renew the lease of one {noun(view.flow)}",
        {200: response},
        body=schemas.body_schema(collections.Renewal.Fields, attempt=attempt, progress=nullable(PROGRESS)),
        body_is_optional=True,
        conflicts=True,
        description="Only its holder renews it. Without another heartbeat, the holder loses it at `lease_expires_at`. "
        "A refusal with `lease_lost` means that it was lost: drop the work.",
    )


COMMANDS = {"type": "array", "items": COMMAND}


SENT_LINE = obj({"text": STRING, "stream": {"enum": ["stdout", "stderr"]}, "at": nullable(TIME)}, ["text"], closed=True)
LINES: Schema = {"type": "array", "items": SENT_LINE, "maxItems": MAX_LINES}
OFFSET: Schema = {"type": ["integer", "null"], "minimum": 0}
APPENDED = obj({"id": ID, "next": COUNT, "refusal": ANY_OBJECT}, ["id"])
HEARTBEAT = ["state", "commands"]
LINE = obj(
    {
        "number": COUNT,
        "attempt": COUNT,
        "stream": {"enum": ["stdout", "stderr", "system"]},
        "text": STRING,
        "at": TIME,
    }
)


def describe_logs(view: logs.Logs, method: str) -> Operation:
    if method == "GET":
        attempt = query("attempt", {**COUNT, "maximum": claims.MAX_ATTEMPT}, "Only the lines of this attempt.")
        return Operation(
            "Read the log of a task, oldest lines first",
            {200: page_of(LINE)},
            parameters=[AFTER, SIZE, attempt],
            description="With `Accept: text/event-stream` the log is followed until the attempt ends: one event per "
            "line, whose id is the number of the line, and at last an event `end`. A line of the stream `system` says "
            "which lines were dropped.",
        )
    return Operation(
        "Append lines to the log of a task",
        {200: obj({"next": COUNT})},
        body=schemas.body_schema(logs.LogFields, attempt=HELD["attempt"], lines=LINES, offset=OFFSET),
        conflicts=True,
        description="Only by the holder of the attempt. `next` is the number of the line that is written next. With "
        "`offset`, the number of lines of the attempt that were sent before, a repeated call stores no line twice.",
    )


def describe_heartbeat(view: heartbeat.Heartbeat, method: str) -> Operation:
    held = obj(HELD, closed=True)
    holds = {"type": ["array", "null"], "items": held, "maxItems": claims.MAX_HELD}
    reported = obj(
        {
            "id": ID,
            "attempt": HELD["attempt"],
            "progress": nullable(PROGRESS),
            "logs": {**LINES, "type": ["array", "null"]},
            "log_offset": OFFSET,
        },
        ["id", "attempt"],
        closed=True,
    )
    tasks = {"type": ["array", "null"], "items": reported, "maxItems": claims.MAX_HELD}
    return Operation(
        "Send a heartbeat",
        {200: obj({"state": STRING, "commands": COMMANDS, "logs": {"type": "array", "items": APPENDED}}, HEARTBEAT)},
        body=schemas.body_schema(heartbeat.HeartbeatFields, holds=holds, tasks=tasks),
        body_is_optional=True,
        description="`tasks` lists the tasks that the agent works on, with their progress if it is known; the response "
        "contains a command to stop each one that the worker no longer holds. `holds` is the same without progress. "
        "Without both, the response lists the tasks that were recently withdrawn from the worker. The response to "
        "`logs` is the number of the next line of each log, or why its lines were refused.",
    )


def _empty_body() -> Schema:
    return obj({"request_id": schemas.REQUEST_ID}, [], closed=True)


PREFER: Schema = {
    "name": "Prefer",
    "in": "header",
    "description": "`wait=SECONDS` instead of the parameter `wait`. A call with `reports` ignores it.",
    "schema": {"type": "string", "maxLength": 200},
}
INPUTS: Schema = {"type": "object", "additionalProperties": ANY_VALUE}


def describe_claim(view: claims.Claim, method: str) -> Operation:
    seconds = {"type": "number", "minimum": 0, "maximum": MAX_WAIT_SECONDS}
    return Operation(
        "Claim tasks",
        {200: ref("Claimed")},
        parameters=[query("wait", seconds, "Seconds to wait for a task. A call with `reports` cannot wait."), PREFER],
        body=ref("Claim"),
        body_is_optional=True,
        conflicts=True,
        description="`reports` are recorded before the claim, in the same transaction, even if there is no task to "
        "claim; the response contains the result of each. Tasks that become ready through these reports are claimed "
        "by the next call. A claim with reports does not wait. `inputs` are the results of the dependencies by id.",
    )


def claim_components() -> dict[str, Schema]:
    report = schemas.part_schema(claims.TaskResult, task=ID)
    claim = schemas.body_schema(
        claims.ClaimFields,
        max={"type": ["integer", "null"], "minimum": 1},
        reports={"type": "array", "items": ref("Report"), "maxItems": claims.MAX_HELD},
    )
    previous = {"attempt": COUNT, "exit_code": {"type": ["integer", "null"]}, "error": STRING, "output": STRING}
    optional_patch = obj({**previous, "patch": STRING}, list(previous))
    tasks = {"type": "array", "items": ref("ClaimedTask")}
    results = {"type": "array", "items": ref("BulkResult")}
    return {
        "Claim": claim,
        "Report": report,
        "PreviousAttempt": optional_patch,
        "ClaimedTask": {
            "allOf": [
                ref("Task"),
                obj({"inputs": INPUTS, "previous": {"anyOf": [ref("PreviousAttempt"), {"type": "null"}]}}),
            ]
        },
        "Claimed": obj({"tasks": tasks, "reports": results}, ["tasks"]),
    }


def describe_acquire(view: agents.Acquire, method: str) -> Operation:
    response = obj({"allowed": FLAG, "probe": FLAG})
    return Operation("Request permission to call a tool", {200: response}, body=_empty_body(), body_is_optional=True)


def describe_report(view: agents.Report, method: str) -> Operation:
    response = obj({"counted": FLAG, "state": STRING, "failure_count": COUNT, "success_count": COUNT})
    return Operation(
        "Report the result of a tool call",
        {200: response},
        body=schemas.body_schema(agents.Report.Fields, error=text(10_000)),
    )


def describe_checkpoint(view: agents.Checkpoint, method: str) -> Operation:
    if method == "DELETE":
        return Operation("Delete a checkpoint", {204: None})
    headers = "The headers Checkpoint-Job and Checkpoint-Updated-At name the job and the time it was stored."
    if method == "GET":
        return Operation("Read a stored checkpoint", {200: ANY_OBJECT}, description=headers)
    return Operation("Store a checkpoint", {200: ANY_OBJECT}, body=ANY_OBJECT, body_is_optional=True, conflicts=True)


CHECKPOINT = obj({"job": STRING, "phase": STRING, "updated_at": TIME})


def describe_checkpoints(view: agents.Checkpoints, method: str) -> Operation:
    return Operation("List the checkpoints of a pipeline job, oldest first", {200: page_of(CHECKPOINT)})


def describe_job_resumption(view: agents.Resume, method: str) -> Operation:
    response = obj(
        {"entity": schemas.entity_with_links(view.flow), "checkpoints": {"type": "array", "items": CHECKPOINT}}
    )
    return Operation(
        "Resume a pipeline job from its checkpoints",
        {200: response},
        body=_empty_body(),
        body_is_optional=True,
        conflicts=True,
        description="A job in a working stage that recovery has released, or that the caller holds, is resumed in "
        "place; a failed one by its holder, as a successor.",
    )


def describe_attempts(view: agents.Attempts, method: str) -> Operation:
    attempt = {
        "task": STRING,
        "attempt": COUNT,
        "worker": nullable(STRING),
        "started_at": TIME,
        "ended_at": nullable(TIME),
        "ended_by": nullable(STRING),
        "exit_code": {"type": ["integer", "null"]},
        "error": STRING,
        "output": STRING,
        "patch": nullable(STRING),
        "result": ANY_VALUE,
    }
    return Operation("List the attempts at a task and at those it succeeds, oldest first", {200: page_of(obj(attempt))})


ARTIFACT = obj(
    {
        "task": STRING, "name": STRING, "size": COUNT, "sha256": STRING, "content_type": STRING, "attempt": COUNT,
        "stored_by": STRING, "stored_at": TIME,
    }
)  # fmt: skip
NEWEST = query("newest", FLAG, "Of the newest task that succeeds this one.")


def describe_inputs(view: artifacts.Inputs, method: str) -> Operation:
    return Operation(
        "Read the results of the dependencies of a task, by their ids",
        {200: INPUTS},
        parameters=[NEWEST],
    )


def describe_artifacts(view: artifacts.Artifacts, method: str) -> Operation:
    return Operation("List the artifacts of a task by name", {200: page_of(ARTIFACT)}, parameters=[NEWEST])


def describe_artifact(view: artifacts.Artifact, method: str) -> Operation:
    if method == "GET":
        return Operation(
            "Download an artifact",
            {200: None, 206: None, 304: None},
            parameters=[NEWEST],
            other_types={BYTES: BINARY},
            refusals=(416,),
            description="The response has an `ETag`, and `Repr-Digest` with the SHA-256. `If-None-Match` and a single "
            "`Range` of bytes are supported.",
        )
    attempt = query("attempt", {"type": "integer", "minimum": 0, "maximum": 2**31 - 1}, "Required of agents.")
    if method == "DELETE":
        return Operation("Delete an artifact", {204: None}, parameters=[attempt], conflicts=True)
    return Operation(
        "Store an artifact under a name, in place of an earlier one",
        {200: ARTIFACT, 201: ARTIFACT},
        parameters=[attempt],
        conflicts=True,
        takes_bytes=True,
        refusals=(411,),
        description="The body is the content, of any media type; `Content-Length` is required. Agents store artifacts "
        "of tasks that they hold, with the current attempt. Repeating the call changes nothing.",
    )


def describe_job_events(view: agents.JobEvents, method: str) -> Operation:
    event = {
        "job": STRING,
        "sequence": COUNT,
        "type": STRING,
        "payload": ANY_OBJECT,
        "to_state": {"type": ["string", "null"]},
    }
    event |= {"journal_event": {"type": ["string", "null"]}, "actor": STRING, "at": TIME}
    if method == "GET":
        return Operation(
            "List the log of an agent job, oldest first", {200: page_of(obj(event))}, parameters=[AFTER, SIZE]
        )
    kind = {"type": "string", "pattern": "^[a-z][a-z0-9_]{0,63}$"}
    body = schemas.body_schema(
        agents.JobEvents.Fields, type=kind, reason=REASON, payload=ANY_OBJECT, expected_version=VERSION
    )
    response = obj({**event, "changed": FLAG, "state": STRING, "version": COUNT})
    return Operation("Append to the log of an agent job", {201: response}, body=body, conflicts=True)


COMPENSATION = obj(
    {
        "patch": STRING,
        "plan": {"type": ["object", "null"]},
        "digest": {"type": ["string", "null"]},
        "approved_by": {"type": ["string", "null"]},
        "default": {"type": ["object", "null"]},
        "steps": {"type": "array", "items": ANY_OBJECT},
    }
)


def describe_compensation(view: operators.Compensation, method: str) -> Operation:
    if method == "GET":
        return Operation("Preview the rollback of a committed patch", {200: COMPENSATION}, conflicts=True)
    return Operation(
        "Store the compensation plan of a patch, replacing an earlier one",
        {200: COMPENSATION},
        parameters=[query("dry_run", FLAG, "Validate the plan and store nothing.")],
        body=ANY_OBJECT,
        body_is_optional=True,
        conflicts=True,
    )


def describe_pause(view: Any, method: str) -> Operation:
    body = schemas.body_schema(operators.PauseRun.Fields, reason=REASON, until=nullable(TIME))
    return Operation(
        "Pause the workstreams of a run",
        {200: _paused_run()},
        body=body,
        conflicts=True,
        description="Workstreams that are ready, executing or blocked are paused: none of their tasks is claimed. "
        "Running tasks continue. With `until` they resume automatically at that time.",
    )


def describe_resume(view: Any, method: str) -> Operation:
    body = schemas.body_schema(operators.ResumeRun.Fields, reason=REASON)
    return Operation("Resume the paused workstreams of a run", {200: _paused_run()}, body=body, conflicts=True)


def _paused_run() -> Schema:
    results = {"type": "array", "items": ref("BulkResult")}
    return obj({"changed": FLAG, "workstreams": results, "entity": ANY_OBJECT})


def describe_approval(view: operators.Approval, method: str) -> Operation:
    body = schemas.body_schema(operators.Approval.Fields)
    return Operation("Approve the compensation plan with this digest", {200: COMPENSATION}, body=body, conflicts=True)


def describe_rollback(view: operators.Rollback, method: str) -> Operation:
    body = schemas.body_schema(operators.Rollback.Fields, reason=REASON)
    return Operation("Request the execution of the approved plan", {202: COMPENSATION}, body=body, conflicts=True)


def describe_drain(view: operators.Drain, method: str) -> Operation:
    response: dict[int, Schema | None] = {200: ref("Worker")}
    return Operation("Drain a worker", response, body=_empty_body(), body_is_optional=True, conflicts=True)


DESCRIPTIONS: dict[type, Any] = {
    operators.Compensation: describe_compensation,
    operators.Approval: describe_approval,
    operators.PauseRun: describe_pause,
    operators.ResumeRun: describe_resume,
    operators.Rollback: describe_rollback,
    operators.Drain: describe_drain,
    collections.Collection: describe_collection,
    collections.Detail: describe_detail,
    collections.Transitions: describe_transitions,
    collections.Explain: describe_explain,
    collections.Override: describe_override,
    collections.Waive: describe_waive,
    collections.Retry: describe_retry,
    collections.Renewal: describe_renewal,
    bulk.BulkTransitions: describe_bulk,
    bulk.Job: describe_job,
    bulk.Results: describe_results,
    records.Records: describe_records,
    records.Record: describe_record,
    agents.Submit: describe_submit,
    heartbeat.Heartbeat: describe_heartbeat,
    claims.Claim: describe_claim,
    agents.Acquire: describe_acquire,
    agents.Report: describe_report,
    agents.Checkpoint: describe_checkpoint,
    agents.Checkpoints: describe_checkpoints,
    agents.Resume: describe_job_resumption,
    agents.Attempts: describe_attempts,
    logs.Logs: describe_logs,
    artifacts.Inputs: describe_inputs,
    artifacts.Artifacts: describe_artifacts,
    artifacts.Artifact: describe_artifact,
    agents.JobEvents: describe_job_events,
}
