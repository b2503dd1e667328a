"""A collector of traces, in a thread of this process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Collector(BaseHTTPRequestHandler):
    heard: list[Any]
    timeout = 10  # for who has called and says nothing

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") is None:
            told = ExportTraceServiceRequest.FromString(body)
            self.heard += [span for each in told.resource_spans for scope in each.scope_spans for span in scope.spans]
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: Any) -> None: ...


@contextmanager
def collecting() -> Iterator[tuple[str, list[Any]]]:
    """The address of a collector, and the spans it has heard of."""
    heard: list[Any] = []
    server = HTTPServer(("127.0.0.1", 0), type("Heard", (Collector,), {"heard": heard}))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", heard
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
