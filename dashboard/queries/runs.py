"""A run with its parts and links, and its journal to replay it from; both bounded."""

from __future__ import annotations

from typing import Any

from django.db.models import CharField, Value

from statecore.kernel.entity import Entity
from statecore.machines.patch_ledger import PatchLedger
from statecore.machines.run import Run
from statecore.machines.task import Task
from statecore.machines.test_gate import TestGate
from statecore.machines.workstream import Workstream
from statecore.records import Anchor, Position
from statecore.records.retirement import anchors_of

PARTS: tuple[type[Entity], ...] = (Workstream, Task, TestGate, PatchLedger)
MOST_PARTS = 1_500  # more than anybody can read in one picture
MOST_EVENTS = 20_000


def parts(run: Run) -> dict[str, Any]:
    """What is drawn: the parts, who belongs to which workstream, and who waits for whom."""
    rows = list(_nodes(run)[: MOST_PARTS + 1])
    nodes = [
        {"type": kind, "id": pk, "state": state, "parent": parent} for kind, pk, state, parent in rows[:MOST_PARTS]
    ]
    known = {(node["type"], node["id"]) for node in nodes}
    edges = [
        {"from_type": from_type, "from": source, "type": to_type, "to": target}
        for from_type, source, to_type, target in _edges(run)[: 4 * MOST_PARTS]
        if {(from_type, source), (to_type, target)} <= known
    ]
    return {"nodes": nodes, "edges": edges, "more": len(rows) > MOST_PARTS}


def _nodes(run: Run) -> Any:
    """Of all machines in one question, workstreams first: they are drawn around the others."""
    first, *others = [
        model.objects.filter(run=run).values_list(
            _word(model.flow.entity_type), "pk", "state", _word("") if model is Workstream else "workstream_id"
        )
        for model in PARTS
    ]
    return first.union(*others, all=True)


def _word(text: str) -> Value:
    return Value(text, output_field=CharField())


def _edges(run: Run) -> Any:
    """From what is waited for to who waits; a task comes before its exit gates and its patch."""
    before = [_links(Workstream, "depends_on", run), _links(Task, "depends_on", run), _links(Task, "entry_gates", run)]
    task, patch = _word(Task.flow.entity_type), _word(PatchLedger.flow.entity_type)
    patches = Task.objects.filter(run=run, patch__isnull=False).values_list(task, "pk", patch, "patch_id")
    return before[0].union(*before[1:], _links(Task, "gates", run, forward=True), patches, all=True)


def _links(model: type[Entity], name: str, run: Run, *, forward: bool = False) -> Any:
    field: Any = model._meta.get_field(name)
    own, other = field.m2m_field_name(), field.m2m_reverse_field_name()
    rows = field.remote_field.through._default_manager.filter(**{f"{own}__run": run})
    mine = (_word(model.flow.entity_type), f"{own}_id")
    theirs = (_word(field.related_model.flow.entity_type), f"{other}_id")
    return rows.values_list(*mine, *theirs) if forward else rows.values_list(*theirs, *mine)


def journal(run: Run, after: int = 0) -> tuple[list[list[Any]], bool]:
    """Each change of the run and its parts in the order of positions: position, time, machine, id, state, kind.

    From a position on, as many as are told at once, and whether there are more.
    """
    rows = Position.objects.filter(run_id=run.pk, position__gt=after).exclude(run_id="").order_by("position")
    columns = ("position", "event__timestamp", "entity_type", "event__entity_id", "event__to_state", "kind")
    found = list(rows.values_list(*columns)[: MOST_EVENTS + 1])
    before = [] if after else _retired(run)
    told = [[position, at.timestamp(), *rest] for position, at, *rest in [*before, *found[:MOST_EVENTS]]]
    return told, len(found) > MOST_EVENTS


def _retired(run: Run) -> list[tuple[Any, ...]]:
    """Where what was retired left each part, as if that had been the first that happened to it."""
    if not anchors_of(Run.flow.entity_type, run.pk).exists():
        return []  # its first event would have been among the first to go
    columns = ("position", "at", "entity_type", "entity_id", "to_state", "kind")
    ids: dict[type[Entity], Any] = {Run: [run.pk]}
    ids |= {model: model.objects.filter(run=run).values("pk") for model in PARTS}
    newest: dict[tuple[str, str], tuple[Any, ...]] = {}
    for model, of_run in ids.items():
        anchors = Anchor.objects.filter(entity_type=model.flow.entity_type, entity_id__in=of_run)
        newest |= {(row[2], row[3]): row for row in anchors.order_by("sequence").values_list(*columns)[:MOST_EVENTS]}
    return sorted(newest.values())
