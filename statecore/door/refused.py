"""Every refusal is counted, and a refused override is written to the log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import structlog
from prometheus_client import Counter

from ..kernel.actors import Actor
from ..kernel.refusals import Refusal

log = structlog.get_logger(__name__)

refusals_total = Counter("statecore_refusals_total", "Changes the door refused", ["entity_type", "code"])


@contextmanager
def counted(entity_type: str, actor: Actor, entity_id: str, verb: str) -> Iterator[None]:
    try:
        yield
    except Refusal as refusal:
        refusals_total.labels(entity_type, refusal.code).inc()
        if verb == "override":
            log.warning(
                "override_refused",
                entity_type=entity_type,
                entity_id=entity_id,
                actor=actor.name,
                code=refusal.code,
                detail=refusal.detail,
            )
        raise
