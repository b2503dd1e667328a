"""Static files, in one piece: a stream of blocking reads has no place in an event loop."""

from contextlib import closing
from typing import Any

from django.http import HttpRequest, HttpResponse
from whitenoise.middleware import WhiteNoiseMiddleware


class StaticFiles(WhiteNoiseMiddleware):
    @staticmethod
    def serve(static_file: Any, request: HttpRequest) -> HttpResponse:
        stream = WhiteNoiseMiddleware.serve(static_file, request)
        with closing(stream):
            return HttpResponse(b"".join(stream), status=stream.status_code, headers=stream.headers)
