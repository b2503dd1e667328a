"""The Celery application: its settings are Django's, its tasks `statecore.tasks`."""

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

# The worker's: what it forks has this from it.
LOADED_BY = os.getpid()

app = Celery("statecore")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


@setup_logging.connect
def keep_our_logging(**_: Any) -> None:
    """Celery leaves logging alone as soon as something listens here."""


@worker_init.connect
@beat_init.connect
def check_what_it_needs(**_: Any) -> None:
    from statecore.project import memory, preflight

    preflight.check_database()
    preflight.check_broker()
    memory.keep_what_is_loaded()


@worker_process_init.connect
def end_with_the_worker(**_: Any) -> None:
    """A worker that is killed tells its processes nothing, and they may wait for a broker that is gone as well."""
    from statecore.project import launcher

    launcher.die_with_parent()
    # It may have been killed before the line above. A worker without a pool says this of itself.
    if LOADED_BY not in (os.getpid(), os.getppid()):
        os._exit(1)


@task_prerun.connect
def note_sweep(task: Any, **_: Any) -> None:
    from statecore.doctor import sweeps

    sweeps.note(task.name.rpartition(".")[2])


@worker_shutting_down.connect
def end_running_commands(**_: Any) -> None:
    """A command may run for an hour; whoever stops a worker does not wait for it."""
    from statecore.executors.command import runners

    runners.stop()
