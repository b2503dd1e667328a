"""Descriptions of the monitoring calls, by view."""

from __future__ import annotations

from typing import Any

from statecore.api import approvals, holds
from statecore.api.monitoring import board, journal, machines, proofs
from statecore.journal import ENTITY_KINDS, event_names
from statecore.journal.accounts import Action
from statecore.kernel import registry
from statecore.kernel.transition import Severity
from statecore.records import hold
from statecore.records.alert import NOTE_LENGTH
from statecore.records.approval import COMMENT_LENGTH, Status

from .fields import ANY_OBJECT, ID, TIME, Schema, nullable, text
from .operation import Operation
from .operations import CURSOR, SIZE, query
from .schemas import (
    COUNT,
    FLAG,
    REQUEST_ID,
    STRING,
    body_schema,
    deprecated,
    obj,
    page_of,
    ref,
)

NUMBER: Schema = {"type": "number"}
POSITION: Schema = {"type": "integer", "minimum": 0, "maximum": 10**18 - 1}
RESUME: Schema = {"type": "string", "pattern": "^([1-9][0-9]{0,8}-)?[0-9]{1,18}$"}


TEXT_PARAM: Schema = {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[^\\u0000]+$"}


def repeatable(name: str, values: list[str] | None = None) -> Schema:
    each = {"type": "string", "enum": values} if values else TEXT_PARAM
    return query(name, {"type": "array", "items": each, "minItems": 1, "maxItems": 100})


def by_name(schema: Schema) -> Schema:
    return {"type": "object", "additionalProperties": schema}


def array(item: Schema) -> Schema:
    return {"type": "array", "items": item}


def entity_types() -> list[str]:
    return [flow.entity_type for flow in registry.flows()]


def machine() -> Schema:
    state = obj({"name": STRING, "terminal": FLAG, "deadline_seconds": nullable(NUMBER)})
    edge = {"trigger": STRING, "sources": array(STRING), "target": STRING, "kind": STRING}
    transitions = array(obj({**edge, "guards": array(STRING), "actors": array(STRING)}))
    plain = {"entity_type": STRING, "version": STRING, "initial": STRING, "states": array(state)}
    return obj({**plain, "transitions": transitions, "moves": deprecated(transitions, "transitions")})


def describe_machines(view: Any, method: str) -> Operation:
    return Operation("List all machines with states and transitions", {200: obj({"results": array(machine())})})


def describe_machine(view: Any, method: str) -> Operation:
    return Operation("Read a machine", {200: machine()})


def describe_svg(view: Any, method: str) -> Operation:
    counts = query("counts", FLAG, "Show the number of entities in each state.")
    drawing = {"image/svg+xml": STRING}
    return Operation(
        "Render a machine as SVG, for light or dark mode", {200: None}, parameters=[counts], other_types=drawing
    )


def describe_mermaid(view: Any, method: str) -> Operation:
    return Operation("Render a machine as a Mermaid state diagram", {200: None}, other_types={"text/plain": STRING})


def describe_stats(view: Any, method: str) -> Operation:
    shares = {"transitions_per_minute": NUMBER, "failure_rate": NUMBER, "override_rate": NUMBER}
    expiry = {"expires_at": nullable(TIME)}
    response = obj(
        {
            "epoch": COUNT,
            "position": COUNT,
            "counts": by_name(by_name(COUNT)),
            "rates": obj({"window_minutes": COUNT, **shares, "machines": by_name(obj(shares))}),
            "minutes": by_name(obj({"transitions": COUNT, "failures": COUNT, "overrides": COUNT})),
            "stuck": obj(
                {
                    "total": COUNT,
                    "machines": by_name(COUNT),
                    "waiting": by_name(COUNT),
                    "listed": COUNT,
                }
            ),
            "alerts": obj({"open": COUNT, "critical": COUNT, "unacknowledged": COUNT, "integrity": COUNT}),
            "holds": array(obj({**dict.fromkeys(("id", "scope", "reason", "created_by"), STRING), **expiry})),
        }
    )
    return Operation("Read counts, rates, overdue entities, alerts and active holds", {200: response})


def describe_stuck(view: Any, method: str) -> Operation:
    item = {"entity_type": STRING, "id": STRING, "state": STRING, "kind": STRING, "since": TIME, "why": STRING}
    times = {"deadline_seconds": nullable(NUMBER), "overdue_seconds": NUMBER, "recovery": ANY_OBJECT}
    chosen = query("entity_type", {"type": "string", "enum": entity_types()})
    acknowledgement = {"acknowledged_by": nullable(STRING), "acknowledged_at": nullable(TIME)}
    response = page_of(obj({**item, **times, **acknowledgement}))
    return Operation(
        "List entities that are overdue or need a decision", {200: response}, parameters=[chosen, CURSOR, SIZE]
    )


def alert() -> Schema:
    plain = {"id": COUNT, "rule": STRING, "key": STRING, "severity": STRING, "detail": STRING, "facts": ANY_OBJECT}
    acknowledgement = {"acknowledged_by": nullable(STRING), "acknowledged_at": nullable(TIME), "note": nullable(STRING)}
    return obj({**plain, "opened_at": TIME, "resolved_at": nullable(TIME), **acknowledgement})


def describe_alerts(view: Any, method: str) -> Operation:
    before = query("before", POSITION, "Return alerts with a lower id.")
    return Operation(
        "List alerts, newest first",
        {200: page_of(alert())},
        parameters=[query("open", FLAG), query("acknowledged", FLAG), before, SIZE],
    )


def describe_acknowledge(view: Any, method: str) -> Operation:
    body = obj({"note": text(NOTE_LENGTH), "request_id": REQUEST_ID}, [], closed=True)
    return Operation("Acknowledge an alert", {200: alert()}, body=body, body_is_optional=True)


def describe_events(view: Any, method: str) -> Operation:
    return Operation(
        "List events by position",
        {200: page_of(obj({"position": COUNT, "event": ref("Event")}), archived_upto=COUNT, epoch=COUNT)},
        parameters=[
            repeatable("entity_type", entity_types()),
            repeatable("entity"),
            repeatable("run"),
            repeatable("actor"),
            repeatable("kind", ENTITY_KINDS),
            repeatable("severity", [*map(str, Severity)]),
            repeatable("from_state"),
            repeatable("to_state"),
            repeatable("event_name", event_names.list_names()),
            query("since", TIME),
            query("until", TIME),
            query("after", RESUME, "A position of the current epoch, or `EPOCH-POSITION`."),
            query("before", POSITION),
            query("ordering", {"type": "string", "enum": ["position", "-position"]}),
            SIZE,
        ],
        description="With both `after` and `before`, the range between them is read. With `Accept: text/event-stream`, "
        "events are sent as they happen, and the id of each is `EPOCH-POSITION`; the stream does not support `since`, "
        "`until`, `before`, `ordering` and `page_size`. A position that a failover or a restore lost is refused as "
        "`epoch_ended`; a stream sends `resnapshot` instead, with the reason `epoch`. Events up to the position "
        "`archived_upto` are archived; 0 means none.",
        conflicts=True,
        may_be_archived=True,
        other_types={"text/event-stream": STRING},
    )


def describe_account_entries(view: Any, method: str) -> Operation:
    return Operation(
        "List the account journal, newest first",
        {200: page_of(obj({"position": COUNT, "event": ref("Event")}), archived_upto=COUNT)},
        parameters=[
            repeatable("account"),
            repeatable("actor"),
            repeatable("action", list(Action.values)),
            query("since", TIME),
            query("until", TIME),
            query("before", POSITION, "Return entries with a lower position."),
            SIZE,
        ],
        description="Logins, and changes of accounts, rights, second factors, tokens and displays. `account` is a user "
        "(`user:7` or the current name), a group (`group:3`), `system`, or `unknown` for logins with a name that no "
        "account has. The `trigger` of an entry is its action, `context` has the name of the account and the address "
        "of the caller. Requires the permission `view_accounts`. An entry is proved like any other event.",
    )


def describe_epochs(view: Any, method: str) -> Operation:
    event = {"position": COUNT, "event_id": STRING, "entity_type": STRING, "entity_id": STRING, "trigger": STRING}
    people = {"actor": STRING, "actor_kind": STRING, "timestamp": TIME}
    counts = {"first": COUNT, "last": COUNT, "count": COUNT, "reports": COUNT, "decisions": COUNT}
    lost = obj(
        {**counts, "events": {"type": "array", "items": obj({**event, **people})}, "file": STRING, "sha256": STRING}
    )
    plain = {"epoch": COUNT, "reason": STRING, "started_at": TIME, "kept": COUNT, "event_id": STRING}
    return Operation(
        "List the epochs of the journal, newest first",
        {200: page_of(obj({**plain, "lost": nullable(lost)}), epoch=COUNT)},
        description="A failover to a replica that lacks the last events, or a restore, begins an epoch. `kept` is the "
        "last position that it shares with the one before, `lost` the events after it as far as a copy was found: the "
        "first 200 of them, of machines that the caller may see, and how many were confirmed reports of agents and "
        "decisions of operators.",
    )


def describe_overrides(view: Any, method: str) -> Operation:
    more = obj({"position": COUNT, "held": FLAG, "left_by": nullable(ANY_OBJECT)})
    return Operation(
        "List overrides, newest first, and whether they are still in effect",
        {200: page_of({"allOf": [ref("Event"), more]})},
        parameters=[repeatable("actor"), repeatable("entity_type", entity_types()), query("before", POSITION), SIZE],
    )


def describe_approvals(view: Any, method: str) -> Operation:
    status = query("status", {"type": "string", "enum": list(Status.values)})
    before = query("before", ID, "Return requests with a lower id.")
    return Operation(
        "List requests for approval, newest first",
        {200: page_of(ref("Approval"))},
        parameters=[status, repeatable("entity_type", entity_types()), repeatable("entity"), before, SIZE],
    )


def describe_approval(view: Any, method: str) -> Operation:
    return Operation("Read a request for approval with its decision", {200: ref("Approval")})


def describe_approve(view: Any, method: str) -> Operation:
    caused, entity = array(ref("Event")), ANY_OBJECT
    response = {"changed": FLAG, "event": ref("Event"), "caused": caused, "entity": entity, "approval": ref("Approval")}
    return Operation(
        "Approve a request, which executes the override",
        {200: obj(response)},
        body=body_schema(approvals.Decision.Fields, comment=text(COMMENT_LENGTH)),
        body_is_optional=True,
        conflicts=True,
        description="From another account than the request, with the permission to override the machine and, if the "
        "policy names a group, as a member of it. An entity that changed since the request is refused.",
    )


def describe_deny(view: Any, method: str) -> Operation:
    return Operation(
        "Deny a request",
        {200: obj({"approval": ref("Approval")})},
        body=body_schema(approvals.Decision.Fields, comment=text(COMMENT_LENGTH)),
        body_is_optional=True,
        conflicts=True,
    )


def describe_holds(view: Any, method: str) -> Operation:
    if method == "GET":
        status = query("status", {"type": "string", "enum": list(hold.Status.values)})
        before = query("before", ID, "Return holds with a lower id.")
        return Operation("List holds, newest first", {200: page_of(ref("Hold"))}, parameters=[status, before, SIZE])
    reason = {**text(hold.REASON_LENGTH), "minLength": 1}
    return Operation(
        "Hold work: no task within the scope is claimed until the hold ends",
        {201: ref("Hold")},
        body=body_schema(holds.Holds.Fields, scope=SCOPE, reason=reason, expires_at=nullable(TIME)),
        description="The scope is `everything`, `phase:ID`, `run:ID`, `capability:NAME` or `tool:NAME`. Running tasks "
        "continue and report. Without `expires_at` the hold lasts until it is released.",
    )


SCOPE: Schema = {"type": "string", "pattern": "^(everything|(phase|run|capability|tool):[^\\u0000]+)$"}


def describe_hold(view: Any, method: str) -> Operation:
    return Operation("Read one hold", {200: ref("Hold")})


def describe_release(view: Any, method: str) -> Operation:
    reason = {**text(hold.REASON_LENGTH), "minLength": 1}
    return Operation(
        "Release a hold",
        {200: ref("Hold")},
        body=body_schema(holds.Release.Fields, reason=reason),
        conflicts=True,
    )


def describe_verify(view: Any, method: str) -> Operation:
    finding = obj({"check": STRING, "severity": STRING, "entity_type": STRING, "entity_id": STRING, "detail": STRING})
    response = {"ok": FLAG, "scope": STRING, "position": COUNT, "head": COUNT, "next": nullable(STRING)}
    return Operation(
        "Verify the journal",
        {200: obj({**response, "findings": array(finding)})},
        parameters=[
            query("after", POSITION, f"Verify the next {journal.RANGE_SIZE} positions; follow `next` to the end."),
            query("entity_type", {"type": "string", "enum": entity_types()}),
            query("entity", TEXT_PARAM, "Verify the history of this entity; requires `entity_type`."),
        ],
        description="Without parameters, the recently changed entities are verified.",
    )


def describe_key(view: Any, method: str) -> Operation:
    response = obj({"name": STRING, "algorithm": {"const": "ed25519"}, "verifier_key": STRING})
    return Operation("Read the public key of the journal", {200: response})


def describe_checkpoint(view: Any, method: str) -> Operation:
    return Operation(
        "Read the newest signed checkpoint",
        {200: None},
        description="A signed note: the name of the journal, the number of positions, the root of the tree in base64, "
        "a line `epoch N`, an empty line, the signature of the journal and the cosignatures of witnesses.",
        other_types={"text/plain": STRING},
    )


def describe_proof(view: Any, method: str) -> Operation:
    response = {"position": COUNT, "epoch": COUNT, "body": STRING, "leaf_hash": STRING, "inclusion": array(STRING)}
    return Operation(
        "Prove that an event is in the journal",
        {200: obj({**response, "checkpoint": STRING})},
        parameters=[query("event", TEXT_PARAM, "The id of the event.") | {"required": True}],
        description="`body` has the canonical bytes of the event. `statecore verify` checks the proof with the public "
        "key only. The newest events are refused with `not_signed` until the next checkpoint, a few seconds later.",
        conflicts=True,
        may_be_archived=True,
    )


def describe_consistency(view: Any, method: str) -> Operation:
    return Operation(
        "Prove that the journal only grew between two sizes",
        {200: obj({"first": COUNT, "second": COUNT, "proof": array(STRING)})},
        parameters=[
            query("first", POSITION, "The size in the older checkpoint.") | {"required": True},
            query("second", POSITION, "The size in the newer checkpoint.") | {"required": True},
        ],
    )


def describe_witnesses(view: Any, method: str) -> Operation:
    witness = {"name": STRING, "verifier_key": STRING, "size": COUNT, "cosigned_at": nullable(TIME), "silent": FLAG}
    return Operation(
        "List the witnesses and what they have cosigned",
        {200: obj({"results": array(obj(witness))})},
        description="The witnesses are those in `STATECORE_WITNESSES`. `silent` is true if a witness has cosigned "
        "nothing for `STATECORE_WITNESS_SECONDS`.",
    )


def describe_cosignatures(view: Any, method: str) -> Operation:
    return Operation(
        "Store the cosignature of a witness",
        {200: obj({"size": COUNT, "signed_at": TIME, "witnesses": array(STRING)})},
        body=body_schema(proofs.Cosignatures.Fields),
        description="`checkpoint` is the text of `audit/checkpoint/`, `cosignature` a signature line as C2SP "
        "`tlog-cosignature` defines it. The key of the witness must be in `STATECORE_WITNESSES`. A token of scope "
        "`read` is enough, because the cosignature authorises the call.",
    )


def describe_run_at(view: Any, method: str) -> Operation:
    member = obj(
        {
            "id": STRING,
            "state": STRING,
            "version": COUNT,
            "since": TIME,
            "workstream": STRING,
            "last_event": ANY_OBJECT,
        },
        ["id", "state", "version", "since", "last_event"],
    )
    parts = {name: array(member) for name in ("workstreams", "tasks", "gates", "patches")}
    response = {"time": TIME, "run": member, "counts": by_name(by_name(COUNT)), **parts, "truncated": FLAG}
    time = query("time", TIME, "The current time by default.")
    return Operation(
        "Read a run with all its parts at a past time", {200: obj(response)}, parameters=[time], may_be_archived=True
    )


DESCRIPTIONS: dict[type, Any] = {
    machines.Machines: describe_machines,
    machines.Machine: describe_machine,
    machines.SvgDiagram: describe_svg,
    machines.MermaidDiagram: describe_mermaid,
    board.Stats: describe_stats,
    board.Stuck: describe_stuck,
    board.Alerts: describe_alerts,
    board.Acknowledge: describe_acknowledge,
    journal.Events: describe_events,
    journal.AccountEntries: describe_account_entries,
    journal.Epochs: describe_epochs,
    journal.Overrides: describe_overrides,
    approvals.Approvals: describe_approvals,
    approvals.Approval: describe_approval,
    approvals.Approve: describe_approve,
    approvals.Deny: describe_deny,
    holds.Holds: describe_holds,
    holds.Hold: describe_hold,
    holds.Release: describe_release,
    journal.Verify: describe_verify,
    proofs.Key: describe_key,
    proofs.NewestCheckpoint: describe_checkpoint,
    proofs.Proof: describe_proof,
    proofs.Consistency: describe_consistency,
    proofs.Witnesses: describe_witnesses,
    proofs.Cosignatures: describe_cosignatures,
    journal.RunAt: describe_run_at,
}
