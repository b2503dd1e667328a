"""Combines the checks: of everything, of recent changes, of one entity, or of a range of positions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from django.db import connection

from ...journal import Event, Position
from ...journal.archive import get_last_archived_position
from ...journal.tree import tree_size
from ...kernel import registry
from ...storage import trigger_check
from ...storage.invalid_text import tolerate_invalid_text
from ...storage.keyset_scan import next_by_id
from .archives import check_archive_files, check_archive_records
from .chain import find_broken_chains
from .copies import check_journal_file
from .findings import LIMIT, Finding, build_journal_error
from .invariants import check_invariants
from .positions import check_epoch, check_position_range, check_positions
from .records import check_phases, check_records
from .rows import (
    check_agent_job_logs,
    check_constraints,
    check_diffs,
    check_evidence,
    check_final_states,
    check_links,
    check_machines,
    check_orphaned_chains,
    check_rows,
    check_transitions,
    check_unique_ids,
)
from .tree import check_checkpoints, check_witnesses, verify_tree

RECENT_EVENTS = 1_000
RECENT_RECORDS = 200
BATCH = 200  # entities of each machine per sweep; its queries should take less than 50 ms (benchmarks.scale)

# Where the last sweep of this process stopped, for each machine.
_places: dict[Any, Any] = {}


def _retry_if_archived(check: Callable[[], list[Finding]]) -> list[Finding]:
    """Repeats a check with findings if events were archived during it, because it may have read a mixed state."""
    while True:
        before, findings = get_last_archived_position(), check()
        if not findings or get_last_archived_position() == before:
            return findings


@tolerate_invalid_text()
def check_all(archives: Path | None = None) -> list[Finding]:
    """Verifies the whole database, and the archive files if their folder is given."""
    return _retry_if_archived(lambda: [*_check_database(), *(check_archive_files(archives) if archives else ())])


def _check_database() -> list[Finding]:
    findings = list(check_triggers())
    findings += check_archive_records()
    findings += islice(find_broken_chains(), LIMIT)
    findings += check_positions()
    findings += check_epoch()
    findings += verify_tree()
    findings += check_checkpoints()
    findings += check_journal_file()
    findings += check_witnesses()
    for flow in registry.flows():
        findings += check_unique_ids(flow)
        findings += check_rows(flow)
        findings += check_evidence(flow)
        findings += check_links(flow)
        findings += check_orphaned_chains(flow)
        findings += check_final_states(flow)
        findings += check_transitions(flow)
        findings += check_constraints(flow)
        findings += check_invariants(flow)
    return [*findings, *check_diffs(), *check_records(), *check_phases(), *check_machines(), *check_agent_job_logs()]


@tolerate_invalid_text()
def check_recent(count: int = RECENT_EVENTS) -> list[Finding]:
    """Verifies the triggers, the latest events with their entities and leaves, and the newest checkpoint.

    Compares the database with the checkpoint and the end of the journal file in the home directory. Fast enough for
    every start.
    """
    latest = Event.objects.order_by("-event_id").values_list("entity_type", "entity_id")[:count]
    findings = list(check_triggers())
    findings += check_epoch()
    findings += _check_entities(list(dict.fromkeys(latest)))
    findings += verify_tree(max(0, tree_size() - count))
    findings += check_checkpoints(latest=1)
    findings += check_records(latest=RECENT_RECORDS)
    findings += check_journal_file(tail_only=True)
    findings += check_witnesses()
    return findings


@tolerate_invalid_text()
def sweep_entities(batch: int = BATCH) -> list[Finding]:
    """Verifies the rows and chains of the next batch of entities of each machine, so that old rows are checked too."""
    return [
        finding
        for flow in registry.flows()
        if (rows := next_by_id(flow.model.objects.all(), _places, flow.entity_type, batch))
        for finding in _retry_if_archived(partial(_check_entities, [(flow.entity_type, pk) for (pk,) in rows]))
    ]


@tolerate_invalid_text()
def check_entity(entity_type: str, entity_id: str) -> list[Finding]:
    """Verifies the row of one entity and its events in the database."""
    return _retry_if_archived(lambda: _check_entities([(entity_type, entity_id)]))


@tolerate_invalid_text()
def check_range(after: int, upto: int) -> list[Finding]:
    """Verifies the positions after `after` and up to `upto`, their leaves, and the entities concerned."""
    return _retry_if_archived(lambda: _check_range(max(after, get_last_archived_position()), upto))


def _check_range(after: int, upto: int) -> list[Finding]:
    entities = Position.objects.filter(position__gt=after, position__lte=upto).values_list(
        "event__entity_type", "event__entity_id"
    )
    findings = _check_entities(list(dict.fromkeys(pair for pair in entities if None not in pair)))
    findings += check_position_range(after, upto)
    findings += verify_tree(after, upto)
    return findings


def _check_entities(entities: list[tuple[str, str]]) -> list[Finding]:
    findings = list(islice(find_broken_chains(entities), LIMIT))
    for entity_type in sorted({kind for kind, _ in entities} & {flow.entity_type for flow in registry.flows()}):
        ids = [pk for kind, pk in entities if kind == entity_type]
        findings += check_rows(registry.flow(entity_type), ids)
        findings += check_evidence(registry.flow(entity_type), ids)
        findings += check_links(registry.flow(entity_type), ids)
        findings += check_orphaned_chains(registry.flow(entity_type), ids)
    return findings


def check_triggers() -> Iterator[Finding]:
    for problem in trigger_check.find_problems(connection):
        yield build_journal_error("triggers", str(problem))
