"""Critical alerts about the findings of integrity checks: one per check and machine, with the ids of the entities.

An alert about stored data that does not verify stays open until a complete check no longer finds it, and an alert
about a difference from a copy until a comparison finds none. An alert about a broken invariant resolves when the
entities agree again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from datetime import datetime

import structlog

from ..delivery.sinks.alert_rules import Violation
from ..delivery.sinks.alerts import open_or_update, resolve
from ..kernel.clock import now
from ..kernel.transition import Severity
from ..records import Alert
from ..records.alert import INTEGRITY, INVARIANT
from . import integrity
from .integrity import ERROR, Finding
from .integrity.findings import LIMIT

log = structlog.get_logger(__name__)

OUTSIDE_COPY = "outside_copy"

# Entities that broke an invariant in the last sweep of this process. A reaction may only have been late.
_suspects: set[tuple[str, str]] = set()


def raise_alarms(findings: Iterable[Finding]) -> None:
    """Opens alerts for the errors of a partial check, or adds their entities to the open alerts."""
    errors = _log_and_select(findings)
    _open_alerts(INTEGRITY, errors, now(), known=_read_open_ids(INTEGRITY))


def update_after_complete_check(findings: Iterable[Finding]) -> None:
    """Replaces the open alerts by those for the errors of a complete check, except that of a comparison."""
    at, errors = now(), _log_and_select(findings)
    keys = _open_alerts(INTEGRITY, errors, at, known={})
    resolve(INTEGRITY, set(_read_open_ids(INTEGRITY)) - keys - {OUTSIDE_COPY}, at)


def update_after_comparison(differences: Iterable[Finding]) -> None:
    """Opens or resolves the alert about a copy that an operator named. Other checks do not know that copy."""
    at, errors = now(), _log_and_select(replace(each, check=OUTSIDE_COPY) for each in differences)
    keys = _open_alerts(INTEGRITY, errors, at, known={})
    resolve(INTEGRITY, {OUTSIDE_COPY} - keys, at)


def sweep_invariants() -> None:
    """Checks the next entities, and opens alerts for those that the previous sweep also found."""
    at, found = now(), integrity.sweep_invariants()
    open_ids = _read_open_ids(INVARIANT)
    doubtful = _suspects.union((key.rpartition(".")[2], pk) for key, ids in open_ids.items() for pk in ids)
    broken = integrity.recheck_invariants(doubtful)
    known = {pk for ids in open_ids.values() for pk in ids}
    # Once each, and none that time alone has broken: a worker that left without signing off is ended by a sweep.
    for finding in broken:
        if finding.entity_id not in known:
            log.warning("invariant_broken", finding=str(finding))
    keys = _open_alerts(INVARIANT, broken, at, known={})
    resolve(INVARIANT, set(open_ids) - keys, at)
    _suspects.clear()
    _suspects.update((finding.entity_type, finding.entity_id) for finding in found)


def _log_and_select(findings: Iterable[Finding]) -> list[Finding]:
    errors = [finding for finding in findings if finding.severity == ERROR]
    for finding in errors:
        log.error("integrity_finding", finding=str(finding))
    return errors


def _open_alerts(rule: str, findings: Iterable[Finding], at: datetime, known: dict[str, Collection[str]]) -> set[str]:
    """Opens or updates one alert per check and machine and returns their keys; `known` has ids to keep."""
    grouped: dict[str, list[Finding]] = {}
    for finding in findings:
        grouped.setdefault(".".join(filter(None, (finding.check, finding.entity_type))), []).append(finding)
    for key, group in grouped.items():
        open_or_update(rule, Severity.CRITICAL, _describe(key, group, known.get(key, ())), at)
    return set(grouped)


def _describe(key: str, group: list[Finding], known: Collection[str]) -> Violation:
    first, ids = group[0], sorted({finding.entity_id for finding in group if finding.entity_id}.union(known))
    facts = {"check": first.check, "entity_type": first.entity_type, "ids": ids[:LIMIT]}
    if not ids:
        return Violation(key, f"{first.detail} ({first.check})", facts)
    others = f", and {len(ids) - 1} more" if len(ids) > 1 else ""
    detail = f"{first.entity_type} {first.entity_id}{others}: {first.detail} ({first.check})"
    return Violation(key, detail, facts)


def _read_open_ids(rule: str) -> dict[str, Collection[str]]:
    alerts = Alert.objects.filter(rule=rule, resolved_at=None).values_list("key", "facts")
    return {key: facts.get("ids", ()) for key, facts in alerts}
