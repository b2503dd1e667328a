"""The rules between entities: all at once when somebody asks, a stretch at a time while work goes on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.db.models import Q

from ..kernel import registry
from ..kernel.clock import now
from ..kernel.flow import Flow
from ..kernel.indexes import is_live
from ..kernel.strides import next_by_entry, next_by_id
from .finding import LIMIT, WARNING, Finding

STRETCH = 200  # of a sweep; its queries should stay under 50 ms (benchmarks.scale)
EVERYBODY = Q()

# Where this process stopped last time, by machine and state; what has ended has one place for each machine.
_places: dict[Any, Any] = {}


def invariants_hold(flow: Flow, among: Q = EVERYBODY) -> Iterator[Finding]:
    for invariant in flow.model.invariants():
        for pk in invariant.broken(now()).filter(among).values_list("pk", flat=True)[:LIMIT]:
            yield Finding(invariant.name, WARNING, flow.entity_type, pk, invariant.sentence)


def sweep_invariants(batch: int = STRETCH) -> list[Finding]:
    """What is broken among the next so many rows of each live state, and among those of the next ids that have ended.

    So what goes on is looked at soon, however much has ended. Ids are named one by one: then the database knows how
    many they are without having counted anything.
    """
    return [
        finding
        for flow in registry.flows()
        if flow.model.invariants()
        for ids in _stretches(flow, batch)
        if ids
        for finding in invariants_hold(flow, Q(pk__in=ids))
    ]


def _stretches(flow: Flow, batch: int) -> Iterator[list[str]]:
    rows = flow.model.objects
    for state in flow.states:
        if not flow.is_final(state):
            in_it = rows.filter(is_live(flow.final), state=state)
            yield next_by_entry(in_it, _places, (flow.entity_type, state), batch)
    some = next_by_id(rows.all(), _places, flow.entity_type, batch, "state")
    yield [pk for pk, state in some if flow.is_final(state)]
