"""Plans: a whole run in one call and one transaction, checked before anything is kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db import connection

from .. import door
from ..door import Outcome, RequestKey, rights, rows
from ..door.create import write_many
from ..door.idempotency import answer_once
from ..door.perform import perform, react_to
from ..door.refused import counted
from ..door.successors import newest
from ..journal import Entry
from ..kernel.actors import Actor
from ..kernel.clock import now
from ..kernel.entity import Entity
from ..kernel.many import among, listed
from ..kernel.moves import Facts
from ..kernel.refusals import Invalid
from ..kernel.ulid import is_valid_id, new_id
from ..machines.run import Run
from ..machines.task import Task
from ..machines.test_gate import TestGate
from ..machines.workstream import Workstream
from .circles import circle

MOST = 100_000  # entities in one plan


class Submitted(Outcome):
    """The run, and how much of a plan it is; the events of a large plan would be a large answer."""

    __slots__ = ()

    def as_dict(self) -> dict[str, Any]:
        return self.answer


@dataclass
class Plan:
    """What a plan asks for, by machine and id, with the place in the plan each came from."""

    run: dict[str, Any]
    workstreams: dict[str, dict[str, Any]] = field(default_factory=dict)
    gates: dict[str, dict[str, Any]] = field(default_factory=dict)
    tasks: dict[str, dict[str, Any]] = field(default_factory=dict)
    places: dict[tuple[str, str], str] = field(default_factory=dict)
    errors: dict[str, list[str]] = field(default_factory=dict)
    # Gates that were there before the plan.
    outside: set[str] = field(default_factory=set)
    entities: int = 0

    def complain(self, place: str, sentence: str) -> None:
        self.errors.setdefault(place, []).append(sentence)


def submit(plan: Mapping[str, Any], *, actor: Actor, request: RequestKey | None = None) -> Outcome:
    """Keep all of a plan or nothing of it, and start it if it says so."""

    def step() -> Outcome:
        return _write(wanted, actor, starts=starts)

    with counted(Run.flow.entity_type):
        for model in (Run, Workstream, TestGate, Task):
            rights.require(actor, model.flow, "operate")
        starts = _starts(plan)
        wanted = read(plan)
        return perform(lambda: answer_once(request, actor, step))


def _starts(plan: Mapping[str, Any]) -> bool:
    if not isinstance(plan, Mapping):
        raise Invalid({"plan": ["must be an object."]})
    starts = plan.get("start", False)
    if not isinstance(starts, bool):
        raise Invalid({"start": ["must be true or false."]})
    return starts


# Reading


def read(plan: Mapping[str, Any]) -> Plan:
    """The plan, if it holds together: every id there, none twice, no circle; else what is wrong, by place."""
    known = {"id", "phase", "metadata", "workstreams", "gates", "start"}
    found = Plan({name: plan[name] for name in ("id", "phase", "metadata") if name in plan})
    for name in sorted(plan.keys() - known):
        found.complain(name, "is not a member of a plan.")
    if found.run.get("id") is not None and not is_valid_id(found.run["id"]):
        found.complain("id", NOT_AN_ID)
    for place, workstream in _objects(found, "workstreams", plan.get("workstreams")):
        _read_workstream(found, place, workstream)
    for place, gate in _objects(found, "gates", plan.get("gates", [])):
        _take(found, found.gates, "gate", place, gate, {})
    if not found.workstreams and not found.errors:
        found.complain("workstreams", "must hold at least one workstream.")
    _check_links(found)
    if not found.errors:
        _check_circles(found)
    if found.errors:
        raise Invalid(found.errors)
    return found


def _objects(plan: Plan, place: str, given: object) -> Iterable[tuple[str, Mapping[str, Any]]]:
    if not isinstance(given, list):
        plan.complain(place, "must be a list.")
        return
    plan.entities += len(given)
    if plan.entities > MOST:
        raise Invalid({"plan": [f"must hold at most {MOST} entities in all."]})
    for number, each in enumerate(given):
        if isinstance(each, Mapping):
            yield f"{place}[{number}]", each
        else:
            plan.complain(f"{place}[{number}]", "must be an object.")


def _read_workstream(plan: Plan, place: str, given: Mapping[str, Any]) -> None:
    fields = {name: value for name, value in given.items() if name not in ("tasks", "gates")}
    workstream_id = _take(plan, plan.workstreams, "workstream", place, fields, {})
    tasks = list(_objects(plan, f"{place}.tasks", given.get("tasks")))
    gates = list(_objects(plan, f"{place}.gates", given.get("gates", [])))
    if not tasks:
        plan.complain(f"{place}.tasks", "must hold at least one task.")
    if workstream_id is None:
        return
    plan.workstreams[workstream_id]["expected_tasks"] = len(tasks)
    for task_place, task in tasks:
        _take(plan, plan.tasks, "task", task_place, task, {"workstream": workstream_id})
    for gate_place, gate in gates:
        _take(plan, plan.gates, "gate", gate_place, gate, {"workstream": workstream_id})


NOT_AN_ID = "must be 1 to 64 of A-Z a-z 0-9 . _ : -"
SAID_BY_ITS_PLACE = ("run", "workstream", "state")


def _take(
    plan: Plan,
    into: dict[str, dict[str, Any]],
    noun: str,
    place: str,
    given: Mapping[str, Any],
    parent: Mapping[str, Any],
) -> str | None:
    for name in SAID_BY_ITS_PLACE:
        if name in given:
            plan.complain(f"{place}.{name}", "is not given: a new plan says it by itself.")
    entity_id = given.get("id")
    if not is_valid_id(entity_id):
        plan.complain(f"{place}.id", NOT_AN_ID)
        return None
    entity_id = str(entity_id)
    if entity_id in into:
        plan.complain(f"{place}.id", f"{noun} {entity_id} is at {plan.places[noun, entity_id]} already.")
        return None
    plan.places[noun, entity_id] = place
    into[entity_id] = {**{name: value for name, value in given.items() if name != "id"}, **parent}
    return entity_id


def _check_links(plan: Plan) -> None:
    """Every id that something depends on is in the plan; a gate may also be one that is there already."""
    named = {each for task in plan.tasks.values() for name in ("gates", "entry_gates") for each in _ids(task.get(name))}
    named |= {each for gate in plan.gates.values() for each in _ids(gate.get("depends_on"))}
    plan.outside = _column("id", named - plan.gates.keys())
    gates = plan.gates.keys() | plan.outside
    for noun, new, links in (
        ("workstream", plan.workstreams, {"depends_on": plan.workstreams.keys()}),
        ("task", plan.tasks, {"depends_on": plan.tasks.keys(), "gates": gates, "entry_gates": gates}),
        ("gate", plan.gates, {"depends_on": gates}),
    ):
        for entity_id, fields in new.items():
            for name, allowed in links.items():
                place = f"{plan.places[noun, entity_id]}.{name}"
                _check_link(plan, place, "gate" if "gates" in name else noun, fields, name, allowed)


def _check_link(plan: Plan, place: str, noun: str, fields: dict[str, Any], name: str, allowed: Any) -> None:
    given = fields.get(name, [])
    if not isinstance(given, list) or not all(is_valid_id(each) for each in given):
        plan.complain(place, "must be a list of ids.")
    elif missing := [each for each in given if each not in allowed]:
        plan.complain(place, f"there is no {noun} {', '.join(missing)} in this plan.")
    elif name in fields:
        fields[name] = list(dict.fromkeys(given))


def _column(column: str, ids: Collection[str]) -> set[str]:
    """The values of a column of gates that are among these, as one parameter: there may be a hundred thousand."""
    if not ids:
        return set()
    table, vendor = TestGate._meta.db_table, connection.vendor
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT {column} FROM {table} WHERE {column} {among(vendor, len(ids))}", [listed(sorted(ids), vendor)]
        )
        return {value for (value,) in cursor.fetchall()}


def _ids(given: object) -> set[str]:
    return {each for each in given if is_valid_id(each)} if isinstance(given, list) else set()


Step = tuple[str, str]  # what has to happen, and to whom


def _check_circles(plan: Plan) -> None:
    """Whoever waits for itself never begins, or never ends."""
    waits: dict[Step, list[Step]] = {}
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
    for gate_id, task_id in _tested_alone(plan).items():
        waits["gate", gate_id].append(("work", task_id))
    if found := circle(waits):
        plan.complain("plan", f"cycle: {' → '.join(_steps(found))}")


def _tested_alone(plan: Plan) -> dict[str, str]:
    """Gates that have their turn when one task has done its work. Where several tasks name one, any of them will do."""
    exits = [(gate, task_id) for task_id, fields in plan.tasks.items() for gate in fields.get("gates", ())]
    named = Counter(gate for gate, _task_id in exits)
    named.update(gate for fields in plan.tasks.values() for gate in fields.get("entry_gates", ()))
    return {gate: task_id for gate, task_id in exits if named[gate] == 1 and gate in plan.gates}


SAME = {("end", "begin"), ("done", "work")}


def _steps(path: list[Step]) -> list[str]:
    """The names along a circle; the end of something, which waits for its own begin, is one step with it."""
    pairs = zip([("", ""), *path], path, strict=False)
    return [name for (before, last), (what, name) in pairs if last != name or (before, what) not in SAME]


# Writing


def _follow_successors(plan: Plan) -> None:
    """What was run again is answered for by its successor. Locked: who retries one now leads us on afterwards."""
    if not plan.outside:
        return
    rows.lock_many(TestGate, sorted(plan.outside))
    heirs = {pk: newest(TestGate, pk) for pk in _column("retry_of_id", plan.outside)}
    for new, links in ((plan.tasks, ("gates", "entry_gates")), (plan.gates, ("depends_on",))):
        for fields in new.values() if heirs else ():
            for name in links:
                if name in fields:
                    fields[name] = list(dict.fromkeys(heirs.get(each, each) for each in fields[name]))


def _write(plan: Plan, actor: Actor, *, starts: bool) -> Outcome:
    _follow_successors(plan)
    run_id = plan.run.get("id") or new_id(Run.flow.prefix)
    facts = Facts(now(), actor, {}, "")
    fields = {name: value for name, value in plan.run.items() if name != "id"}
    (run,) = changes = write_many(Run, {run_id: fields}, facts, None)
    parents: dict[str, Entity] = {}
    workstreams = {pk: {**fields, "run": run.entity} for pk, fields in plan.workstreams.items()}
    for change in (made := _make(Workstream, workstreams, plan, facts, run.entry)):
        parents[change.entity.pk] = change.entity
    changes += made
    changes += _make(
        TestGate, {pk: _inside(gate, parents, plan) for pk, gate in plan.gates.items()}, plan, facts, run.entry
    )
    changes += _make(
        Task, {pk: _inside(task, parents, plan) for pk, task in plan.tasks.items()}, plan, facts, run.entry
    )
    react_to(changes)
    entity = run.entity
    if starts:
        entity = door.transition(Run, run_id, "run_started", actor=actor).entity or entity
    counts = {"workstreams": len(plan.workstreams), "tasks": len(plan.tasks), "gates": len(plan.gates)}
    return Submitted(entity, run.entry, answer={"changed": True, "entity": entity.as_dict(), **counts})


def _inside(fields: dict[str, Any], parents: dict[str, Entity], plan: Plan) -> dict[str, Any]:
    """With the workstream itself, so that nobody has to look for it."""
    if "workstream" in fields:
        return {**fields, "workstream": parents[fields["workstream"]]}
    return {"phase": plan.run.get("phase"), **fields}


NOUNS = {Workstream: "workstream", TestGate: "gate", Task: "task"}


def _make(model: type[Entity], new: dict[str, dict[str, Any]], plan: Plan, facts: Facts, cause: Entry) -> Any:
    try:
        return write_many(model, new, facts, cause)
    except Invalid as refusal:
        place = plan.places.get((NOUNS[model], str(refusal.facts.get("id"))), "plan")
        errors = {f"{place}.{name}": said for name, said in refusal.facts["errors"].items()}
        raise Invalid(errors) from refusal
