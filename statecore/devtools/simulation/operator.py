"""The simulated operator, which decides, replaces killed workers, and sometimes cancels or overrides."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.contrib.auth.models import Permission, User
from django.db.models import Q

from ... import scheduling, transitions
from ...kernel.actors import Actor, Channel
from ...kernel.clock import now
from ...kernel.entity import Entity
from ...machines import (
    patch_ledger,
    run,
    task,
    test_gate,
    worker,
    workstream,
)
from ...machines.patch_ledger import PatchLedger
from ...machines.run import Run
from ...machines.task import Task
from ...machines.test_gate import TestGate
from ...machines.worker import Worker
from ...machines.workstream import Workstream
from ...transitions import Category
from .context import Context
from .names import simulated

USERNAME = "simulator"
RUN_LIMIT = timedelta(seconds=60)
INTERVAL = (0.3, 0.9)  # seconds between rounds
INTERVENTIONS = 0.25  # share of rounds
RETRIES = 0.8  # share of failures; the runs of the others are cancelled
MAX_DECISIONS = 10  # per round and kind


class UsernameTaken(Exception):
    """A real account already has the simulator's user name."""


def get_user() -> Any:
    """Returns the simulator's user, which cannot log in and may operate and override every machine."""
    found, is_new = User.objects.get_or_create(username=USERNAME, defaults={"password": "!"})
    if not is_new and found.has_usable_password():
        raise UsernameTaken(f"the user {USERNAME} can log in, and the simulation needs that name")
    verbs = Q(codename__startswith="operate_") | Q(codename__startswith="override_")
    found.user_permissions.set(Permission.objects.filter(verbs, content_type__app_label="statecore"))
    return found


class SimulatedOperator:
    def __init__(self, context: Context) -> None:
        self.context, self.rng = context, context.names.random("operator")
        self.actor = Actor.operator(get_user(), Channel.CLI)
        self.cancelled: set[str] = set()  # runs cancelled in this round

    def run(self) -> None:
        while not self.context.is_stopped:
            self.decide()
            if self.rng.random() < INTERVENTIONS:
                self.intervene()
            self.context.stop.wait(self.rng.uniform(*INTERVAL))

    # Decisions

    def decide(self) -> None:
        """Handles failed gates, failed and cancelled work, overdue runs and killed workers."""
        live = list(simulated(Run).filter(state=run.State.RUNNING).values_list("pk", flat=True))
        self.cancelled.clear()
        scope = {"run__in": live, "successor": None}
        self._retry_all(TestGate, Q(state=test_gate.State.FAILED, workstream__state__in=workstream.LIVE), scope)
        ended = Q(state__in=(task.State.FAILED, task.State.CANCELLED), workstream__state__in=workstream.LIVE)
        self._retry_all(Task, ended, scope)
        self._retry_all(Workstream, Q(state__in=(workstream.State.FAILED, workstream.State.CANCELLED)), scope)
        overdue = simulated(Run).filter(state__in=(run.State.PENDING, run.State.RUNNING))
        for run_id in overdue.filter(created_at__lt=now() - RUN_LIMIT).values_list("pk", flat=True)[:MAX_DECISIONS]:
            self.cancel(run_id, "the run takes too long")
        self.shut_down_missed_workers()

    def _retry_all(self, model: type[Entity], condition: Q, scope: dict[str, Any]) -> None:
        for entity_id, run_id in model.objects.filter(condition, **scope).values_list("pk", "run_id")[:MAX_DECISIONS]:
            if run_id in self.cancelled:
                continue
            if self.rng.random() >= RETRIES or not self._retry(model, entity_id):
                self.cancel(run_id, f"{model.flow.entity_type} {entity_id} did not complete")

    def _retry(self, model: type[Entity], entity_id: str) -> bool:
        reason = "retried by the simulated operator"
        return bool(self.context.call(transitions.retry, model, entity_id, actor=self.actor, reason=reason))

    def cancel(self, run_id: str, reason: str) -> None:
        self.cancelled.add(run_id)
        self.context.call(transitions.transition, Run, run_id, "run_canceled", actor=self.actor, reason=reason)

    def shut_down_missed_workers(self) -> None:
        """Overrides missed workers to shutdown, which retries their tasks."""
        for worker_id in self.context.pop_missed_workers():
            self.override(Worker, worker_id, worker.State.SHUTDOWN, Category.CRASHED_WORKER)

    def override(self, model: type[Entity], entity_id: str, state: str, category: Category) -> None:
        reason = f"simulated override to {state}"
        self.context.call(
            transitions.override, model, entity_id, state, actor=self.actor, reason=reason, category=category.value
        )

    # Interventions

    def intervene(self) -> None:
        self.context.statistics.count_incident("interventions")
        interventions = (
            self._cancel_a_run,
            self._cancel_a_task,
            self._requeue_a_task,
            self._skip_a_retry_delay,
            self._force_a_gate_to_pass,
            self._mark_a_worker_unresponsive,
            self._drain_a_worker,
            self._skip_a_workstream,
            self._discard_a_patch,
        )
        self.rng.choice(interventions)()

    def _choose(self, found: Any) -> str | None:
        """Returns a random id, choosing in the order of ids so that the result is repeatable."""
        ids = list(found.order_by("pk").values_list("pk", flat=True)[:MAX_DECISIONS])
        return self.rng.choice(ids) if ids else None

    def _cancel_a_run(self) -> None:
        if run_id := self._choose(simulated(Run).filter(state=run.State.RUNNING)):
            self.cancel(run_id, "no longer needed")

    def _cancel_a_task(self) -> None:
        if task_id := self._choose(simulated(Task).filter(state=task.State.RUNNING)):
            self.context.fire(Task, task_id, "user_cancelled", self.actor)

    def _requeue_a_task(self) -> None:
        if task_id := self._choose(simulated(Task).filter(state=task.State.RUNNING)):
            self.override(Task, task_id, task.State.QUEUED, Category.STUCK)

    def _skip_a_retry_delay(self) -> None:
        if task_id := self._choose(simulated(Task).filter(state=task.State.RETRYING)):
            self.override(Task, task_id, task.State.QUEUED, Category.INFRASTRUCTURE)

    def _force_a_gate_to_pass(self) -> None:
        not_passed = TestGate.objects.exclude(state=test_gate.State.PASSED)
        waiting = simulated(TestGate).filter(state=test_gate.State.PENDING).exclude(depends_on__in=not_passed)
        if gate_id := self._choose(waiting):
            self.override(TestGate, gate_id, test_gate.State.PASSED, Category.WRONG_DATA)

    def _mark_a_worker_unresponsive(self) -> None:
        """The worker recovers with its next heartbeat."""
        if worker_id := self._choose(self._workers(worker.State.BUSY)):
            self.override(Worker, worker_id, worker.State.UNRESPONSIVE, Category.OTHER)

    def _drain_a_worker(self) -> None:
        if worker_id := self._choose(self._workers(worker.State.BUSY, worker.State.IDLE)):
            self.context.call(scheduling.drain_worker, worker_id, actor=self.actor)
            self.context.statistics.count_incident("drained")

    def _workers(self, *states: str) -> Any:
        """Selects by label, because workers have no phase and real ones must not be touched."""
        return Worker.objects.filter(state__in=states, pk__startswith=f"{self.context.names.label}-a")

    def _skip_a_workstream(self) -> None:
        """Skips a workstream without dependents."""
        not_started = simulated(Workstream).filter(state__in=(workstream.State.PLANNED, workstream.State.READY))
        if workstream_id := self._choose(not_started.filter(dependents=None)):
            self.context.fire(Workstream, workstream_id, "workstream_skipped", self.actor)

    def _discard_a_patch(self) -> None:
        """Discards a quarantined patch of a workstream that has already ended."""
        quarantined = PatchLedger.objects.filter(run__in=list(self.context.runs), state=patch_ledger.State.QUARANTINED)
        if entry_id := self._choose(quarantined.filter(workstream__state__in=workstream.FINAL)):
            self.context.fire(PatchLedger, entry_id, "discarded", self.actor)
