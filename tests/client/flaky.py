"""An HTTP server that drops, delays and refuses requests on demand, and counts what it did."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Headers = dict[str, str]


@dataclass(frozen=True)
class Reply:
    """The handling of one request: its response, whether it is executed, and whether the response arrives."""

    status: int = 200
    body: Any = None
    headers: Headers = field(default_factory=dict)
    executes: bool = False
    drops: bool = False
    hangs: bool = False


DROPPED = Reply(drops=True)
DONE_BUT_DROPPED = Reply(executes=True, drops=True)
HANGS = Reply(hangs=True)
UNAVAILABLE = Reply(503, {"code": "unavailable", "detail": "the database is away"})
BROKEN = Reply(502, "<html>bad gateway</html>")
DONE_BUT_DAMAGED = Reply(body=b"not what it says it is", headers={"Content-Encoding": "gzip"}, executes=True)


def throttled(seconds: float) -> Reply:
    return Reply(429, {"code": "throttled", "detail": "too many calls"}, {"Retry-After": str(seconds)})


def refused(status: int, code: str, **facts: Any) -> Reply:
    return Reply(status, {"code": code, "detail": f"it is {code}", "status": status, **facts})


class Flaky:
    """Plays its replies in order, then executes every request, once per idempotency key."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies)
        self.requests: list[tuple[str, str, Headers, bytes]] = []
        self.done: dict[str, Any] = {}
        self.executions = 0
        self.released = threading.Event()
        self.lock = threading.Lock()

    @property
    def keys(self) -> list[str]:
        return [headers.get("idempotency-key", "") for _method, _path, headers, _body in self.requests]

    def next_reply(self, method: str, path: str, headers: Headers, body: bytes) -> Reply:
        with self.lock:
            self.requests.append((method, path, headers, body))
            reply = self.replies.pop(0) if self.replies else Reply(executes=True)
            return self._execute(reply, headers) if reply.executes else reply

    def _execute(self, reply: Reply, headers: Headers) -> Reply:
        key = headers.get("idempotency-key", "")
        replayed = bool(key) and key in self.done
        if not replayed:
            self.executions += 1
            self.done[key] = {"changed": True, "number": self.executions}
        extra = {"Idempotent-Replayed": "true"} if replayed else {}
        return Reply(reply.status, reply.body or self.done[key], {**reply.headers, **extra}, drops=reply.drops)


def handler(flaky: Flaky) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            headers = {name.lower(): value for name, value in self.headers.items()}
            reply = flaky.next_reply(self.command, self.path, headers, self.rfile.read(length))
            if reply.hangs:
                flaky.released.wait(30)
            if reply.drops or reply.hangs:
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            content = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
            self.send_response(reply.status)
            for name, value in {"Content-Type": "application/json", **reply.headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None: ...

    for method in ("GET", "POST", "PATCH", "PUT", "DELETE"):
        setattr(Handler, f"do_{method}", Handler.answer)
    return Handler


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 50

    def handle_error(self, *_: Any) -> None: ...  # clients that hang up are expected


@contextmanager
def serving(flaky: Flaky) -> Iterator[str]:
    server = Server(("127.0.0.1", 0), handler(flaky))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        flaky.released.set()
        server.shutdown()
        server.server_close()
        thread.join(10)
