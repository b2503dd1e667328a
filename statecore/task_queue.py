"""The Celery application, with Django's settings and the tasks of `statecore.tasks`.

Only processes that queue, inspect or execute tasks import it: Celery takes a tenth of the start of a process.
"""

import os

from celery import Celery
from django_structlog.celery.receivers import CeleryReceiver

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "statecore.project.settings")

app = Celery("statecore")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()

# Passes the id of a request on to the log lines of its tasks. Signals keep no receiver alive.
log_context = CeleryReceiver()
log_context.connect_signals()
