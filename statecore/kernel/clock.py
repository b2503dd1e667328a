"""The only source of the current time, which is the database's, the spellings of timestamps, and retry delays."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from hashlib import sha256

from django.conf import settings

# How far the database's clock is ahead of this host's, as storage/database_clock.py has measured it.
_offset = timedelta()


def now() -> datetime:
    """Returns the time of the database's clock, or of this host's in a program without a database."""
    return datetime.now(UTC) + _offset


def set_offset(offset: timedelta) -> None:
    global _offset
    _offset = offset


def get_offset() -> timedelta:
    return _offset


def format_utc(moment: datetime) -> str:
    """Formats a timestamp for a sentence: `2026-01-31 12:00:00 UTC`."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


@lru_cache(maxsize=16)  # the events of a batch or cascade share a timestamp
def rfc3339(moment: datetime) -> str:
    """Formats a timestamp for events and the API: UTC with microseconds and `Z`, sortable as text."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")[:-6] + "Z"


def retry_delay(entity_id: str, retry: int) -> timedelta:
    """Returns the exponential backoff before a retry: between half and all of base · 2^(retry - 1), up to the cap.

    The jitter is a hash of the arguments, so a replay of the same retry waits equally long.
    """
    longest = min(settings.STATECORE_RETRY_CAP_SECONDS, settings.STATECORE_RETRY_BASE_SECONDS * 2 ** min(retry - 1, 30))
    jitter = int.from_bytes(sha256(f"{entity_id}:{retry}".encode()).digest()[:4]) / 2**32
    return timedelta(seconds=longest * (0.5 + jitter / 2))
