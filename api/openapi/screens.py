"""The calls of operators and screens, described."""

from __future__ import annotations

from typing import Any

from api.screens import board, journal, machines
from statecore.journal import EventKind
from statecore.kernel import registry
from statecore.kernel.moves import Severity
from statecore.records.alert import NOTE_LENGTH

from .call import Call
from .calls import CURSOR, SIZE, query
from .fields import ANY_OBJECT, MOMENT, Schema, nullable, text
from .schemas import COUNT, FLAG, REQUEST_ID, WORD, listed, obj, ref

NUMBER: Schema = {"type": "number"}
POSITION: Schema = {"type": "integer", "minimum": 0, "maximum": 10**18 - 1}


GIVEN: Schema = {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[^\\u0000]+$"}


def words(name: str, values: list[str] | None = None) -> Schema:
    each = {"type": "string", "enum": values} if values else GIVEN
    return query(name, {"type": "array", "items": each, "minItems": 1, "maxItems": 100})


def by_name(schema: Schema) -> Schema:
    return {"type": "object", "additionalProperties": schema}


def array(item: Schema) -> Schema:
    return {"type": "array", "items": item}


def entity_types() -> list[str]:
    return [flow.entity_type for flow in registry.flows()]


def machine() -> Schema:
    state = obj({"name": WORD, "terminal": FLAG, "deadline_seconds": nullable(NUMBER)})
    move = {"trigger": WORD, "sources": array(WORD), "target": WORD, "kind": WORD}
    moves = obj({**move, "guards": array(WORD), "actors": array(WORD)})
    plain = {"entity_type": WORD, "version": WORD, "initial": WORD}
    return obj({**plain, "states": array(state), "moves": array(moves)})


def of_machines(view: Any, method: str) -> Call:
    return Call("Every machine: its states, its moves, who may make them", {200: obj({"results": array(machine())})})


def of_machine(view: Any, method: str) -> Call:
    return Call("One machine", {200: machine()})


def of_drawing(view: Any, method: str) -> Call:
    counts = query("counts", FLAG, "With how many entities are in each state.")
    drawing = {"image/svg+xml": WORD}
    return Call("The machine as a drawing, light or dark", {200: None}, parameters=[counts], other_types=drawing)


def of_mermaid(view: Any, method: str) -> Call:
    return Call("The machine as a Mermaid state diagram", {200: None}, other_types={"text/plain": WORD})


def of_stats(view: Any, method: str) -> Call:
    shares = {"transitions_per_minute": NUMBER, "failure_rate": NUMBER, "override_rate": NUMBER}
    told = obj(
        {
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
                    "or_more": FLAG,
                }
            ),
            "alerts": obj({"open": COUNT, "critical": COUNT, "unacknowledged": COUNT}),
        }
    )
    return Call("Counts, rates, what is stuck and alerts in one cheap call", {200: told})


def of_stuck(view: Any, method: str) -> Call:
    item = {"entity_type": WORD, "id": WORD, "state": WORD, "kind": WORD, "since": MOMENT, "why": WORD}
    times = {"deadline_seconds": nullable(NUMBER), "overdue_seconds": NUMBER, "recovery": ANY_OBJECT}
    chosen = query("entity_type", {"type": "string", "enum": entity_types()})
    seen = {"acknowledged_by": nullable(WORD), "acknowledged_at": nullable(MOMENT)}
    told = listed(obj({**item, **times, **seen}))
    return Call("What is past its deadline or needs a decision", {200: told}, parameters=[chosen, CURSOR, SIZE])


def alert() -> Schema:
    plain = {"id": COUNT, "rule": WORD, "key": WORD, "severity": WORD, "detail": WORD, "facts": ANY_OBJECT}
    seen = {"acknowledged_by": nullable(WORD), "acknowledged_at": nullable(MOMENT), "note": nullable(WORD)}
    return obj({**plain, "opened_at": MOMENT, "resolved_at": nullable(MOMENT), **seen})


def of_alerts(view: Any, method: str) -> Call:
    before = query("before", POSITION, "Those with a lower id.")
    return Call(
        "Alerts, newest first",
        {200: listed(alert())},
        parameters=[query("open", FLAG), query("acknowledged", FLAG), before, SIZE],
    )


def of_acknowledge(view: Any, method: str) -> Call:
    body = obj({"note": text(NOTE_LENGTH), "request_id": REQUEST_ID}, [], closed=True)
    return Call("Take notice of an alert, as the first who does", {200: alert()}, body=body, body_is_optional=True)


def of_events(view: Any, method: str) -> Call:
    return Call(
        "Events in the order of their positions",
        {200: listed(obj({"position": COUNT, "event": ref("Event")}), retired_upto=COUNT)},
        parameters=[
            words("entity_type", entity_types()),
            words("entity"),
            words("run"),
            words("actor"),
            words("kind", list(EventKind.values)),
            words("severity", [*map(str, Severity)]),
            query("since", MOMENT),
            query("until", MOMENT),
            query("after", POSITION),
            query("before", POSITION),
            query("ordering", {"type": "string", "enum": ["position", "-position"]}),
            SIZE,
        ],
        description="With both `after` and `before` a stretch is read to its end. With `Accept: text/event-stream` "
        "events come as they happen, each with its position as its id; times, `before`, `ordering` and `page_size` are "
        "for the list alone, and refused there. Up to `retired_upto` they are in files by now: 0 for none.",
        retires=True,
        other_types={"text/event-stream": WORD},
    )


def of_overrides(view: Any, method: str) -> Call:
    more = obj({"position": COUNT, "held": FLAG, "left_by": nullable(ANY_OBJECT)})
    return Call(
        "What was forced, newest first, and whether it held",
        {200: listed({"allOf": [ref("Event"), more]})},
        parameters=[words("actor"), words("entity_type", entity_types()), query("before", POSITION), SIZE],
    )


def of_verify(view: Any, method: str) -> Call:
    finding = obj({"check": WORD, "severity": WORD, "entity_type": WORD, "entity_id": WORD, "detail": WORD})
    told = {"ok": FLAG, "scope": WORD, "position": COUNT, "head": COUNT, "next": nullable(WORD)}
    return Call(
        "Whether the journal verifies",
        {200: obj({**told, "findings": array(finding)})},
        parameters=[
            query("after", POSITION, f"Verify the {journal.STRETCH} positions that follow; `next` leads to the end."),
            query("entity_type", {"type": "string", "enum": entity_types()}),
            query("entity", GIVEN, "Verify the history of this one; `entity_type` names its machine."),
        ],
        description="Without a parameter: what moved last.",
    )


def of_run_at(view: Any, method: str) -> Call:
    member = obj(
        {"id": WORD, "state": WORD, "version": COUNT, "since": MOMENT, "workstream": WORD, "last_event": ANY_OBJECT},
        ["id", "state", "version", "since", "last_event"],
    )
    parts = {name: array(member) for name in ("workstreams", "tasks", "gates", "patches")}
    told = {"time": MOMENT, "run": member, "counts": by_name(by_name(COUNT)), **parts, "truncated": FLAG}
    moment = query("time", MOMENT, "Now, unless given.")
    return Call(
        "A run with all its parts as they were at a moment", {200: obj(told)}, parameters=[moment], retires=True
    )


DESCRIPTIONS: dict[type, Any] = {
    machines.Machines: of_machines,
    machines.Machine: of_machine,
    machines.Drawing: of_drawing,
    machines.Mermaid: of_mermaid,
    board.Stats: of_stats,
    board.Stuck: of_stuck,
    board.Alerts: of_alerts,
    board.Acknowledge: of_acknowledge,
    journal.Events: of_events,
    journal.Overrides: of_overrides,
    journal.Verify: of_verify,
    journal.RunAt: of_run_at,
}
