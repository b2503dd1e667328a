"""The Celery application, with Django's settings and the tasks of `statecore.tasks`.

Only processes that queue, inspect or execute tasks import it: Celery takes a tenth of the start of a process.
"""

import os
from typing import Any

from celery import Celery
from celery.signals import before_task_publish
from structlog.contextvars import get_contextvars

from statecore.kernel import spans

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "statecore.project.settings")

app = Celery("statecore")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()

# Of a request, passed on to the log lines of its tasks.
PASSED_ON = ("request_id", "entity_type", "entity_id")
HEADER, TRACE = "statecore", "statecore_trace"


@before_task_publish.connect
def pass_context_on(headers: dict[str, Any], **_: Any) -> None:
    context = get_contextvars()
    headers[HEADER] = {name: context[name] for name in PASSED_ON if name in context}
    headers[TRACE] = spans.inject()
