"""A WebSocket client in a thread that reconnects after the last position it received."""

from __future__ import annotations

import json
import threading
import time
from typing import Any, Self
from urllib.parse import urlencode

from websockets.exceptions import WebSocketException
from websockets.sync.client import connect


class Viewer:
    def __init__(self, ws: str, headers: dict[str, str], path: str = "/ws/events/", **query: Any) -> None:
        self.address, self.headers, self.query = f"{ws}{path}", headers, query
        self.messages: list[dict[str, Any]] = []
        self.times: list[float] = []
        self.position: int | None = query.get("after")
        self.stopped = threading.Event()
        self.connects = 0
        self.thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopped.set()
        self.thread.join(20)

    def _watch(self) -> None:
        while not self.stopped.is_set():
            try:
                self._connect()
            except (OSError, WebSocketException):
                time.sleep(0.05)

    def _connect(self) -> None:
        query = self.query if self.position is None else {**self.query, "after": self.position}
        address = f"{self.address}?{urlencode(query, doseq=True)}"
        with connect(address, additional_headers=self.headers, open_timeout=20, proxy=None) as socket:
            self.connects += 1
            while not self.stopped.is_set():
                try:
                    self._record(json.loads(socket.recv(0.1)))
                except TimeoutError:
                    continue

    def _record(self, message: dict[str, Any]) -> None:
        self.messages.append(message)
        self.times.append(time.monotonic())
        if message["type"] == "events":
            self.position = message["events"][-1]["position"]
        elif "position" in message and self.address.endswith("/events/"):
            self.position = message["position"]

    @property
    def positions(self) -> list[int]:
        return [
            each["position"] for message in self.messages if message["type"] == "events" for each in message["events"]
        ]

    def of_type(self, kind: str) -> list[dict[str, Any]]:
        return [message for message in self.messages if message["type"] == kind]
