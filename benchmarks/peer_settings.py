"""Settings of the peers' processes. django-fsm-log hooks into every transition, so Statecore runs separately."""

from benchmarks.settings import *  # noqa: F403
from benchmarks.settings import INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "django_fsm_log", "benchmarks.peer"]
