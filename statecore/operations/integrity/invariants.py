"""Checks the rules between entities: all rows on request, or one batch after the other in a periodic sweep."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ...kernel import registry
from ...kernel.clock import now
from ...kernel.constraints import Invariant, is_live
from ...kernel.flow import Flow
from ...storage.keyset_scan import next_by_entry, next_by_id
from ...storage.query_plans import reading_by_index, without_index
from .findings import LIMIT, WARNING, Finding

BATCH = 200  # rows per sweep; its queries should take less than 50 ms (benchmarks.scale)

# Where the last sweep of this process stopped: one place per active state, and one per machine for finished rows.
_places: dict[Any, Any] = {}


def check_invariants(flow: Flow) -> Iterator[Finding]:
    for invariant in flow.model.invariants():
        broken = flow.model.objects.filter(invariant.broken(now()))
        yield from _findings(flow, invariant, broken.values_list("pk", flat=True)[:LIMIT])


def sweep_invariants(batch: int = BATCH) -> list[Finding]:
    """Checks the next batch of rows of each active state, and the next batch of finished rows of each machine.

    Active rows therefore are checked soon, however many have finished.
    """
    return [
        finding
        for flow in registry.flows()
        if flow.model.invariants()
        for ids in _select_batches(flow, batch)
        if ids
        for finding in _check_batch(flow, ids)
    ]


def recheck_invariants(entities: Iterable[tuple[str, str]]) -> list[Finding]:
    """Checks the given entities, as pairs of machine and id, against the invariants that time alone does not break."""
    ids_by_machine: dict[str, list[str]] = {}
    for entity_type, pk in entities:
        ids_by_machine.setdefault(entity_type, []).append(pk)
    return [
        finding
        for entity_type, ids in ids_by_machine.items()
        for finding in _check_batch(registry.flow(entity_type), ids, only_lasting=True)
    ]


def _select_batches(flow: Flow, batch: int) -> Iterator[list[str]]:
    rows = flow.model.objects
    for state in flow.states:
        if not flow.is_final(state):
            active = rows.filter(is_live(flow.final), state=state)
            yield next_by_entry(active, _places, (flow.entity_type, state), batch)
    scanned = next_by_id(rows.all(), _places, flow.entity_type, batch, "state")
    yield [pk for pk, state in scanned if flow.is_final(state)]


def _check_batch(flow: Flow, ids: list[str], *, only_lasting: bool = False) -> list[Finding]:
    """Looks the rows up by their ids, whatever the conditions of the invariants are."""
    rows = flow.model.objects.filter(pk__in=ids)
    found: list[Finding] = []
    with reading_by_index():
        for invariant in flow.model.invariants():
            if only_lasting and invariant.breaks_by_waiting:
                continue
            broken = rows.filter(without_index(invariant.broken(now())))
            found += _findings(flow, invariant, broken.values_list("pk", flat=True))
    return found


def _findings(flow: Flow, invariant: Invariant, broken: Iterable[str]) -> Iterator[Finding]:
    for pk in broken:
        yield Finding(invariant.name, WARNING, flow.entity_type, pk, invariant.sentence)
