"""The settings of the peers' processes: django-fsm-log listens to every transition, so the door runs elsewhere."""

from benchmarks.settings import *  # noqa: F403
from benchmarks.settings import INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "django_fsm_log", "benchmarks.peer"]
