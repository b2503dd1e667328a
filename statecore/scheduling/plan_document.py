"""Plan documents: parsing and validation before anything is stored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db import connection

from ..kernel.ids import is_valid_id
from ..kernel.refusals import Invalid
from ..machines.test_gate import TestGate
from ..records.webhook_address import url_error
from ..storage.sql_params import in_clause, in_param
from .cycles import find_cycle

MAX_ENTITIES = 100_000
RUN_FIELDS = ("id", "phase", "on_failure", "metadata", "max_parallel", "weight", "not_before")
KEYS = {*RUN_FIELDS, "workstreams", "gates", "start", "max_repairs", "webhook"}
IMPLIED = ("run", "workstream", "state")
INVALID_ID = "must be 1 to 64 of A-Z a-z 0-9 . _ : -"


@dataclass
class Plan:
    """The fields of a plan's entities by id. `places` has the place of each in the document, such as `gates[0]`."""

    run: dict[str, Any]
    workstreams: dict[str, dict[str, Any]] = field(default_factory=dict)
    gates: dict[str, dict[str, Any]] = field(default_factory=dict)
    tasks: dict[str, dict[str, Any]] = field(default_factory=dict)
    # Fields of its workstreams and tasks that they do not give themselves.
    defaults: dict[str, Any] = field(default_factory=dict)
    places: dict[tuple[str, str], str] = field(default_factory=dict)
    errors: dict[str, list[str]] = field(default_factory=dict)
    # Gates that existed before the plan.
    existing_gates: set[str] = field(default_factory=set)
    entities: int = 0
    max_entities: int = MAX_ENTITIES

    def add_error(self, place: str, sentence: str) -> None:
        self.errors.setdefault(place, []).append(sentence)


def read_plan(document: Mapping[str, Any], max_entities: int) -> Plan:
    """Return the plan if it is consistent: ids are unique, links lead to known entities, there is no cycle.

    Raises Invalid with all errors by place.
    """
    run = {name: document[name] for name in RUN_FIELDS if name in document}
    plan = Plan(run, max_entities=max_entities)
    _check_run(plan, document)
    if "max_repairs" in document:
        plan.defaults["max_repairs"] = document["max_repairs"]
    for place, workstream in _read_objects(plan, "workstreams", document.get("workstreams")):
        _read_workstream(plan, place, workstream)
    for place, gate in _read_objects(plan, "gates", document.get("gates", [])):
        _add(plan, plan.gates, "gate", place, gate, {})
    if not plan.workstreams and not plan.errors:
        plan.add_error("workstreams", "must hold at least one workstream.")
    _check_links(plan)
    if not plan.errors:
        _check_cycles(plan)
    if plan.errors:
        raise Invalid(plan.errors)
    return plan


def _check_run(plan: Plan, document: Mapping[str, Any]) -> None:
    for name in sorted(document.keys() - KEYS):
        plan.add_error(name, "is not a member of a plan.")
    if plan.run.get("id") is not None and not is_valid_id(plan.run["id"]):
        plan.add_error("id", INVALID_ID)
    if not isinstance(plan.run.get("metadata", {}), Mapping):
        plan.add_error("metadata", "must be an object.")
    if (url := document.get("webhook")) is not None and (error := url_error(url)):
        plan.add_error("webhook", error)


def _read_objects(plan: Plan, place: str, given: object) -> Iterable[tuple[str, Mapping[str, Any]]]:
    if not isinstance(given, list):
        plan.add_error(place, "must be a list.")
        return
    plan.entities += len(given)
    if plan.entities > plan.max_entities:
        raise Invalid({"plan": [f"must hold at most {plan.max_entities} entities in all."]})
    for number, each in enumerate(given):
        if isinstance(each, Mapping):
            yield f"{place}[{number}]", each
        else:
            plan.add_error(f"{place}[{number}]", "must be an object.")


def _read_workstream(plan: Plan, place: str, given: Mapping[str, Any]) -> None:
    fields = {name: value for name, value in given.items() if name not in ("tasks", "gates")}
    workstream_id = _add(plan, plan.workstreams, "workstream", place, {**plan.defaults, **fields}, {})
    tasks = list(_read_objects(plan, f"{place}.tasks", given.get("tasks")))
    gates = list(_read_objects(plan, f"{place}.gates", given.get("gates", [])))
    if not tasks:
        plan.add_error(f"{place}.tasks", "must hold at least one task.")
    if workstream_id is None:
        return
    plan.workstreams[workstream_id]["expected_tasks"] = len(tasks)
    for task_place, task in tasks:
        _add(plan, plan.tasks, "task", task_place, {**plan.defaults, **task}, {"workstream": workstream_id})
    for gate_place, gate in gates:
        _add(plan, plan.gates, "gate", gate_place, gate, {"workstream": workstream_id})


def _add(
    plan: Plan,
    entities: dict[str, dict[str, Any]],
    noun: str,
    place: str,
    given: Mapping[str, Any],
    parent: Mapping[str, Any],
) -> str | None:
    """Add an entity and return its id; None, with an error, if the id is invalid or a duplicate."""
    for name in IMPLIED:
        if name in given:
            plan.add_error(f"{place}.{name}", "must be omitted: the plan implies it.")
    entity_id = given.get("id")
    if not is_valid_id(entity_id):
        plan.add_error(f"{place}.id", INVALID_ID)
        return None
    entity_id = str(entity_id)
    if entity_id in entities:
        plan.add_error(f"{place}.id", f"{noun} {entity_id} is already defined at {plan.places[noun, entity_id]}.")
        return None
    plan.places[noun, entity_id] = place
    entities[entity_id] = {**{name: value for name, value in given.items() if name != "id"}, **parent}
    return entity_id


# Links


def _check_links(plan: Plan) -> None:
    """Add an error for each linked id that is not in the plan; a gate may also be one that exists already."""
    linked = {
        gate
        for task in plan.tasks.values()
        for name in ("gates", "entry_gates")
        for gate in _select_valid_ids(task.get(name))
    }
    linked |= {other for gate in plan.gates.values() for other in _select_valid_ids(gate.get("depends_on"))}
    plan.existing_gates = select_gate_values("id", linked - plan.gates.keys())
    gates = plan.gates.keys() | plan.existing_gates
    for noun, entities, links in (
        ("workstream", plan.workstreams, {"depends_on": plan.workstreams.keys()}),
        ("task", plan.tasks, {"depends_on": plan.tasks.keys(), "gates": gates, "entry_gates": gates}),
        ("gate", plan.gates, {"depends_on": gates}),
    ):
        for entity_id, fields in entities.items():
            for name, known in links.items():
                place = f"{plan.places[noun, entity_id]}.{name}"
                _check_link(plan, place, "gate" if "gates" in name else noun, fields, name, known)


def _check_link(plan: Plan, place: str, noun: str, fields: dict[str, Any], name: str, known: Any) -> None:
    given = fields.get(name, [])
    if not isinstance(given, list) or not all(is_valid_id(each) for each in given):
        plan.add_error(place, "must be a list of ids.")
    elif missing := [each for each in given if each not in known]:
        plan.add_error(place, f"there is no {noun} {', '.join(missing)} in this plan.")
    elif name in fields:
        fields[name] = list(dict.fromkeys(given))


def select_gate_values(column: str, values: Collection[str]) -> set[str]:
    """Return the values that occur in a column of gates. They are one parameter, because there may be 100,000."""
    if not values:
        return set()
    table, vendor = TestGate._meta.db_table, connection.vendor
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT {column} FROM {table} WHERE {column} {in_clause(vendor, len(values))}",
            [in_param(sorted(values), vendor)],
        )
        return {value for (value,) in cursor.fetchall()}


def _select_valid_ids(given: object) -> set[str]:
    return {each for each in given if is_valid_id(each)} if isinstance(given, list) else set()


# Cycles

# A moment in the life of an entity that others can wait for: its kind and the entity id, e.g. ("begin", workstream id).
Milestone = tuple[str, str]
# Kinds of milestones of one entity that follow each other. An error names the entity once for both.
SAME_ENTITY = {("end", "begin"), ("done", "work")}


def _check_cycles(plan: Plan) -> None:
    if cycle := find_cycle(_build_dependencies(plan)):
        pairs = zip([("", ""), *cycle], cycle, strict=False)
        names = [name for (before, last), (kind, name) in pairs if last != name or (before, kind) not in SAME_ENTITY]
        plan.add_error("plan", f"cycle: {' → '.join(names)}")


def _build_dependencies(plan: Plan) -> dict[Milestone, list[Milestone]]:
    """Return the milestones that each milestone waits for."""
    waits: dict[Milestone, list[Milestone]] = {}
    for workstream_id, fields in plan.workstreams.items():
        waits["begin", workstream_id] = [("end", other) for other in fields.get("depends_on", ())]
        waits["end", workstream_id] = [("begin", workstream_id)]
    for task_id, fields in plan.tasks.items():
        waits["work", task_id] = [
            ("begin", fields["workstream"]),
            *(("done", other) for other in fields.get("depends_on", ())),
            *(("gate", gate) for gate in fields.get("entry_gates", ())),
        ]
        waits["done", task_id] = [("work", task_id), *(("gate", gate) for gate in fields.get("gates", ()))]
        waits["end", fields["workstream"]].append(("done", task_id))
    for gate_id, fields in plan.gates.items():
        waits["gate", gate_id] = [("gate", other) for other in fields.get("depends_on", ())]
        if "workstream" in fields:
            waits["end", fields["workstream"]].append(("gate", gate_id))
    for gate_id, task_id in _find_gates_of_one_task(plan).items():
        waits["gate", gate_id].append(("work", task_id))
    return waits


def _find_gates_of_one_task(plan: Plan) -> dict[str, str]:
    """Return the gates that wait for the work of one task. A gate of several tasks runs after any of them."""
    exits = [(gate, task_id) for task_id, fields in plan.tasks.items() for gate in fields.get("gates", ())]
    uses = Counter(gate for gate, _task_id in exits)
    uses.update(gate for fields in plan.tasks.values() for gate in fields.get("entry_gates", ()))
    return {gate: task_id for gate, task_id in exits if uses[gate] == 1 and gate in plan.gates}
