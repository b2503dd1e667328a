"""Which gates are to be run now: each kind is looked for from the side that has few rows, a bounded stretch at a time.

Where a gate is wanted that depends on others, those that no task has a turn for are wanted before it.

Gates that wait are many: those of a large plan wait for their tasks, and those of workstreams that have ended wait for
ever. So nothing here reads all of them.
"""

from __future__ import annotations

from collections.abc import Callable

from django.db.models import BooleanField, Case, Exists, F, OuterRef, Q, Value, When

from ..kernel.indexes import is_live
from ..kernel.strides import Rows, Since, by_entry
from ..machines import task, workstream
from ..machines.patch_ledger import FINAL as PATCH_ENDED
from ..machines.patch_ledger import TESTED, PatchLedger
from ..machines.task import Task
from ..machines.test_gate import State, TestGate
from ..machines.workstream import Workstream
from . import allowed, holding, prerequisites, repository

BATCH = 100
STRETCH = 500
# Where the patch of a task is still to get into the work tree.
ON_ITS_WAY = sorted(set(PatchLedger.flow.states) - PATCH_ENDED - TESTED)
EXIT, ENTRY = Task.gates.through, Task.entry_gates.through


def due(limit: int = BATCH) -> list[str]:
    """The gates to run now, those that have waited longest first; none while commands are off."""
    if not allowed.are_on():
        return []
    found: set[Since] = {pair for kind in (left_behind(), reruns()) for pair in kind[:limit]}
    for walk in WALKS:
        found.update(walk.go_on(limit))
    return [pk for _since, pk in sorted(found)[:limit]]


class Walk:
    """Along those that may have gates to run, longest wait first, round and round: many that have none hide nobody."""

    def __init__(self, along: Callable[[], Rows], gates_of: Callable[..., Rows]) -> None:
        self.along, self.gates_of = along, gates_of
        self.place: Since | None = None

    def ahead(self) -> Rows:
        return by_entry(self.along(), self.place)

    def gates(self, *, met: bool = True) -> Rows:
        """Of a whole stretch, in one query; the longest waiting are picked out of them afterwards."""
        return self.gates_of(self.ahead().values("pk")[:STRETCH], met=met)[:STRETCH]

    def go_on(self, limit: int) -> list[Since]:
        found = list(self.gates())
        found += prerequisites.ready(pk for _since, pk in self.gates(met=False))
        # As long as there is more than enough here, those further on can wait.
        last = self.ahead().values_list("state_entered_at", "pk")[STRETCH - 1 : STRETCH] if len(found) < limit else ()
        self.place = next(iter(last), None)
        return found


def left_behind() -> Rows:
    return holding.left_behind().order_by("state_entered_at").values_list("state_entered_at", "pk")


def reruns() -> Rows:
    """A gate that was retried by itself; one that was retried with its workstream waits for its turn there."""
    by_itself = Q(retry_of__workstream=F("workstream")) | Q(retry_of__workstream=None, workstream=None)
    again = TestGate.objects.filter(by_itself, _met("pk"), _of_a_live_workstream(), retry_of__isnull=False)
    again = again.filter(state=State.PENDING, abandoned=False)
    return again.order_by("state_entered_at").values_list("state_entered_at", "pk")


def validating_tasks() -> Rows:
    """Where we apply the patches, the patch of the task comes first: the gate is to see it."""
    validating = Task.objects.filter(is_live(Task.flow.final), state=task.State.VALIDATING)
    if repository.is_on():
        validating = validating.filter(Q(patch=None) | ~Q(patch__state__in=ON_ITS_WAY))
    return validating


def exit_gates_of(tasks: Rows, *, met: bool) -> Rows:
    links = EXIT.objects.filter(_met("testgate", asked=met), _of_a_live_workstream("testgate__"), task__in=tasks)
    return links.filter(testgate__state=State.PENDING).values_list("testgate__state_entered_at", "testgate_id")


def validating_workstreams() -> Rows:
    return Workstream.objects.filter(is_live(Workstream.flow.final), state=workstream.State.VALIDATING)


def own_gates_of(workstreams: Rows, *, met: bool) -> Rows:
    """Those that belong to no task."""
    own = [_none(links.objects.filter(testgate=OuterRef("pk"))) for links in (EXIT, ENTRY)]
    gates = TestGate.objects.filter(*own, _met("pk", asked=met), workstream__in=workstreams, state=State.PENDING)
    return gates.values_list("state_entered_at", "pk")


def waiting_gates() -> Rows:
    return TestGate.objects.filter(is_live(TestGate.flow.final), state=State.PENDING, abandoned=False)


def entry_gates_among(gates: Rows, *, met: bool) -> Rows:
    """Those that let in a task that waits, in a workstream that has started or may."""
    waits = Q(task__state__in=sorted(task.WAITING), task__workstream__state__in=sorted(workstream.WORKING))
    nobody_waits = _none(ENTRY.objects.filter(waits, testgate=OuterRef("pk")))
    found = TestGate.objects.filter(~nobody_waits, _met("pk", asked=met), _of_a_live_workstream(), pk__in=gates)
    return found.values_list("state_entered_at", "pk")


WALKS = (
    Walk(validating_tasks, exit_gates_of),
    Walk(validating_workstreams, own_gates_of),
    Walk(waiting_gates, entry_gates_among),
)


def _met(gate: str, *, asked: bool = True) -> Q:
    """Every gate it depends on has passed, where that is asked."""
    links = TestGate.depends_on.through.objects.filter(from_testgate=OuterRef(gate))
    return _none(links.exclude(to_testgate__state=State.PASSED)) if asked else Q()


def _none(links: Rows) -> Q:
    """Asked row by row, up to the limit: left to itself, PostgreSQL compares with all the links there are."""
    return Q(Case(When(Exists(links), then=Value(False)), default=Value(True), output_field=BooleanField()))  # noqa: FBT003


def _of_a_live_workstream(gate: str = "") -> Q:
    return Q(**{f"{gate}workstream": None}) | ~Q(**{f"{gate}workstream__state__in": sorted(workstream.FINAL)})
