"""The log of a task: a tab of its page, followed live by a script, and a file to download."""

from __future__ import annotations

from typing import Any

from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, StreamingHttpResponse
from django.views.decorators.http import require_safe

from statecore.dashboard import rendering
from statecore.dashboard.queries import logs
from statecore.kernel.entity import Entity
from statecore.machines.task import Task

from .lookup import get_entity
from .query_params import get_number, get_text

MAX_ATTEMPT = 2**31 - 1


def read_context(request: HttpRequest, entity: Entity) -> dict[str, Any]:
    if not isinstance(entity, Task):
        return {"log": None}
    return {
        "log": logs.read_window(entity, _get_attempt(request), get_number(request, "before"), get_text(request, "q"))
    }


def _get_attempt(request: HttpRequest) -> int | None:
    given = get_number(request, "attempt")
    return given if given is not None and given <= MAX_ATTEMPT else None


@require_safe
def download(request: HttpRequest, task_id: str) -> StreamingHttpResponse:
    task, attempt = get_entity(request, "tasks", task_id), _get_attempt(request)
    batches = logs.iterate_text(task, attempt)
    content = rendering.iterate_in_thread(batches) if isinstance(request, ASGIRequest) else batches
    response = StreamingHttpResponse(content, content_type="text/plain; charset=utf-8")
    name = task.pk if attempt is None else f"{task.pk}-{attempt}"
    response["Content-Disposition"] = f'attachment; filename="{name}.log"'
    return response
