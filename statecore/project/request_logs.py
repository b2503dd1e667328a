"""What the middleware that logs requests is told of them, and does with their answers."""

from __future__ import annotations

from typing import Any

from django.dispatch import receiver
from django.http import HttpRequest, HttpResponse
from django_structlog import signals

from statecore import observing


@receiver(signals.bind_extra_request_metadata)
def begin(request: HttpRequest, **_: Any) -> None:
    observing.begin(request)


@receiver(signals.bind_extra_request_finished_metadata)
def finish(request: HttpRequest, response: HttpResponse, log_kwargs: dict[str, Any], **_: Any) -> None:
    log_kwargs |= observing.actor_of(request)
    observing.answered(request, response)


@receiver(signals.update_failure_response)
def fail(request: HttpRequest, response: HttpResponse, **_: Any) -> None:
    observing.answered(request, response)
