"""Running test gates: which are due, one run each, and failing those whose runner is gone when their time is over."""

from __future__ import annotations

from datetime import timedelta

import structlog
from django.conf import settings
from django.db.models import Exists, F, OuterRef, Q, QuerySet

from .. import door
from ..kernel.actors import THE_SYSTEM
from ..kernel.clock import now
from ..kernel.refusals import Refusal
from ..machines.task import Task
from ..machines.test_gate import State, TestGate
from ..machines.workstream import FINAL as ENDED
from ..machines.workstream import Workstream
from . import allowed, command, repository
from .allowed import NotAllowed
from .guard import GRACE
from .repository import Busy

log = structlog.get_logger(__name__)

BATCH = 100
# The runner ends the command itself when the time is over, and has its output: it reports first if it is alive.
RUNNERS_GRACE = timedelta(seconds=4 * GRACE)
PATCH_ON_ITS_WAY = ("created", "validated", "queued", "applied", "apply_failed")


def due(limit: int = BATCH) -> list[str]:
    """The gates to run now, those that have waited longest first; none while commands are off.

    Each kind is found from the side that has few rows. Gates that never ran in workstreams that have ended stay
    PENDING for ever and grow in number, so that nothing here may begin with all that are.
    """
    if not allowed.are_on():
        return []
    unmet = TestGate.objects.filter(dependents=OuterRef("pk")).exclude(state=State.PASSED)
    waiting = TestGate.objects.filter(~Exists(unmet), state=State.PENDING)
    found = {
        (since, pk)
        for kind in (_entry(waiting), _exit(waiting), _of_the_workstream(waiting), _run_again(waiting))
        for since, pk in kind.order_by("state_entered_at", "pk").values_list("state_entered_at", "pk")[:limit]
    }
    return [pk for _since, pk in sorted(found)[:limit]]


def _live(gates: QuerySet[TestGate]) -> QuerySet[TestGate]:
    return gates.filter(Q(workstream=None) | ~Q(workstream__state__in=ENDED))


def _entry(gates: QuerySet[TestGate]) -> QuerySet[TestGate]:
    """Of a task that waits, in a workstream that has started or may."""
    waits = Q(entry_of__state__in=("pending", "blocked"), entry_of__workstream__state__in=("ready", "executing"))
    return _live(gates).filter(waits).distinct()


def _exit(gates: QuerySet[TestGate]) -> QuerySet[TestGate]:
    """Of a task that has done its work; where we apply the patches, its patch comes first: the gate is to see it."""
    validating = Q(exit_of__state="validating")
    if repository.is_on():
        validating &= Q(exit_of__patch=None) | ~Q(exit_of__patch__state__in=PATCH_ON_ITS_WAY)
    return _live(gates).filter(validating).distinct()


def _of_the_workstream(gates: QuerySet[TestGate]) -> QuerySet[TestGate]:
    """The workstreams are looked up first: left to itself, a database may begin with every waiting gate there is."""
    validating = list(Workstream.objects.filter(state="validating").values_list("pk", flat=True)[:BATCH])
    of_a_task = [Exists(Task.objects.filter(**{link: OuterRef("pk")})) for link in ("gates", "entry_gates")]
    return gates.exclude(of_a_task[0]).exclude(of_a_task[1]).filter(workstream__in=validating)


def _run_again(gates: QuerySet[TestGate]) -> QuerySet[TestGate]:
    """A gate that was retried by itself; one that was retried with its workstream waits for its turn there."""
    by_itself = Q(retry_of__workstream=F("workstream")) | Q(retry_of__workstream=None, workstream=None)
    return _live(gates).filter(by_itself, retry_of__isnull=False)


def run(gate_id: str) -> bool:
    """Start the gate, run its command, report; False where another runner has it or its folder is taken."""
    allowed.require_on()
    # Often it was handed out twice: no need to trouble the door.
    if command.runners.stopping or not TestGate.objects.filter(pk=gate_id, state=State.PENDING).exists():
        return False
    folder = settings.STATECORE_GATE_FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with repository.shared(folder) as keep:
            gate = _started(gate_id)
            if gate is not None:
                _report(gate, _result(gate, keep))
            return gate is not None
    except Busy:
        return False


def _started(gate_id: str) -> TestGate | None:
    try:
        started = door.transition(TestGate, gate_id, "gate_started", actor=THE_SYSTEM).entity
    except Refusal as refusal:
        log.info("gate_not_started", gate=gate_id, code=refusal.code)
        return None
    assert isinstance(started, TestGate)  # noqa: S101 - what the door was asked for
    return started


def _result(gate: TestGate, keep: list[int]) -> command.Result:
    try:
        arguments = allowed.arguments(gate.command)
    except NotAllowed as refused:
        return command.Result(refused.exit_code, stderr=str(refused), ran=False)
    return command.run(arguments, folder=settings.STATECORE_GATE_FOLDER, timeout=gate.timeout_sec, keep=keep)


def _report(gate: TestGate, result: command.Result) -> None:
    """Against the version it was started with: a gate that was timed out or forced meanwhile keeps what it has."""
    trigger, params = _verdict(gate, result)
    try:
        door.transition(TestGate, gate.pk, trigger, actor=THE_SYSTEM, params=params, expected_version=gate.version)
    except Refusal as refusal:
        log.warning("gate_result_not_taken", gate=gate.pk, code=refusal.code, detail=refusal.detail)


def _verdict(gate: TestGate, result: command.Result) -> tuple[str, dict[str, object]]:
    said: dict[str, object] = {"stdout": result.stdout, "stderr": result.stderr}
    if result.timed_out:
        return "timeout_exceeded", said | {"stderr": f"{result.stderr}timed out after {gate.timeout_sec} s"}
    said |= {"exit_code": result.exit_code, "duration_sec": result.duration_sec}
    if result.stopped:
        said |= {"stderr": f"{result.stderr}the worker was asked to stop: run the gate again"}
    if result.exit_code == gate.expected_exit_code and result.ran and not result.stopped:
        return "gate_passed", said
    # Whatever is expected, a command that was not run to its end has not passed.
    return "gate_failed", said | ({"exit_code": 125} if result.exit_code == gate.expected_exit_code else {})


def time_out_gates(limit: int = BATCH) -> int:
    """Fail the gates whose time is over and whose runner did not say so; how many there were."""
    over = TestGate.objects.filter(state=State.RUNNING, times_out_at__lte=now() - RUNNERS_GRACE)
    gates = over.order_by("times_out_at").values_list("pk", flat=True)[:limit]
    return sum(map(_time_out, list(gates)))


def _time_out(gate_id: str) -> bool:
    """One transaction each: what follows from a failed gate may take many locks."""
    try:
        door.transition(TestGate, gate_id, "timeout_exceeded", actor=THE_SYSTEM)
    except Refusal:  # it has ended after all
        return False
    log.warning("gate_timed_out_without_its_runner", gate=gate_id)
    return True
