"""A run with its parts and links, and its journal to replay it from; both bounded."""

from __future__ import annotations

from typing import Any

from django.db.models import Model

from statecore.kernel.entity import Entity
from statecore.machines.patch_ledger import PatchLedger
from statecore.machines.run import Run
from statecore.machines.task import Task
from statecore.machines.test_gate import TestGate
from statecore.machines.workstream import Workstream
from statecore.records import Position

PARTS: tuple[type[Entity], ...] = (Workstream, Task, TestGate, PatchLedger)
MOST_PARTS = 600  # of each machine; more than anybody can read in one picture
MOST_EVENTS = 20_000


def parts(run: Run) -> dict[str, Any]:
    """What is drawn: the parts, who belongs to which workstream, and who waits for whom."""
    nodes: list[dict[str, Any]] = []
    has_more = False
    for model in PARTS:
        rows = list(_rows(model, run))
        has_more |= len(rows) > MOST_PARTS
        nodes += [_node(model, *row) for row in rows[:MOST_PARTS]]
    known = {(node["type"], node["id"]) for node in nodes}
    return {"nodes": nodes, "edges": [edge for edge in _edges(run) if set(edge_ends(edge)) <= known], "more": has_more}


def edge_ends(edge: dict[str, str]) -> tuple[tuple[str, str], tuple[str, str]]:
    return (edge["from_type"], edge["from"]), (edge["type"], edge["to"])


def _rows(model: type[Entity], run: Run) -> Any:
    parent = "workstream_id" if model is not Workstream else "run_id"
    return model.objects.filter(run=run).order_by("pk").values_list("pk", "state", parent)[: MOST_PARTS + 1]


def _node(model: type[Entity], pk: str, state: str, parent: str | None) -> dict[str, Any]:
    return {
        "type": model.flow.entity_type,
        "id": pk,
        "state": state,
        "parent": parent if model is not Workstream else None,
    }


def _edges(run: Run) -> list[dict[str, str]]:
    """From what is waited for to who waits."""
    return [
        *_links(Workstream, "depends_on", run),
        *_links(Task, "depends_on", run),
        *_links(Task, "entry_gates", run),
        *_links(Task, "gates", run),
        *_patches(run),
    ]


def _links(model: type[Entity], name: str, run: Run) -> list[dict[str, str]]:
    field: Any = model._meta.get_field(name)
    through: type[Model] = field.remote_field.through
    own, other = field.m2m_field_name(), field.m2m_reverse_field_name()
    rows = through._default_manager.filter(**{f"{own}__run": run}).values_list(f"{own}_id", f"{other}_id")
    mine, target = model.flow.entity_type, field.related_model.flow.entity_type
    found = rows[: 4 * MOST_PARTS]
    if name == "gates":  # an exit gate comes after the task
        return [{"from_type": mine, "from": pk, "type": target, "to": gate} for pk, gate in found]
    return [{"from_type": target, "from": linked, "type": mine, "to": pk} for pk, linked in found]


def _patches(run: Run) -> list[dict[str, str]]:
    """From a task to the patch it made."""
    rows = Task.objects.filter(run=run, patch__isnull=False).values_list("pk", "patch_id")[: 4 * MOST_PARTS]
    mine, target = Task.flow.entity_type, PatchLedger.flow.entity_type
    return [{"from_type": mine, "from": pk, "type": target, "to": patch} for pk, patch in rows]


def journal(run: Run) -> tuple[list[list[Any]], bool]:
    """Each change of the run and its parts in the order of positions: position, time, machine, id, state, kind."""
    rows = Position.objects.filter(run_id=run.pk).exclude(run_id="").order_by("position")
    columns = ("position", "event__timestamp", "entity_type", "event__entity_id", "event__to_state", "kind")
    found = list(rows.values_list(*columns)[: MOST_EVENTS + 1])
    told = [[position, at.timestamp(), *rest] for position, at, *rest in found[:MOST_EVENTS]]
    return told, len(found) > MOST_EVENTS
