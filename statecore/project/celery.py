"""What a Celery worker and beat do at their start, before each task and at their end."""

from __future__ import annotations

import os
from contextlib import ExitStack
from functools import cache
from time import perf_counter
from typing import TYPE_CHECKING, Any

from celery.apps import worker as celery_worker
from celery.signals import (
    beat_init,
    setup_logging,
    task_failure,
    task_postrun,
    task_prerun,
    task_retry,
    task_revoked,
    task_success,
    worker_init,
    worker_process_init,
    worker_ready,
    worker_shutting_down,
)
from structlog.contextvars import bind_contextvars, clear_contextvars

from statecore.kernel import spans
from statecore.task_queue import HEADER, TRACE, app

if TYPE_CHECKING:
    from statecore.operations.process_reporter import ProcessReporter

__all__ = ["app"]

# The worker's process id; the pool processes it forks inherit the value.
LOADED_BY = os.getpid()


@setup_logging.connect
def keep_our_logging(**_: Any) -> None:
    """Celery does not configure logging if this signal has a receiver; nor may it write text beside the log."""
    celery_worker.safe_say = lambda *_: None  # type: ignore[attr-defined]


@worker_init.connect
@beat_init.connect
def prepare_process(**_: Any) -> None:
    from statecore.project import preflight, process_limits

    preflight.check_database()
    preflight.check_broker()
    process_limits.freeze_loaded_objects()


@beat_init.connect
def schedule_extensions(sender: Any, **_: Any) -> None:
    """Adds the work of other packages to the schedule of the settings."""
    from statecore.kernel import extensions

    sender.scheduler.update_from_dict({sweep.task: sweep.as_entry() for sweep in extensions.sweeps})


@beat_init.connect
def report_beat(**_: Any) -> None:
    from statecore.operations.process_reporter import ProcessReporter, get_max_memory

    ProcessReporter("beat").start(max_memory=get_max_memory())


@cache
def get_worker_reporter(role: str, name: str) -> ProcessReporter:
    from statecore.operations.process_reporter import ProcessReporter

    return ProcessReporter(role, name)


@worker_ready.connect
def report_worker(sender: Any, **_: Any) -> None:
    """The signal is sent again after the worker has lost the broker."""
    role = "executors" if "gates" in sender.app.amqp.queues.consume_from else "worker"
    name = sender.hostname.partition("@")[0]
    get_worker_reporter(role, role if name == "celery" else name).report_by(sender.timer)


@worker_process_init.connect
def die_with_the_worker(**_: Any) -> None:
    """A killed worker cannot stop its pool processes, and they could wait for the broker indefinitely."""
    from statecore.project import launcher

    launcher.die_with_parent()
    # The worker may have died before the line above. Without a pool this is the worker itself.
    if LOADED_BY not in (os.getpid(), os.getppid()):
        os._exit(1)


@task_prerun.connect
def begin_task(task: Any, task_id: str, **_: Any) -> None:
    """Log lines of the task name it and the request that queued it."""
    clear_contextvars()
    bind_contextvars(task=task.name, task_id=task_id, **(getattr(task.request, HEADER, None) or {}))
    task.request.begun = perf_counter()
    # A task that a request has queued is a part of its trace.
    task.request.span = ExitStack()
    task.request.span.enter_context(spans.continued(getattr(task.request, TRACE, None) or {}, f"task {task.name}"))


@task_postrun.connect
def end_task(task: Any, **_: Any) -> None:
    from statecore.operations.doctor import services
    from statecore.operations.task_metrics import time_task

    if (begun := getattr(task.request, "begun", None)) is not None:
        seconds = perf_counter() - begun
        time_task(task.name).observe(seconds)
        services.record_sweep_end(task.name.rpartition(".")[2], seconds)
        task.request.span.close()
    clear_contextvars()


@task_success.connect
@task_failure.connect
@task_retry.connect
@task_revoked.connect
def count_outcome(sender: Any, signal: Any, **_: Any) -> None:
    """`task_revoked` means expired: no task is revoked."""
    from statecore.operations.task_metrics import count_task

    outcomes = {task_success: "success", task_failure: "failure", task_retry: "retry", task_revoked: "expired"}
    count_task(getattr(sender, "name", str(sender)), outcomes[signal]).inc()


@task_prerun.connect
def record_sweep(task: Any, **_: Any) -> None:
    from django.db import connection

    from statecore.operations.doctor import services
    from statecore.storage import database_clock

    services.record_sweep(task.name.rpartition(".")[2])
    database_clock.follow(connection)


@worker_ready.connect
def declare_executor_work(sender: Any, **_: Any) -> None:
    """Only the executors consume the queue of gates; other processes may not have their settings."""
    from django.db import connection

    from statecore.records import executor_work

    if "gates" in sender.app.amqp.queues.consume_from:
        executor_work.declare()
        connection.close()


@worker_shutting_down.connect
def stop_running_commands(**_: Any) -> None:
    """A command may run for an hour, and a worker that is stopped does not wait for it."""
    from statecore.executors.command import runners

    runners.stop()
