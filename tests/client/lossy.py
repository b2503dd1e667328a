"""A proxy that hands every request on and keeps some of the answers to itself."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

CHUNK = 65_536
SILENCE = 60.0  # seconds, of the caller or of the server


class Lossy(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, port: int, losses: int) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.port, self.losses = port, losses
        self.lock = threading.Lock()

    def loses(self) -> bool:
        with self.lock:
            self.losses -= 1
            return self.losses >= 0


class Handler(socketserver.BaseRequestHandler):
    """One request per connection: the server is asked to close, so that the end of its answer is seen."""

    server: Lossy

    def handle(self) -> None:
        self.request.settimeout(SILENCE)
        with suppress(OSError):
            request = self._request()
            with socket.create_connection(("127.0.0.1", self.server.port), SILENCE) as server:
                server.sendall(request.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))
                answer = b"".join(iter(lambda: server.recv(CHUNK), b""))
            if not self.server.loses():
                self.request.sendall(answer)

    def _request(self) -> bytes:
        data = b""
        while b"\r\n\r\n" not in data:
            data += self._more()
        head, _, body = data.partition(b"\r\n\r\n")
        lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"connection:")]
        lengths = [int(line.split(b":")[1]) for line in lines if line.lower().startswith(b"content-length:")]
        while len(body) < sum(lengths):
            body += self._more()
        return b"\r\n".join(lines) + b"\r\n\r\n" + body

    def _more(self) -> bytes:
        data: bytes = self.request.recv(CHUNK)
        if not data:
            raise ConnectionError("the caller has hung up")
        return data


@contextmanager
def losing(port: int, losses: int) -> Iterator[str]:
    """The address of a proxy that loses the first answers."""
    with Lossy(port, losses) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{proxy.server_address[1]}"
        finally:
            proxy.shutdown()
            thread.join(10)
