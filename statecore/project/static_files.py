"""Static files, in one piece: a stream of blocking reads has no place in an event loop."""

from contextlib import closing
from typing import Any

from django.http import HttpRequest, HttpResponse
from whitenoise.middleware import WhiteNoiseMiddleware


class StaticFiles(WhiteNoiseMiddleware):
    @staticmethod
    def serve(static_file: Any, request: HttpRequest) -> HttpResponse:
        served: Any = WhiteNoiseMiddleware.serve(static_file, request)
        answer: HttpResponse = served
        if served.streaming:
            # Not `served.close()`: that tells everybody that the request is over.
            with closing(served.file_to_stream):
                answer = HttpResponse(b"".join(served), status=served.status_code, headers=served.headers)
        return answer
