"""The operator: decides what waits for a decision, finds the dead, and now and then cancels or forces something."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.contrib.auth.models import Permission, User
from django.db.models import Q

from .. import door, scheduling
from ..door import Category
from ..kernel.actors import Actor, Channel
from ..kernel.clock import now
from ..kernel.entity import Entity
from ..machines import patch_ledger, run, task, test_gate, worker, workstream
from ..machines.patch_ledger import PatchLedger
from ..machines.run import Run
from ..machines.task import Task
from ..machines.test_gate import TestGate
from ..machines.worker import Worker
from ..machines.workstream import Workstream
from .desk import Desk
from .names import simulated

USERNAME = "simulator"
PATIENCE = timedelta(seconds=60)  # with a run
ROUND = (0.3, 0.9)  # seconds between looking around
MEDDLES = 0.25  # of the rounds
RETRIES = 0.8  # of what failed; the rest is called off
AT_ONCE = 10  # decisions in one round


class NameTaken(Exception):
    """The user who would be the simulator is somebody."""


def user() -> Any:
    """Nobody can log in as the simulator; it may operate and override every machine."""
    found, is_new = User.objects.get_or_create(username=USERNAME, defaults={"password": "!"})
    if not is_new and found.has_usable_password():
        raise NameTaken(f"the user {USERNAME} can log in: the simulation needs that name for itself")
    verbs = Q(codename__startswith="operate_") | Q(codename__startswith="override_")
    found.user_permissions.set(Permission.objects.filter(verbs, content_type__app_label="statecore"))
    return found


class Operator:
    def __init__(self, desk: Desk) -> None:
        self.desk, self.rng = desk, desk.names.random("operator")
        self.actor = Actor.operator(user(), Channel.CLI)
        self.called_off: set[str] = set()  # in this round

    def live(self) -> None:
        while not self.desk.closed:
            self.decide()
            if self.rng.random() < MEDDLES:
                self.meddle()
            self.desk.stop.wait(self.rng.uniform(*ROUND))

    # Decisions

    def decide(self) -> None:
        """Whatever would wait for ever: failed gates, failed and cancelled work, runs that take too long, the dead."""
        live = list(simulated(Run).filter(state=run.State.RUNNING).values_list("pk", flat=True))
        self.called_off.clear()
        inside = {"run__in": live, "successor": None}
        self._retry_all(TestGate, Q(state=test_gate.State.FAILED, workstream__state__in=workstream.LIVE), inside)
        ended = Q(state__in=(task.State.FAILED, task.State.CANCELLED), workstream__state__in=workstream.LIVE)
        self._retry_all(Task, ended, inside)
        self._retry_all(Workstream, Q(state__in=(workstream.State.FAILED, workstream.State.CANCELLED)), inside)
        overdue = simulated(Run).filter(state__in=(run.State.PENDING, run.State.RUNNING))
        for run_id in overdue.filter(created_at__lt=now() - PATIENCE).values_list("pk", flat=True)[:AT_ONCE]:
            self.cancel(run_id, "it has taken too long")
        self.bury()

    def _retry_all(self, model: type[Entity], condition: Q, inside: dict[str, Any]) -> None:
        for entity_id, run_id in model.objects.filter(condition, **inside).values_list("pk", "run_id")[:AT_ONCE]:
            if run_id in self.called_off:
                continue
            if self.rng.random() >= RETRIES or not self._retry(model, entity_id):
                self.cancel(run_id, f"{model.flow.entity_type} {entity_id} did not get done")

    def _retry(self, model: type[Entity], entity_id: str) -> bool:
        reason = "once more, by decision"
        return bool(self.desk.ask(door.retry, model, entity_id, actor=self.actor, reason=reason))

    def cancel(self, run_id: str, reason: str) -> None:
        self.called_off.add(run_id)
        self.desk.ask(door.transition, Run, run_id, "run_canceled", actor=self.actor, reason=reason)

    def bury(self) -> None:
        """Workers that were killed and are missed by now: forced into shutdown, which has their tasks retried."""
        for worker_id in self.desk.found_dead():
            self.insist(Worker, worker_id, worker.State.SHUTDOWN, Category.CRASHED_WORKER)

    def insist(self, model: type[Entity], entity_id: str, state: str, category: Category) -> None:
        reason = f"a simulated operator forces {state} to see what happens"
        self.desk.ask(door.override, model, entity_id, state, actor=self.actor, reason=reason, category=category.value)

    # Whims

    def meddle(self) -> None:
        self.desk.tally.happens("meddled")
        whims = (
            self._cancel_a_run,
            self._cancel_a_task,
            self._send_a_task_back,
            self._cut_a_back_off_short,
            self._wave_a_gate_through,
            self._doubt_a_worker,
            self._drain_a_worker,
            self._skip_a_workstream,
            self._discard_a_patch,
        )
        self.rng.choice(whims)()

    def _one(self, found: Any) -> str | None:
        """One of those; in the order of their ids, so that the same ones give the same choice."""
        ids = list(found.order_by("pk").values_list("pk", flat=True)[:AT_ONCE])
        return self.rng.choice(ids) if ids else None

    def _cancel_a_run(self) -> None:
        if run_id := self._one(simulated(Run).filter(state=run.State.RUNNING)):
            self.cancel(run_id, "it is not wanted any more")

    def _cancel_a_task(self) -> None:
        if task_id := self._one(simulated(Task).filter(state=task.State.RUNNING)):
            self.desk.move(Task, task_id, "user_cancelled", self.actor)

    def _send_a_task_back(self) -> None:
        if task_id := self._one(simulated(Task).filter(state=task.State.RUNNING)):
            self.insist(Task, task_id, task.State.QUEUED, Category.STUCK)

    def _cut_a_back_off_short(self) -> None:
        if task_id := self._one(simulated(Task).filter(state=task.State.RETRYING)):
            self.insist(Task, task_id, task.State.QUEUED, Category.INFRASTRUCTURE)

    def _wave_a_gate_through(self) -> None:
        shut = TestGate.objects.exclude(state=test_gate.State.PASSED)
        waiting = simulated(TestGate).filter(state=test_gate.State.PENDING).exclude(depends_on__in=shut)
        if gate_id := self._one(waiting):
            self.insist(TestGate, gate_id, test_gate.State.PASSED, Category.WRONG_DATA)

    def _doubt_a_worker(self) -> None:
        """It is well, and comes back with its next heartbeat."""
        if worker_id := self._one(self._workers(worker.State.BUSY)):
            self.insist(Worker, worker_id, worker.State.UNRESPONSIVE, Category.OTHER)

    def _drain_a_worker(self) -> None:
        if worker_id := self._one(self._workers(worker.State.BUSY, worker.State.IDLE)):
            self.desk.ask(scheduling.drain, worker_id, actor=self.actor)
            self.desk.tally.happens("drained")

    def _workers(self, *states: str) -> Any:
        """By the label: a worker has no phase, and real ones are not to be touched."""
        return Worker.objects.filter(state__in=states, pk__startswith=f"{self.desk.names.label}-a")

    def _skip_a_workstream(self) -> None:
        """One that nothing depends on."""
        begun = simulated(Workstream).filter(state__in=(workstream.State.PLANNED, workstream.State.READY))
        if workstream_id := self._one(begun.filter(dependents=None)):
            self.desk.move(Workstream, workstream_id, "workstream_skipped", self.actor)

    def _discard_a_patch(self) -> None:
        """Of a workstream that has failed with it already."""
        put_aside = PatchLedger.objects.filter(run__in=list(self.desk.runs), state=patch_ledger.State.QUARANTINED)
        if entry_id := self._one(put_aside.filter(workstream__state__in=workstream.FINAL)):
            self.desk.move(PatchLedger, entry_id, "discarded", self.actor)
