"""The settings of the slots of a program."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

ALLOWED = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:-")
LONGEST_NAME = 48


def get_host_name() -> str:
    return clean_name(socket.gethostname()) or "agent"


def clean_name(name: str) -> str:
    """Returns a name that is valid in an id: other characters become dashes, and long names are cut."""
    return "".join(letter if letter in ALLOWED else "-" for letter in name)[:LONGEST_NAME]


@dataclass(frozen=True, slots=True)
class Settings:
    url: str
    token: str = field(repr=False)
    capabilities: tuple[str, ...] = ()
    workstreams: tuple[str, ...] = ()
    name: str = field(default_factory=get_host_name)
    concurrency: int = 1
    heartbeat_seconds: float = 10.0
    wait_seconds: float = 25.0
    fetches_artifacts: bool = False

    def new_worker_id(self) -> str:
        """Returns a new id for each registration, because a worker that was shut down cannot register again."""
        return f"{clean_name(self.name)}-{secrets.token_hex(4)}"

    @property
    def affinity(self) -> Mapping[str, Any] | None:
        return {"workstreams": list(self.workstreams)} if self.workstreams else None
