"""Receivers of django-structlog's signals: they add the request context to its log lines."""

from __future__ import annotations

from typing import Any

from django.dispatch import receiver
from django.http import HttpRequest, HttpResponse
from django_structlog import signals

from statecore import request_context


@receiver(signals.bind_extra_request_metadata)
def begin(request: HttpRequest, **_: Any) -> None:
    request_context.begin_request(request)


@receiver(signals.bind_extra_request_finished_metadata)
def finish(request: HttpRequest, response: HttpResponse, log_kwargs: dict[str, Any], **_: Any) -> None:
    log_kwargs |= request_context.describe_actor(request)
    request_context.end_request(request, response)


@receiver(signals.update_failure_response)
def fail(request: HttpRequest, response: HttpResponse, **_: Any) -> None:
    request_context.end_request(request, response)
