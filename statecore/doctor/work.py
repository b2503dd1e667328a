"""How the work stands: whether recent rows verify, what is stuck, which alerts nobody has seen."""

from __future__ import annotations

from collections.abc import Iterator

from .. import integrity
from ..records import Alert
from ..stuck import stuck
from .finding import Finding, fine, many, warn, wrong

MOST = 100


def recent_integrity() -> Iterator[Finding]:
    found = integrity.check_recent()
    errors = [finding for finding in found if finding.severity == integrity.ERROR]
    if errors:
        yield wrong(
            f"{many(len(errors), 'error')}, the first: {errors[0]}",
            "stop everything that writes; manage.py integrity; restore from the last good export",
        )
    elif found:
        says = f"{many(len(found), 'broken rule')}, the first: {found[0]}"
        yield warn(says, "an override may explain it; see the entity")
    else:
        yield fine("recent rows and chains verify")


def stuck_entities() -> Iterator[Finding]:
    found = stuck(MOST)
    if found:
        count = f"{MOST} or more" if len(found) == MOST else str(len(found))
        yield warn(f"{count}, the longest: {found[0].why}", "see Stuck in the console, or `statecore stuck`")
    else:
        yield fine("nothing is past its deadline")


def open_alerts() -> Iterator[Finding]:
    unseen = Alert.objects.filter(resolved_at=None, acknowledged_at=None).order_by("opened_at")
    if first := unseen.first():
        yield warn(f"{unseen.count()} nobody has seen, the oldest: {first}", "see Alerts in the console")
    else:
        yield fine(f"{Alert.objects.filter(resolved_at=None).count()} are open, all seen")
