"""Keeps the table of stuck and blocked entities, each with the incident of its root cause.

The rows are compared with the stuck list in each sweep. Only new ones, and those that were checked longest ago, are
followed to their root cause, so a sweep costs the same however many entities are late for the same reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeVar

from ...delivery.sinks.alert_rules import ENDED_WHEN_SILENT, get_limit
from ...kernel.entity import Entity
from ...machines.run import Run
from ...machines.task import Task
from ...read_models.incidents.entities import load_entities
from ...read_models.incidents.root_cause import RootCause, identify_cause, name_entity
from ...read_models.incidents.suggestions import suggest_actions
from ...read_models.stuck import Kind
from ...read_models.stuck.chain import Link, find_chains
from ...read_models.stuck.sources import Source, find_blocked_source, find_sources
from ...records import Incident, IncidentEntity
from ...scheduling.recovery import APPROVAL, propose_recovery
from .lifecycle import open_incident

MAX_NEW, MAX_RECHECKED = 5_000, 500  # entities that a sweep follows to their root cause
BATCH = 500
Key = tuple[str, str]
T = TypeVar("T")


class Found(NamedTuple):
    """A row of the stuck list."""

    kind: Kind
    run_id: str
    clock: datetime
    due_at: datetime
    critical_at: datetime | None


class Walked(NamedTuple):
    """An entity with its chain of causes."""

    entity: Entity
    kind: Kind
    links: list[Link]
    root: RootCause


def update_entities(at: datetime) -> None:
    found = dict(_read_found(at))
    known = {
        (row[0], row[1]): row[2:]
        for row in IncidentEntity.objects.values_list("entity_type", "entity_id", "due_at", "kind", "pk")
    }
    gone = [pk for key, (*_rest, pk) in known.items() if key not in found]
    for batch in _split(gone):
        IncidentEntity.objects.filter(pk__in=batch).delete()
    new = [key for key, each in found.items() if key not in known or known[key][:2] != (each.due_at, each.kind)]
    oldest = IncidentEntity.objects.order_by("checked_at").values_list("entity_type", "entity_id")[:MAX_RECHECKED]
    for keys in _split([*dict.fromkeys([*new[:MAX_NEW], *(key for key in oldest if key in found)])]):
        _assign({key: found[key] for key in keys}, at)


def _split(things: list[T]) -> Iterator[list[T]]:
    for start in range(0, len(things), BATCH):
        yield things[start : start + BATCH]


def _read_found(at: datetime) -> Iterator[tuple[Key, Found]]:
    """Yields what is stuck or blocked; an entity that is in two sources for a moment has the later one."""
    for source in (find_blocked_source(), *find_sources(at, lambda entity_type: True)):
        model: Any = source.rows.model
        run = _find_run_column(model)
        rows = source.rows.order_by().values_list("pk", source.clock, *([run] if run else []))
        for pk, clock, *runs in rows:
            late = _compute_critical(source, clock)
            run_id = (runs[0] if runs else "") or ""
            yield (model.flow.entity_type, pk), Found(source.kind, run_id, clock, clock + source.grace, late)


def _find_run_column(model: Any) -> str:
    if model is Run:
        return "pk"
    return next((field.attname for field in model._meta.concrete_fields if field.name == "run"), "")


def _compute_critical(source: Source, clock: datetime) -> datetime | None:
    """Returns when a late entity is critical: when the rule `stuck` opens an alert about it."""
    if source.kind is not Kind.OVERDUE or not source.name.startswith("late "):
        return None
    entity_type, _dot, state = source.name.removeprefix("late ").partition(".")
    ended_after = ENDED_WHEN_SILENT.get((entity_type, state), timedelta())
    return clock + get_limit("stuck_factor") * max(source.grace, ended_after)


def _assign(found: dict[Key, Found], at: datetime) -> None:
    """Determines the root causes of some entities, opens their incidents, and stores which entity hangs on which."""
    entities = load_entities(found)
    walked = list(_walk([(entity, found[key].kind) for key, entity in entities.items()], at))
    keys = _choose_keys(walked)
    incidents: dict[str, Incident] = {}
    for each, key in zip(walked, keys, strict=True):
        if key not in incidents:
            actions = suggest_actions(each.entity, each.links, each.kind, at)
            incidents[key] = open_incident(key, each.root, [each._asdict() for each in actions], at)
    IncidentEntity.objects.bulk_create(
        [
            _make_row(each.entity, found[each.entity.flow.entity_type, each.entity.pk], incidents[key], at)
            for each, key in zip(walked, keys, strict=True)
        ],
        update_conflicts=True,
        unique_fields=["entity_type", "entity_id"],
        update_fields=["incident", "kind", "run_id", "since", "due_at", "critical_at", "checked_at"],
    )


def _walk(entities: list[tuple[Entity, Kind]], at: datetime) -> Iterator[Walked]:
    chains = find_chains((entity for entity, _kind in entities), at)
    for (entity, kind), links in zip(entities, chains, strict=True):
        proposal = propose_recovery(entity, at) if kind is Kind.OVERDUE else None
        if proposal is not None and proposal.mode == APPROVAL:
            kind = Kind.NEEDS_APPROVAL
        yield Walked(entity, kind, links, identify_cause(links, kind))


def _choose_keys(walked: list[Walked]) -> list[str]:
    """Returns the key of each entity. One that others wait for belongs to the same incident as they do."""
    own = {name_entity(each.entity.flow.entity_type, each.entity.pk) for each in walked}
    rooted = {each.root.key for each in walked}
    rooted |= set(Incident.objects.filter(key__in=own - rooted, resolved_at=None).values_list("key", flat=True))
    names = (name_entity(each.entity.flow.entity_type, each.entity.pk) for each in walked)
    return [name if name in rooted else each.root.key for each, name in zip(walked, names, strict=True)]


def _make_row(entity: Any, found: Found, incident: Incident, at: datetime) -> IncidentEntity:
    is_stalled = found.kind is Kind.NO_PROGRESS and isinstance(entity, Task)
    return IncidentEntity(
        incident=incident,
        entity_type=entity.flow.entity_type,
        entity_id=entity.pk,
        kind=found.kind,
        run_id=found.run_id,
        since=entity.progressed_at() if is_stalled else found.clock,
        due_at=found.due_at,
        critical_at=found.critical_at,
        checked_at=at,
    )
