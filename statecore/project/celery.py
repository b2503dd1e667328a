"""The Celery application, with Django's settings and the tasks of `statecore.tasks`."""

import os
from typing import Any

from celery import Celery
from celery.signals import (
    beat_init,
    setup_logging,
    task_prerun,
    worker_init,
    worker_process_init,
    worker_shutting_down,
)

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "statecore.project.settings")

# The worker's process id; the pool processes it forks inherit the value.
LOADED_BY = os.getpid()

app = Celery("statecore")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


@setup_logging.connect
def keep_our_logging(**_: Any) -> None:
    """Celery does not configure logging if this signal has a receiver."""


@worker_init.connect
@beat_init.connect
def prepare_process(**_: Any) -> None:
    from statecore.project import preflight, process_limits

    preflight.check_database()
    preflight.check_broker()
    process_limits.freeze_loaded_objects()


@worker_process_init.connect
def die_with_the_worker(**_: Any) -> None:
    """A killed worker cannot stop its pool processes, and they could wait for the broker indefinitely."""
    from statecore.project import launcher

    launcher.die_with_parent()
    # The worker may have died before the line above. Without a pool this is the worker itself.
    if LOADED_BY not in (os.getpid(), os.getppid()):
        os._exit(1)


@task_prerun.connect
def record_sweep(task: Any, **_: Any) -> None:
    from django.db import connection

    from statecore.operations.doctor import services
    from statecore.storage import database_clock

    services.record_sweep(task.name.rpartition(".")[2])
    database_clock.follow(connection)


@worker_shutting_down.connect
def stop_running_commands(**_: Any) -> None:
    """A command may run for an hour, and a worker that is stopped does not wait for it."""
    from statecore.executors.command import runners

    runners.stop()
