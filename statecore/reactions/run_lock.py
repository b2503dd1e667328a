"""The lock everything in a run is looked at under: the row of the run itself."""

from __future__ import annotations

from collections.abc import Iterable

from ..door.change import Change
from ..door.work import current
from ..kernel.many import among, listed
from ..machines.run import Run
from ..machines.task import Task
from ..machines.test_gate import TestGate


def take(changes: Iterable[Change]) -> None:
    """In the order of the ids. SQLite has one writer at a time, who holds every lock there is."""
    work = current()
    if work.connection.vendor != "postgresql":
        return
    wanted = sorted(_runs_of(changes) - work.held)
    if wanted:
        work.cursor.execute(
            f"SELECT id FROM {Run._meta.db_table} WHERE id = ANY(%s) ORDER BY id FOR NO KEY UPDATE", [wanted]
        )
        work.cursor.fetchall()
        work.held.update(wanted)


def is_enough(changes: Iterable[Change]) -> None:
    """Whatever lock of these runs is held, no other will be asked for."""
    current().held.update(_runs_of(changes))


def _runs_of(changes: Iterable[Change]) -> set[str]:
    found: set[str] = set()
    loose_gates: list[str] = []
    for change in changes:
        entity = change.entity
        if isinstance(entity, Run):
            found.add(entity.pk)
        elif entity.__dict__.get("run_id"):
            found.add(entity.__dict__["run_id"])
        elif isinstance(entity, TestGate):
            loose_gates.append(entity.pk)
    return found | _runs_waiting_for(loose_gates) if loose_gates else found


def _runs_waiting_for(gates: list[str]) -> set[str]:
    """A gate that belongs to no workstream may let through tasks of several runs."""
    linked = Task.objects.filter(gates__in=gates) | Task.objects.filter(entry_gates__in=gates)
    return set(linked.values_list("run_id", flat=True))


def share(workstreams: list[str]) -> dict[str, tuple[str, str]]:
    """The states of workstreams and of their runs, which stay as they are until the transaction ends.

    Shared: many may start tasks at the same time, and nobody can cancel a run meanwhile.
    """
    work = current()
    vendor = work.connection.vendor
    lock = " ORDER BY run.id FOR SHARE OF run" if vendor == "postgresql" else ""
    work.cursor.execute(
        "SELECT workstream.id, workstream.state, run.state FROM statecore_workstream AS workstream "
        f"JOIN statecore_run AS run ON run.id = workstream.run_id WHERE workstream.id {among(vendor)}{lock}",
        [listed(workstreams, vendor)],
    )
    return {pk: (state, of_run) for pk, state, of_run in work.cursor.fetchall()}
