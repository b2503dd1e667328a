"""All the checks there are, and the quick ones for recent rows that run at every start."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from django.db import connection
from django.db.models import CheckConstraint, Count

from .. import agent_events
from ..journal import Event
from ..kernel import registry, triggers
from ..kernel.flow import Flow
from ..records import Position
from ..records.retirement import horizon
from .chain import verify_chain
from .finding import ERROR, LIMIT, Finding
from .invariants import invariants_hold
from .order import positions_are_dense, stretch_is_dense, verify_seals, verify_seals_within
from .retired import files_hold, records_hold
from .rows import (
    chains_are_of_known_machines,
    chains_have_rows,
    final_states_were_not_left,
    moves_were_declared,
    rows_agree_with_the_journal,
)

RECENT = 1_000
RECENT_SEALS = 3


@contextmanager
def _whatever_the_bytes() -> Iterator[None]:
    """SQLite would stop at a text that a flipped bit left undecodable, which is just what is looked for."""
    if connection.vendor != "sqlite":
        yield
        return
    connection.ensure_connection()
    connection.connection.text_factory = lambda raw: raw.decode(errors="replace")
    try:
        yield
    finally:
        connection.connection.text_factory = str


def _steadily(check: Callable[[], list[Finding]]) -> list[Finding]:
    """Looked at again where something was retired meanwhile: one half may have been read before, the other after."""
    while True:
        before, found = horizon(), check()
        if not found or horizon() == before:
            return found


@_whatever_the_bytes()
def check_all(archives: Path | None = None) -> list[Finding]:
    """All that is here; with a folder of retired files, those too."""
    return _steadily(lambda: [*_all(), *(files_hold(archives) if archives else ())])


def _all() -> list[Finding]:
    found = list(triggers_are_in_place())
    found += records_hold()
    if bad := verify_chain():
        found.append(bad)
    found += positions_are_dense()
    if broken := verify_seals():
        found.append(broken)
    for flow in registry.flows():
        found += ids_are_unique(flow)
        found += rows_agree_with_the_journal(flow)
        found += chains_have_rows(flow)
        found += final_states_were_not_left(flow)
        found += moves_were_declared(flow)
        found += constraints_hold(flow)
        found += invariants_hold(flow)
    return [*found, *chains_are_of_known_machines(), *agent_jobs_agree_with_their_logs()]


@_whatever_the_bytes()
def check_recent(count: int = RECENT) -> list[Finding]:
    """The triggers, the chains that moved last, and where their rows stand: what it costs is up to those chains."""
    latest = Event.objects.order_by("-event_id").values_list("entity_type", "entity_id")[:count]
    found = list(triggers_are_in_place())
    found += _chains_and_rows(list(dict.fromkeys(latest)))
    if broken := verify_seals(RECENT_SEALS):
        found.append(broken)
    return found


@_whatever_the_bytes()
def check_entity(entity_type: str, entity_id: str) -> list[Finding]:
    """The whole history of one entity that is here, and where its row stands."""
    return _steadily(lambda: _chains_and_rows([(entity_type, entity_id)]))


@_whatever_the_bytes()
def check_stretch(after: int, upto: int) -> list[Finding]:
    """Whatever moved between two positions: its chain, its row, the positions, and the seals that end there."""
    return _steadily(lambda: _stretch(max(after, horizon()), upto))


def _stretch(after: int, upto: int) -> list[Finding]:
    moved = Position.objects.filter(position__gt=after, position__lte=upto).values_list(
        "event__entity_type", "event__entity_id"
    )
    found = _chains_and_rows(list(dict.fromkeys(pair for pair in moved if None not in pair)))
    found += stretch_is_dense(after, upto)
    if broken := verify_seals_within(after, upto):
        found.append(broken)
    return found


def _chains_and_rows(moved: list[tuple[str, str]]) -> list[Finding]:
    found = [bad] if (bad := verify_chain(moved)) else []
    for entity_type in sorted({kind for kind, _ in moved} & {flow.entity_type for flow in registry.flows()}):
        ids = [pk for kind, pk in moved if kind == entity_type]
        found += rows_agree_with_the_journal(registry.flow(entity_type), ids)
        found += chains_have_rows(registry.flow(entity_type), ids)
    return found


def triggers_are_in_place() -> Iterator[Finding]:
    for name in triggers.missing(connection):
        yield Finding("triggers", ERROR, "", "", f"the trigger {name} is missing: run manage.py migrate")


def ids_are_unique(flow: Flow) -> Iterator[Finding]:
    """The primary key holds this; a broken index would not."""
    twice = flow.model.objects.values("pk").annotate(rows=Count("*")).filter(rows__gt=1)
    for pk in twice.values_list("pk", flat=True)[:LIMIT]:
        yield Finding("unique", ERROR, flow.entity_type, pk, "there is more than one row with this id")


def agent_jobs_agree_with_their_logs() -> Iterator[Finding]:
    kind = "agent_job"
    for wrong in agent_events.disagreements():
        detail = f"it is {wrong.column}, and its log adds up to {wrong.folded or 'nothing'}"
        yield Finding("log", ERROR, kind, wrong.job_id, detail)
    for broken in agent_events.violations():
        yield Finding(broken.invariant, ERROR, kind, broken.job_id, broken.sentence)


def constraints_hold(flow: Flow) -> Iterator[Finding]:
    """The database holds these by itself; a dump restored without them, or a table rebuilt, would not."""
    for constraint in flow.model._meta.constraints:
        if isinstance(constraint, CheckConstraint):
            for pk in flow.model.objects.exclude(constraint.condition).values_list("pk", flat=True)[:LIMIT]:
                yield Finding(constraint.name, ERROR, flow.entity_type, pk, f"it breaks {constraint.name}")
