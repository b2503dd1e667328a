"""Alerts about queued tasks for which no worker has the capabilities."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from ...delivery.sinks.alert_rules import Violation, get_limit
from ...delivery.sinks.alerts import open_or_update, resolve
from ...kernel import phrasing
from ...kernel.clock import rfc3339
from ...kernel.transition import Severity
from ...records import Alert
from ...records.alert import NO_WORKER
from ...scheduling.matching import Unserved, find_unserved

MAX_KEY_LENGTH = 128
ANY = "any"  # the key of tasks that require no capability


def alert_missing_workers(at: datetime) -> None:
    """Opens, updates and resolves the alerts. A short time without a worker, as between two agents, opens none."""
    patience = timedelta(minutes=get_limit("no_worker_minutes"))
    late = [_describe(each) for each in find_unserved(at) if at - each.since >= patience]
    for violation in late:
        open_or_update(NO_WORKER, Severity.CRITICAL, violation, at)
    open_keys = set(Alert.objects.filter(rule=NO_WORKER, resolved_at=None).values_list("key", flat=True))
    resolve(NO_WORKER, open_keys - {violation.key for violation in late}, at)


def _describe(unserved: Unserved) -> Violation:
    words = phrasing.join_quoted(unserved.capabilities)
    cause = f"No worker for {words}" if words else "No worker"
    waiting = "1 task waits" if unserved.tasks == 1 else f"{unserved.tasks} tasks wait"
    facts: dict[str, Any] = {
        "capabilities": list(unserved.capabilities),
        "count": unserved.tasks,
        "runs": unserved.runs,
        "since": rfc3339(unserved.since),
        "cause": cause,
    }
    return Violation(_make_key(unserved.capabilities), f"{cause}: {waiting}", facts)


def _make_key(capabilities: tuple[str, ...]) -> str:
    return "+".join(capabilities)[:MAX_KEY_LENGTH] or ANY
