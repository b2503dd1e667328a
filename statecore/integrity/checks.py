"""All the checks there are, and the quick ones for recent rows that run at every start."""

from __future__ import annotations

from collections.abc import Iterator

from django.db import connection
from django.db.models import CheckConstraint

from ..journal import Event
from ..kernel import registry, triggers
from ..kernel.clock import now
from ..kernel.flow import Flow
from .chain import verify_chain
from .finding import ERROR, WARNING, Finding
from .rows import chains_have_rows, final_states_were_not_left, rows_agree_with_the_journal

RECENT = 1_000
LIMIT = 100


def check_all() -> list[Finding]:
    found = list(triggers_are_in_place())
    if bad := verify_chain():
        found.append(bad)
    for flow in registry.flows():
        found += rows_agree_with_the_journal(flow)
        found += chains_have_rows(flow)
        found += final_states_were_not_left(flow)
        found += constraints_hold(flow)
        found += invariants_hold(flow)
    return found


def check_recent(count: int = RECENT) -> list[Finding]:
    """The triggers, the chains that moved last, and where their rows stand: cheap at any size of the journal."""
    latest = Event.objects.order_by("-event_id").values_list("entity_type", "entity_id")[:count]
    moved = list(dict.fromkeys(latest))
    found = list(triggers_are_in_place())
    if bad := verify_chain(moved):
        found.append(bad)
    for entity_type in {entity_type for entity_type, _ in moved} & {flow.entity_type for flow in registry.flows()}:
        found += _heads(registry.flow(entity_type), [pk for kind, pk in moved if kind == entity_type])
    return found


def triggers_are_in_place() -> Iterator[Finding]:
    for name in triggers.missing(connection):
        yield Finding("triggers", ERROR, "", "", f"the trigger {name} is missing: run manage.py migrate")


def constraints_hold(flow: Flow) -> Iterator[Finding]:
    """The database holds these by itself; a dump restored without them, or a table rebuilt, would not."""
    for constraint in flow.model._meta.constraints:
        if isinstance(constraint, CheckConstraint):
            for pk in flow.model.objects.exclude(constraint.condition).values_list("pk", flat=True)[:LIMIT]:
                yield Finding(constraint.name, ERROR, flow.entity_type, pk, f"it breaks {constraint.name}")


def invariants_hold(flow: Flow) -> Iterator[Finding]:
    for invariant in flow.model.invariants():
        for pk in invariant.broken(now()).values_list("pk", flat=True)[:LIMIT]:
            yield Finding(invariant.name, WARNING, flow.entity_type, pk, invariant.sentence)


def _heads(flow: Flow, ids: list[str]) -> Iterator[Finding]:
    rows = dict(flow.model.objects.filter(pk__in=ids).values_list("pk", "chain_head"))
    events = Event.objects.filter(entity_type=flow.entity_type, entity_id__in=ids).order_by("sequence")
    last = dict(events.values_list("entity_id", "hash"))
    for entity_id, hash_ in last.items():
        if rows.get(entity_id) != hash_:
            yield Finding("row", ERROR, flow.entity_type, entity_id, "its row is not where its last event left it")
