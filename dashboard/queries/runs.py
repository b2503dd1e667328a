"""The parts of a run with their links, and its events for the replay; both bounded."""

from __future__ import annotations

from typing import Any, NamedTuple

from django.db.models import CharField, Count, Value

from statecore.dashboard.queries import feed
from statecore.journal import Anchor, Position
from statecore.journal.archive import list_anchors
from statecore.kernel.entity import Entity
from statecore.machines.patch_ledger import PatchLedger
from statecore.machines.run import Run
from statecore.machines.task import Task
from statecore.machines.test_gate import TestGate
from statecore.machines.workstream import Workstream

WAITING_TONES = {"waiting", "held", "troubled"}
PARTS: tuple[type[Entity], ...] = (Workstream, Task, TestGate, PatchLedger)
MAX_PARTS = 30_000  # that a browser draws and searches without delay
MAX_EVENTS = 20_000  # per request


def list_parts(run: Run) -> dict[str, Any]:
    """The parts and the dependencies between them, in columns: objects would be twice as long.

    `parents`, `retry_of` and the pairs in `edges` are places in `ids`; -1 for none.
    """
    rows = list(_list_nodes(run)[:MAX_PARTS])
    types = [model.flow.entity_type for model in PARTS]
    places = {(row[0], row[1]): place for place, row in enumerate(rows)}
    edges = [
        (places[from_type, source], places[to_type, target])
        for from_type, source, to_type, target in _list_edges(run)[: 4 * MAX_PARTS]
        if (from_type, source) in places and (to_type, target) in places
    ]
    workstream = Workstream.flow.entity_type
    return {
        "types": types,
        "kinds": [types.index(kind) for kind, *_rest in rows],
        "ids": [row[1] for row in rows],
        "parents": [places.get((workstream, parent), -1) for _kind, _id, parent, _old in rows],
        "retry_of": [places.get((kind, old), -1) for kind, _id, _parent, old in rows],
        "edges": [place for pair in edges for place in pair],
    }


def describe_states() -> dict[str, Any]:
    """Word and look of the states of a run and its parts, and whether a part waits in them for others or a worker."""
    found = feed.describe_states()
    flows = [Run.flow, *(model.flow for model in PARTS)]
    for flow in flows:
        for name, look in found[flow.entity_type]["states"].items():
            look["waits"] = name in flow.free_in or look["tone"] in WAITING_TONES
    return {flow.entity_type: found[flow.entity_type] for flow in flows}


def count_parts(run: Run) -> dict[str, dict[str, int]]:
    """How many parts the run has, by entity type and state; exact, each from the index on the part's run.

    All tries of a part count as one, in the state of the newest.
    """
    first, *others = [
        model.objects.filter(run=run, successor=None)
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
            *(_text(model.flow.entity_type), "pk"),
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


class Journal(NamedTuple):
    """Events of a run and its parts: [position, timestamp, entity type, id, state], and whether more follow."""

    events: list[tuple[Any, ...]]
    more: bool


def read_journal(run: Run, after: int = 0) -> Journal:
    rows = Position.objects.filter(run_id=run.pk, position__gt=after).exclude(run_id="").order_by("position")
    columns = ("position", "event__timestamp", "entity_type", "event__entity_id", "event__to_state")
    found = list(rows.values_list(*columns)[: MAX_EVENTS + 1])
    before = [] if after else _list_archived(run)
    return Journal([*before, *found[:MAX_EVENTS]], len(found) > MAX_EVENTS)


def encode_journal(journal: Journal) -> dict[str, Any]:
    """The same in a fifth of the bytes: `events` has, for each, its places in `parts` and `states`, and its time.

    The time is in milliseconds since the event before it, or since 1970 for the first.
    """
    parts: dict[str, int] = {}
    states: dict[str, int] = {}
    events: list[int] = []
    earlier = 0
    for _position, timestamp, entity_type, entity_id, state in journal.events:
        at = round(timestamp.timestamp() * 1000)
        part = parts.setdefault(f"{entity_type} {entity_id}", len(parts))
        events += (part, states.setdefault(state, len(states)), at - earlier)
        earlier = at
    last = journal.events[-1][0] if journal.events else 0
    return {"parts": list(parts), "states": list(states), "events": events, "position": last, "more": journal.more}


def _list_archived(run: Run) -> list[tuple[Any, ...]]:
    """The last archived event of each part, which the replay takes for its first."""
    if not list_anchors(Run.flow.entity_type, run.pk).exists():
        return []  # the run's first event is archived before any event of its parts
    columns = ("position", "at", "entity_type", "entity_id", "to_state")
    ids: dict[type[Entity], Any] = {Run: [run.pk]}
    ids |= {model: model.objects.filter(run=run).values("pk") for model in PARTS}
    newest: dict[tuple[str, str], tuple[Any, ...]] = {}
    for model, of_run in ids.items():
        anchors = Anchor.objects.filter(entity_type=model.flow.entity_type, entity_id__in=of_run)
        newest |= {(row[2], row[3]): row for row in anchors.order_by("sequence").values_list(*columns)}
    return sorted(newest.values())
