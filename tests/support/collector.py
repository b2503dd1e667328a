"""An OpenTelemetry trace collector in a thread of the test process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Collector(BaseHTTPRequestHandler):
    received: list[Any]
    timeout = 10  # for a client that connects and sends nothing

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") is None:
            export = ExportTraceServiceRequest.FromString(body)
            self.received += [
                span for each in export.resource_spans for scope in each.scope_spans for span in scope.spans
            ]
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: Any) -> None: ...


@contextmanager
def collecting() -> Iterator[tuple[str, list[Any]]]:
    """Yields the URL of a collector and the list of spans it has received."""
    received: list[Any] = []
    server = HTTPServer(("127.0.0.1", 0), type("CollectorOfTest", (Collector,), {"received": received}))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", received
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
