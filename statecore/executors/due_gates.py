"""Search for gates that can run now.

Many gates wait: those of a large plan for their tasks, and those of ended workstreams for good. So no query reads all
of them. Each kind of due gate is searched from the side with few rows, in bounded batches.

A due gate may depend on gates that belong to no task. Those run first; nothing else would start them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

from django.db import connection
from django.db.models import BooleanField, Case, Exists, F, OuterRef, Q, Value, When

from ..kernel.constraints import is_live
from ..machines import task, workstream
from ..machines.patch_ledger import FINAL as PATCH_ENDED
from ..machines.patch_ledger import PatchLedger
from ..machines.task import Task
from ..machines.test_gate import State, TestGate, Type
from ..machines.workstream import Workstream
from ..reactions import tools
from ..storage.keyset_scan import Rows, Since, order_by_state_entry
from ..storage.sql_params import in_clause, in_param, quote_states
from . import allowed_commands, gate_lease, repository

BATCH = 100
# Security gates run before those that test, and those before the gates of style.
PRIORITIES = {Type.SECURITY: 0, Type.UNIT: 1, Type.INTEGRATION: 1, Type.LINT: 2}
SCAN_BATCH = 500
# States of patches that are not in the repository yet.
NOT_COMMITTED = sorted(set(PatchLedger.flow.states) - PATCH_ENDED)
# States of tasks that are given out again: their gates test the repaired work.
REPAIRED_IN = {task.State.QUEUED, task.State.RUNNING, task.State.RETRYING}
# Tasks start in a validating workstream too, to repair what a final gate has rejected.
STARTING = sorted({*workstream.WORKING, workstream.State.VALIDATING})
EXIT, ENTRY = Task.gates.through, Task.entry_gates.through


def find_due(limit: int = BATCH) -> list[str]:
    """Return the ids of gates to run, by priority and longest waiting first; none while commands are disabled."""
    if not allowed_commands.are_enabled():
        return []
    found: set[Since] = {pair for rows in (interrupted_gates(), retried_gates()) for pair in rows[:limit]}
    for scan in SCANS:
        found.update(scan.read_batch(limit))
    types = dict(TestGate.objects.filter(pk__in=[pk for _since, pk in found]).values_list("pk", "gate_type"))
    ordered = sorted((PRIORITIES[types[pk]], since, pk) for since, pk in found)
    return [pk for _priority, _since, pk in ordered[:limit]]


class GateScan:
    """A circular scan of rows that may have due gates, longest waiting first.

    Each call continues where the last one stopped, so that rows without due gates do not block the ones after them.
    """

    def __init__(self, rows: Callable[[], Rows], select_gates: Callable[..., Rows]) -> None:
        self.rows, self.select_gates = rows, select_gates
        self.place: Since | None = None

    def remaining_rows(self) -> Rows:
        return order_by_state_entry(self.rows(), self.place)

    def gates(self, *, ready_only: bool = True) -> Rows:
        """Select the gates of a whole batch of rows in one query; the caller sorts them."""
        return self.select_gates(self.remaining_rows().values("pk")[:SCAN_BATCH], ready_only=ready_only)[:SCAN_BATCH]

    def read_batch(self, limit: int) -> list[Since]:
        found = list(self.gates())
        found += find_ready_prerequisites(pk for _since, pk in self.gates(ready_only=False))
        last: Iterable[Since] = ()
        # The scan stays at its place as long as it finds enough there.
        if len(found) < limit:
            last = self.remaining_rows().values_list("state_entered_at", "pk")[SCAN_BATCH - 1 : SCAN_BATCH]
        self.place = next(iter(last), None)
        return found


def interrupted_gates() -> Rows:
    return gate_lease.expired_leases().order_by("state_entered_at").values_list("state_entered_at", "pk")


def retried_gates() -> Rows:
    """Gates retried separately; a gate retried with its workstream becomes due with the workstream."""
    separately = Q(retry_of__workstream=F("workstream")) | Q(retry_of__workstream=None, workstream=None)
    retried = TestGate.objects.filter(
        separately, _dependencies_passed("pk"), _workstream_is_live(), retry_of__isnull=False
    )
    retried = retried.filter(Q(workstream=None) | _is_not_repaired("workstream__", "workstream"))
    repaired = EXIT.objects.filter(testgate=OuterRef("pk"), task__repairs__gt=0, task__state__in=sorted(REPAIRED_IN))
    retried = retried.filter(
        _none_exist(repaired), tools.is_available(), state=State.PENDING, abandoned=False, waived=False
    )
    return retried.order_by("state_entered_at").values_list("state_entered_at", "pk")


def validating_tasks() -> Rows:
    """With a repository, exclude tasks until their patch is committed: gates test the newest commit."""
    validating = Task.objects.filter(is_live(Task.flow.final), state=task.State.VALIDATING)
    if repository.is_enabled():
        validating = validating.filter(Q(patch=None) | ~Q(patch__state__in=NOT_COMMITTED))
    return validating


def exit_gates_of(tasks: Rows, *, ready_only: bool) -> Rows:
    ready = _dependencies_passed("testgate") & tools.is_available("testgate__tool") if ready_only else Q()
    links = EXIT.objects.filter(ready, _workstream_is_live("testgate__"), task__in=tasks)
    return links.filter(testgate__state=State.PENDING, testgate__waived=False).values_list(
        "testgate__state_entered_at", "testgate_id"
    )


def validating_workstreams() -> Rows:
    validating = Workstream.objects.filter(is_live(Workstream.flow.final), state=workstream.State.VALIDATING)
    return validating.filter(_is_not_repaired("", "pk"))


def _is_not_repaired(prefix: str, workstream_id: str) -> Q:
    """Whether no task is open that repairs what the gates of the workstream test."""
    open_tasks = Task.objects.filter(workstream=OuterRef(workstream_id), state__in=sorted(task.LIVE))
    return Q(**{f"{prefix}repairs": 0}) | _none_exist(open_tasks)


def taskless_gates_of(workstreams: Rows, *, ready_only: bool) -> Rows:
    without_task = [_none_exist(links.objects.filter(testgate=OuterRef("pk"))) for links in (EXIT, ENTRY)]
    ready = _dependencies_passed("pk") & tools.is_available() if ready_only else Q()
    # The workstreams first: SQLite evaluates subqueries in the order of the conditions.
    gates = TestGate.objects.filter(workstream__in=workstreams, state=State.PENDING, waived=False)
    return gates.filter(*without_task, ready).values_list("state_entered_at", "pk")


def pending_gates() -> Rows:
    return TestGate.objects.filter(is_live(TestGate.flow.final), state=State.PENDING, abandoned=False, waived=False)


def entry_gates_among(gates: Rows, *, ready_only: bool) -> Rows:
    """Entry gates of waiting tasks, in workstreams that have started or may start."""
    waits = Q(task__state__in=sorted(task.WAITING), task__workstream__state__in=STARTING)
    no_task_waits = _none_exist(ENTRY.objects.filter(waits, testgate=OuterRef("pk")))
    ready = _dependencies_passed("pk") & tools.is_available() if ready_only else Q()
    found = TestGate.objects.filter(~no_task_waits, ready, _workstream_is_live(), pk__in=gates)
    return found.values_list("state_entered_at", "pk")


SCANS = (
    GateScan(validating_tasks, exit_gates_of),
    GateScan(validating_workstreams, taskless_gates_of),
    GateScan(pending_gates, entry_gates_among),
)


def _dependencies_passed(gate: str) -> Q:
    links = TestGate.depends_on.through.objects.filter(from_testgate=OuterRef(gate))
    return _none_exist(links.exclude(to_testgate__state=State.PASSED).exclude(to_testgate__waived=True))


def _none_exist(links: Rows) -> Q:
    """A CASE, because PostgreSQL evaluates it row by row up to the limit; a plain NOT EXISTS joins all links."""
    return Q(Case(When(Exists(links), then=Value(False)), default=Value(True), output_field=BooleanField()))  # noqa: FBT003


def _workstream_is_live(gate: str = "") -> Q:
    return Q(**{f"{gate}workstream": None}) | ~Q(**{f"{gate}workstream__state__in": sorted(workstream.FINAL)})


# Prerequisites

MAX_PREREQUISITES = 500
GATES, WORKSTREAMS = TestGate._meta.db_table, Workstream._meta.db_table
LINKS = TestGate.depends_on.through._meta.db_table
EXIT_LINKS, ENTRY_LINKS = EXIT._meta.db_table, ENTRY._meta.db_table
# The recursion follows pending gates and ends at those that have started. It excludes gates of tasks and of other
# workstreams, which become due there: what they test may not be finished yet.
DEPENDENCIES = f"""
SELECT link.to_testgate_id FROM {LINKS} AS link
JOIN {GATES} AS gate ON gate.id = link.from_testgate_id
JOIN {GATES} AS other ON other.id = link.to_testgate_id
  AND (other.workstream_id IS NULL OR gate.workstream_id IS NULL OR other.workstream_id = gate.workstream_id)
"""
READY_PREREQUISITES = f"""
WITH RECURSIVE needed (id) AS (
  {DEPENDENCIES} WHERE gate.id {{ids}}
  UNION {DEPENDENCIES} JOIN needed ON needed.id = gate.id WHERE gate.state = '{State.PENDING.value}')
SELECT gate.state_entered_at, gate.id FROM needed
JOIN {GATES} AS gate ON gate.id = needed.id
LEFT JOIN {WORKSTREAMS} AS workstream ON workstream.id = gate.workstream_id
WHERE gate.state = '{State.PENDING.value}' AND NOT gate.abandoned AND NOT gate.waived
  AND (gate.tool = '' OR gate.tool NOT IN ({tools.UNAVAILABLE}))
  AND (workstream.id IS NULL OR workstream.state NOT IN ({quote_states(workstream.FINAL)}))
  AND NOT EXISTS (SELECT 1 FROM {LINKS} AS link JOIN {GATES} AS other ON other.id = link.to_testgate_id
                  WHERE link.from_testgate_id = gate.id AND other.state <> '{State.PASSED.value}' AND NOT other.waived)
  AND NOT EXISTS (SELECT 1 FROM {EXIT_LINKS} AS link WHERE link.testgate_id = gate.id)
  AND NOT EXISTS (SELECT 1 FROM {ENTRY_LINKS} AS link WHERE link.testgate_id = gate.id)
ORDER BY gate.state_entered_at, gate.id LIMIT {MAX_PREREQUISITES}
"""


def find_ready_prerequisites(gate_ids: Iterable[str]) -> list[tuple[datetime, str]]:
    """Return the direct and indirect dependencies of these gates that can run now, longest waiting first."""
    ids = sorted(set(gate_ids))
    if not ids:
        return []
    vendor = connection.vendor
    with connection.cursor() as cursor:
        cursor.execute(READY_PREREQUISITES.format(ids=in_clause(vendor, len(ids))), [in_param(ids, vendor)])
        return [(_as_utc(since), pk) for since, pk in cursor.fetchall()]


def _as_utc(moment: Any) -> datetime:
    """Add UTC to a naive datetime, because SQLite's driver drops the time zone."""
    found: datetime = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return found
