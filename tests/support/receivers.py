"""A real HTTP server that receives webhooks: it verifies them as a stranger, and fails on demand."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from standardwebhooks.webhooks import Webhook, WebhookVerificationError

HANG, DRIP, REDIRECT, RESET, HUGE = -1, -2, -3, -4, -5


class Received(NamedTuple):
    id: str
    body: dict[str, Any]
    headers: dict[str, str]
    raw: bytes
    answer: int
    at: float

    @property
    def entity(self) -> str:
        return str(self.body["data"].get("entity_id", ""))

    @property
    def sequence(self) -> int:
        return int(self.body["data"]["sequence"])

    def is_signed_with(self, secret: str) -> bool:
        try:
            Webhook(secret).verify(self.raw, self.headers)
        except WebhookVerificationError:
            return False
        return True


class Receiver(ThreadingHTTPServer):
    """Answers with the status that `answer` returns for a message, or fails in one of the ways above."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.received: list[Received] = []
        self.connections = 0
        self.at_once = self.most_at_once = 0
        self.lock = threading.Lock()
        self.answer: Callable[[Received], int] = lambda message: 204
        self.stopped = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/hook?key=hunter2"

    @property
    def accepted(self) -> list[Received]:
        return [each for each in self.received if 200 <= each.answer < 300]

    def accepted_by_entity(self) -> dict[str, list[int]]:
        """Returns the sequence numbers of the events that were accepted, without repeated messages."""
        found: dict[str, list[int]] = {}
        for message in {each.id: each for each in reversed(self.accepted)}.values():
            found.setdefault(message.entity, []).insert(0, message.sequence)
        return found


class Handler(BaseHTTPRequestHandler):
    server: Receiver
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        return

    def do_GET(self) -> None:
        self.do_POST()

    def do_POST(self) -> None:
        server = self.server
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        body = json.loads(raw) if raw else {}
        headers["path"] = self.path
        message = Received(headers.get("webhook-id", ""), body, headers, raw, 0, time.monotonic())
        with server.lock:
            server.at_once += 1
            server.most_at_once = max(server.at_once, server.most_at_once)
        answer = server.answer(message)
        with server.lock:
            server.received.append(message._replace(answer=answer))
        with suppress(OSError):
            self.respond(answer)
        with server.lock:
            server.at_once -= 1

    def respond(self, answer: int) -> None:
        if answer == HANG:
            self.server.stopped.wait(60)
        elif answer == RESET:
            self.connection.close()
        elif answer == DRIP:
            self.drip()
        elif answer == REDIRECT:
            self.send_response(302)
            self.send_header("Location", self.server.url)
            self.send_header("Content-Length", "0")
            self.end_headers()
        else:
            content = b"x" * 10_000_000 if answer == HUGE else b"seen"
            self.send_response(200 if answer == HUGE else answer)
            if answer != 204:
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if answer != 204:
                self.wfile.write(content)

    def drip(self) -> None:
        """Sends a status line byte by byte, each in time but all of them far too slowly."""
        for byte in b"HTTP/1.1 200 OK\r\n" * 100:
            self.wfile.write(bytes([byte]))
            self.wfile.flush()
            if self.server.stopped.wait(0.1):
                return


@contextmanager
def receiving() -> Iterator[Receiver]:
    server = Receiver()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.stopped.set()
        server.shutdown()
        server.server_close()
        thread.join(10)
