"""The Celery tasks. Each calls one function that can also be called directly."""

from typing import Any

import structlog
from celery import shared_task
from django.conf import settings

from statecore import journal
from statecore.artifacts import retention as artifact_retention
from statecore.bulk import jobs
from statecore.delivery.sinks import counters, notices
from statecore.executors import compensation, gates, patches
from statecore.machines.test_gate import TestGate
from statecore.operations import alarms, backup, expiry, incidents, integrity
from statecore.reactions import abandoned, run_queues, sweep
from statecore.read_models import stuck
from statecore.records import incident, process_report, recall, task_attempt, task_log, webhook
from statecore.scheduling import breakers, heartbeats, holds, occurrences, timers
from statecore.task_queue import app
from statecore.transitions import approvals, waivers

# Commands may take long, so they have separate queues and workers and delay no sweep.
GATES, PATCHES = "gates", "patches"
TIME_LIMIT = 86_400

log = structlog.get_logger(__name__)


@shared_task
def expire_idempotency_records() -> None:
    """Delete old responses to idempotency keys, occurrences of schedules, reports of processes, and incidents.

    Delete old alerts, bulk jobs, sessions and failed logins too.
    """
    log.info("idempotency_records_expired", count=journal.expire_idempotency_records())
    occurrences.forget()
    process_report.forget()
    incident.forget()
    expiry.delete_expired()


@shared_task
def expire_webhook_deliveries() -> None:
    """Delete old deliveries, and the webhooks of runs that ended long ago."""
    log.info("webhook_deliveries_expired", count=webhook.forget())


@shared_task
def check_recent_integrity() -> None:
    alarms.raise_alarms(integrity.check_recent())


@shared_task
def sweep_integrity() -> None:
    """Verify the next batch of entities of each machine."""
    alarms.raise_alarms(integrity.sweep_entities())


@shared_task
def sweep_invariants() -> None:
    alarms.sweep_invariants()


@shared_task
def sweep_tasks() -> None:
    """Time out tasks, take those of silent agents away, queue due retries and tasks, and start due runs."""
    timers.time_out_tasks()
    timers.fail_silent_tasks()
    timers.fail_blocked_tasks()
    timers.queue_retries()
    timers.start_due_runs()
    timers.queue_due_tasks()


@shared_task
def sweep_workers() -> None:
    """Repair heartbeats, mark unresponsive workers, shut down lost ones, and fail runs in which nothing can continue.

    Delete old recalls, attempts and logs.
    """
    heartbeats.repair_heartbeats()
    timers.mark_unresponsive_workers()
    timers.end_lost_workers()
    timers.fail_stopped_runs()
    recall.forget()
    task_attempt.forget()
    task_log.forget()


@shared_task
def reevaluate_waiting() -> None:
    """Re-check rows that an earlier reaction skipped, tend the queues, and mark abandoned gates and patches."""
    sweep.reevaluate_waiting()
    run_queues.tend()
    abandoned.mark_overlooked()


@shared_task
def cool_down_breakers() -> None:
    if count := breakers.half_open_due():
        log.info("breakers_half_opened", count=count)


@shared_task
def close_approvals() -> None:
    """Close requests for approval that have expired or whose entity has changed."""
    if count := approvals.close_overdue():
        log.info("approvals_closed", count=count)


@shared_task
def end_holds() -> None:
    """Record the end of holds that have expired, and resume what was paused until now."""
    if count := holds.end_expired():
        log.info("holds_expired", count=count)
    timers.resume_paused()


@shared_task
def recover_stalled() -> None:
    stuck.recover_stalled()


@shared_task
def run_due_schedules() -> None:
    occurrences.run_due()


@shared_task
def run_due_gates() -> None:
    _dispatch(GATES, [(run_gate, gate_id) for gate_id in gates.find_due()])


@shared_task
def time_out_gates() -> None:
    """Time out gates, and end waivers that have expired."""
    gates.time_out_gates()
    if count := waivers.expire(TestGate):
        log.info("waivers_expired", count=count)


@shared_task
def run_due_patches() -> None:
    """Dispatch due rollbacks before patches, so that no patch builds on a change to be reverted."""
    rollbacks = [(run_rollbacks, name) for name in compensation.find_due_repositories()]
    _dispatch(PATCHES, [*rollbacks, *((run_patches, name) for name in patches.find_due_repositories())])


# Acknowledged when they start: if one is lost, the next sweep finds the remaining work.
@shared_task(acks_late=False, time_limit=TIME_LIMIT)
def run_gate(gate_id: str) -> None:
    gates.run_gate(gate_id)


@shared_task(acks_late=False, time_limit=TIME_LIMIT)
def run_patches(repository: str) -> None:
    patches.run_due(repository)


@shared_task(acks_late=False, time_limit=TIME_LIMIT)
def run_rollbacks(repository: str) -> None:
    compensation.run_due(repository)


def _dispatch(queue: str, calls: list[tuple[Any, str]]) -> None:
    """Dispatch the calls only if the queue is empty, so that unconsumed messages do not pile up in the broker."""
    if calls and not _count_waiting(queue):
        for task, argument in calls:
            task.apply_async([argument], queue=queue)


def _count_waiting(queue: str) -> int:
    with app.connection_for_write() as connection:
        channel: Any = connection.default_channel
        try:
            return int(channel.queue_declare(queue, passive=True).message_count)
        except connection.channel_errors:  # the queue does not exist yet
            return 0


@shared_task
def sweep_incidents() -> None:
    """Group what is stuck and alerting by its cause, and escalate what no operator has acknowledged."""
    incidents.sweep()


@shared_task
def send_alert_notices() -> None:
    notices.send_due()


@shared_task
def collect_artifacts() -> None:
    """Delete the artifacts of tasks that ended long ago, and contents that no artifact has."""
    expired, removed = artifact_retention.expire(), artifact_retention.collect()
    if expired or removed:
        log.info("artifacts_collected", expired=expired, contents=removed)


@shared_task
def reconcile_counters() -> None:
    counters.reconcile()


@shared_task(time_limit=3_000)  # the first export writes the whole journal
def export_journal() -> None:
    log.info("journal_exported", folder=str(backup.export(settings.STATECORE_BACKUP_DIR)))


# Acknowledged when it starts, because a drill may take longer than the broker waits for an acknowledgement.
@shared_task(acks_late=False, time_limit=TIME_LIMIT)
def run_due_drill() -> None:
    if settings.STATECORE_DRILL_DATABASE:
        backup.run_due_drill(settings.STATECORE_BACKUP_DIR)


@shared_task(time_limit=3_000)
def run_bulk_job(job_id: str) -> None:
    jobs.run(job_id)


@shared_task(time_limit=3_000)
def run_due_bulk_jobs() -> None:
    """Run bulk jobs that lost their worker or never reached the broker."""
    jobs.run_due()
