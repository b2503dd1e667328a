"""Every refusal is counted, once, by the outermost door that says it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import Counter

from ..kernel.refusals import Refusal

refusals_total = Counter("statecore_refusals_total", "Changes the door refused", ["entity_type", "code"])


@contextmanager
def counted(entity_type: str) -> Iterator[None]:
    try:
        yield
    except Refusal as refusal:
        count(entity_type, refusal)
        raise


def count(entity_type: str, refusal: Refusal) -> None:
    """A refusal that passes several doors on its way out was said by the first."""
    if not refusal.counted:
        refusal.counted = True
        refusals_total.labels(entity_type, refusal.code).inc()
