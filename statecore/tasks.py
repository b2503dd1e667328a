"""The Celery side: each task calls one function that could as well be called by hand."""

from collections.abc import Iterable
from typing import Any

import structlog
from celery import current_app, shared_task
from django.conf import settings

from statecore import backup, bulk, integrity, journal, stuck
from statecore.executors import compensation, gates, patches
from statecore.reactions import sweep
from statecore.records import recall
from statecore.scheduling import breakers, timers
from statecore.sinks import counters, notices
from statecore.stuck import abandoned

# What runs commands may take long, and has workers of its own: no sweep waits behind it.
GATES, PATCHES = "gates", "patches"
LONGEST = 86_400

log = structlog.get_logger(__name__)


@shared_task
def expire_idempotency_records() -> None:
    log.info("idempotency_records_expired", count=journal.expire_idempotency_records())


@shared_task
def check_recent_integrity() -> None:
    for finding in integrity.check_recent():
        log.error("integrity_finding", finding=str(finding))


@shared_task
def sweep_invariants() -> None:
    for finding in integrity.sweep_invariants():
        log.warning("invariant_broken", finding=str(finding))


@shared_task
def sweep_tasks() -> None:
    """Time-outs and back-offs."""
    timers.time_out_tasks()
    timers.queue_retries()


@shared_task
def sweep_workers() -> None:
    """Missed heartbeats, workers that did not come back, and what none of them can be at any more."""
    timers.miss_heartbeats()
    timers.give_up_workers()
    recall.forget()


@shared_task
def look_around() -> None:
    """Whoever could move and was overlooked, and whoever nobody waits for any more."""
    sweep.look_around()
    abandoned.mark_overlooked()


@shared_task
def cool_down_breakers() -> None:
    if count := breakers.cool_down():
        log.info("breakers_half_opened", count=count)


@shared_task
def recover_stalled() -> None:
    stuck.recover_stalled()


@shared_task
def run_due_gates() -> None:
    _hand_out(GATES, run_gate, ([gate_id] for gate_id in gates.due()))


@shared_task
def time_out_gates() -> None:
    gates.time_out_gates()


@shared_task
def run_due_patches() -> None:
    """Rollbacks first: what is wrong should not be built upon."""
    _hand_out(PATCHES, run_rollbacks, [[]] if compensation.due() else [])
    _hand_out(PATCHES, run_patches, [[]] if patches.due() else [])


# Acknowledged when they start: should they never end, the next sweep finds what is left to do.
@shared_task(acks_late=False, time_limit=LONGEST)
def run_gate(gate_id: str) -> None:
    gates.run(gate_id)


@shared_task(acks_late=False, time_limit=LONGEST)
def run_patches() -> None:
    patches.run_due()


@shared_task(acks_late=False, time_limit=LONGEST)
def run_rollbacks() -> None:
    compensation.run_due()


def _hand_out(queue: str, task: Any, calls: Iterable[list[Any]]) -> None:
    """Only to workers that have taken all of the last time: what nobody takes must not pile up in the broker."""
    calls = list(calls)
    if calls and not _waiting(queue):
        for call in calls:
            task.apply_async(call, queue=queue)


def _waiting(queue: str) -> int:
    with current_app.connection_for_write() as connection:
        channel: Any = connection.default_channel
        try:
            return int(channel.queue_declare(queue, passive=True).message_count)
        except connection.channel_errors:  # there is no such queue yet
            return 0


@shared_task
def send_alert_notices() -> None:
    notices.send_due()


@shared_task
def reconcile_counters() -> None:
    counters.reconcile()


@shared_task(time_limit=3_000)  # the first one writes everything there is
def export_journal() -> None:
    log.info("journal_exported", folder=str(backup.export(settings.STATECORE_BACKUP_DIR)))


@shared_task(time_limit=3_000)
def run_bulk_job(job_id: str) -> None:
    bulk.run(job_id)


@shared_task(time_limit=3_000)
def run_due_bulk_jobs() -> None:
    """Those whose worker was lost, or of which the broker was never told."""
    bulk.run_due()
