"""The parts of a run with their links, and its events for the replay; both bounded."""

from __future__ import annotations

from typing import Any

from django.db.models import CharField, Count, Value

from statecore.journal import Anchor, Position
from statecore.journal.archive import list_anchors
from statecore.kernel.entity import Entity
from statecore.machines.patch_ledger import PatchLedger
from statecore.machines.run import Run
from statecore.machines.task import Task
from statecore.machines.test_gate import TestGate
from statecore.machines.workstream import Workstream

PARTS: tuple[type[Entity], ...] = (Workstream, Task, TestGate, PatchLedger)
MAX_PARTS = 1_500  # a larger graph is unreadable
MAX_EVENTS = 20_000  # per request


def list_parts(run: Run) -> dict[str, Any]:
    """The graph: parts with their workstream, and dependencies between them."""
    rows = list(_list_nodes(run)[:MAX_PARTS])
    names = ("type", "id", "state", "parent", "retry_of")
    nodes = [dict(zip(names, row, strict=True)) for row in rows]
    known = {(node["type"], node["id"]) for node in nodes}
    edges = [
        {"from_type": from_type, "from": source, "type": to_type, "to": target}
        for from_type, source, to_type, target in _list_edges(run)[: 4 * MAX_PARTS]
        if {(from_type, source), (to_type, target)} <= known
    ]
    return {"nodes": nodes, "edges": edges, "types": [model.flow.entity_type for model in PARTS]}


def count_parts(run: Run) -> dict[str, dict[str, int]]:
    """How many parts the run has, by entity type and state; exact, each from the index on the part's run."""
    first, *others = [
        model.objects.filter(run=run)
        .order_by()
        .values_list(_text(model.flow.entity_type), "state")
        .annotate(count=Count("pk"))
        for model in PARTS
    ]
    counts: dict[str, dict[str, int]] = {model.flow.entity_type: {} for model in PARTS}
    for kind, state, count in first.union(*others, all=True):
        counts[kind][state] = count
    return counts


def _list_nodes(run: Run) -> Any:
    """All machines in one query, workstreams first: they are drawn around their parts."""
    first, *others = [
        model.objects.filter(run=run).values_list(
            *(_text(model.flow.entity_type), "pk", "state"),
            _text("") if model is Workstream else "workstream_id",
            "retry_of_id",
        )
        for model in PARTS
    ]
    return first.union(*others, all=True)


def _text(text: str) -> Value:
    return Value(text, output_field=CharField())


def _list_edges(run: Run) -> Any:
    """From dependency to dependent; a task precedes its exit gates and its patch."""
    before = [_links(Workstream, "depends_on", run), _links(Task, "depends_on", run), _links(Task, "entry_gates", run)]
    task, patch = _text(Task.flow.entity_type), _text(PatchLedger.flow.entity_type)
    patches = Task.objects.filter(run=run, patch__isnull=False).values_list(task, "pk", patch, "patch_id")
    return before[0].union(*before[1:], _links(Task, "gates", run, forward=True), patches, all=True)


def _links(model: type[Entity], name: str, run: Run, *, forward: bool = False) -> Any:
    field: Any = model._meta.get_field(name)
    own, other = field.m2m_field_name(), field.m2m_reverse_field_name()
    rows = field.remote_field.through._default_manager.filter(**{f"{own}__run": run})
    mine = (_text(model.flow.entity_type), f"{own}_id")
    theirs = (_text(field.related_model.flow.entity_type), f"{other}_id")
    return rows.values_list(*mine, *theirs) if forward else rows.values_list(*theirs, *mine)


def list_events(run: Run, after: int = 0) -> tuple[list[list[Any]], bool]:
    """Events of the run and its parts after a position, and whether more follow.

    Each is [position, timestamp, entity type, id, state, kind].
    """
    rows = Position.objects.filter(run_id=run.pk, position__gt=after).exclude(run_id="").order_by("position")
    columns = ("position", "event__timestamp", "entity_type", "event__entity_id", "event__to_state", "kind")
    found = list(rows.values_list(*columns)[: MAX_EVENTS + 1])
    before = [] if after else _list_archived(run)
    events = [[position, at.timestamp(), *rest] for position, at, *rest in [*before, *found[:MAX_EVENTS]]]
    return events, len(found) > MAX_EVENTS


def _list_archived(run: Run) -> list[tuple[Any, ...]]:
    """The last archived event of each part, which the replay takes for its first."""
    if not list_anchors(Run.flow.entity_type, run.pk).exists():
        return []  # the run's first event is archived before any event of its parts
    columns = ("position", "at", "entity_type", "entity_id", "to_state", "kind")
    ids: dict[type[Entity], Any] = {Run: [run.pk]}
    ids |= {model: model.objects.filter(run=run).values("pk") for model in PARTS}
    newest: dict[tuple[str, str], tuple[Any, ...]] = {}
    for model, of_run in ids.items():
        anchors = Anchor.objects.filter(entity_type=model.flow.entity_type, entity_id__in=of_run)
        newest |= {(row[2], row[3]): row for row in anchors.order_by("sequence").values_list(*columns)}
    return sorted(newest.values())
