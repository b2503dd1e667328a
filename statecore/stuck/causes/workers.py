"""What is the matter with a worker, of either kind."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ...machines.worker import SILENCE_LIMIT
from .. import words
from .wait import Cause

STARTING = ("initializing", "SPAWNING")


def cause(worker: Any, at: datetime) -> Cause:
    if worker.state in STARTING:
        return words.standing(worker, at, "it has not reported ready")
    if is_silent(worker, at):
        return f"not heard from for {words.length(at - worker.last_heartbeat)}"
    return words.standing(worker, at)


def is_silent(worker: Any, at: datetime) -> bool:
    return bool(at - worker.last_heartbeat > SILENCE_LIMIT)
