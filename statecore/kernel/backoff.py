"""How long to wait before the next try: exponential, with jitter, and the same for the same try."""

from __future__ import annotations

from datetime import timedelta
from hashlib import sha256

from django.conf import settings


def delay(entity_id: str, tries: int) -> timedelta:
    """Between half and all of base · 2^(tries-1); spread by a hash, so that a replayed try waits as long as before."""
    longest = min(settings.STATECORE_RETRY_CAP_SECONDS, settings.STATECORE_RETRY_BASE_SECONDS * 2 ** min(tries - 1, 30))
    spread = int.from_bytes(sha256(f"{entity_id}:{tries}".encode()).digest()[:4]) / 2**32
    return timedelta(seconds=longest * (0.5 + spread / 2))
