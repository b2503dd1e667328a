"""The middleware for pages and API calls without a token; calls with a token have the same in `api.token_fastpath`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.core.signals import got_request_exception
from django.dispatch import receiver
from django.http import HttpRequest, HttpResponse

from . import begin_request, end_request, keep_failure


class RequestContext:
    sync_capable = async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], Any]) -> None:
        self.get_response = get_response
        self.is_async = iscoroutinefunction(get_response)
        if self.is_async:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> Any:
        if self.is_async:
            return self._respond(request)
        begin_request(request)
        return end_request(request, self.get_response(request))

    async def _respond(self, request: HttpRequest) -> HttpResponse:
        begin_request(request)
        return end_request(request, await self.get_response(request))


@receiver(got_request_exception)
def keep_exception(sender: Any, request: HttpRequest | None = None, **_: Any) -> None:
    """Django turns an exception into a response; the line of the request has its traceback."""
    if request is not None:
        keep_failure(request, sys.exc_info())
