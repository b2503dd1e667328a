"""Serves static files as whole responses, because a streamed file would block the event loop with its reads."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from whitenoise.middleware import WhiteNoiseMiddleware


class StaticFiles(WhiteNoiseMiddleware):
    @staticmethod
    def serve(static_file: Any, request: HttpRequest) -> HttpResponse:
        """Returns the file, a part of it, or the status alone: 304, 405, 416 and answers to HEAD have no file."""
        found = static_file.get_response(request.method, request.META)
        response = HttpResponse(_read_and_close(found.file), status=int(found.status))
        del response["Content-Type"]  # Django's default; WhiteNoise names the type where there is one
        for name, value in found.headers:
            response[name] = value
        return response


def _read_and_close(file: Any) -> bytes:
    if file is None:
        return b""
    with file:
        content: bytes = file.read()
    return content
