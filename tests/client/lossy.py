"""A proxy that forwards every request and drops the first responses."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

CHUNK = 65_536
SILENCE = 60.0  # seconds without data from the caller or the server


class Lossy(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, port: int, losses: int) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.port, self.losses = port, losses
        self.lock = threading.Lock()

    def should_drop(self) -> bool:
        with self.lock:
            self.losses -= 1
            return self.losses >= 0


class Handler(socketserver.BaseRequestHandler):
    """Handles one request per connection; `Connection: close` marks the end of the server's response."""

    server: Lossy

    def handle(self) -> None:
        self.request.settimeout(SILENCE)
        with suppress(OSError):
            request = self._read_request()
            with socket.create_connection(("127.0.0.1", self.server.port), SILENCE) as server:
                server.sendall(request.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))
                answer = b"".join(iter(lambda: server.recv(CHUNK), b""))
            if not self.server.should_drop():
                self.request.sendall(answer)

    def _read_request(self) -> bytes:
        data = b""
        while b"\r\n\r\n" not in data:
            data += self._receive()
        head, _, body = data.partition(b"\r\n\r\n")
        lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"connection:")]
        lengths = [int(line.split(b":")[1]) for line in lines if line.lower().startswith(b"content-length:")]
        while len(body) < sum(lengths):
            body += self._receive()
        return b"\r\n".join(lines) + b"\r\n\r\n" + body

    def _receive(self) -> bytes:
        data: bytes = self.request.recv(CHUNK)
        if not data:
            raise ConnectionError("the caller has hung up")
        return data


@contextmanager
def losing(port: int, losses: int) -> Iterator[str]:
    """Yield the URL of a proxy that drops the first responses."""
    with Lossy(port, losses) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{proxy.server_address[1]}"
        finally:
            proxy.shutdown()
            thread.join(10)
