"""The last fault of the database that this process met, which `/readyz` reports.

A probe that writes nothing would not meet a full disk, so the evidence is what was really refused: the calls of this
process, and the report that it writes every few seconds.
"""

from __future__ import annotations

import time

from .database_errors import find_reason

REPORTED_SECONDS = 30.0

_last: tuple[float, str] = (float("-inf"), "")


def note(error: BaseException) -> None:
    """Remembers the error if it is a fault of the database."""
    global _last
    reason = find_reason(error)
    if reason is not None and reason.is_fault:
        _last = time.monotonic(), reason.sentence


def find_recent() -> str | None:
    """Returns the sentence of the last fault, None if it is older than half a minute."""
    at, sentence = _last
    return sentence if time.monotonic() - at < REPORTED_SECONDS else None


def forget() -> None:
    global _last
    _last = (float("-inf"), "")
