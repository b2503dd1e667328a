"""The page that lists exactly what an alert counts: the entity, a search of a machine, or the events of its window."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, NamedTuple

from django.urls import reverse
from django.utils.http import urlencode

from statecore.delivery.sinks.alert_rules import SYSTEM_RULES, get_limit, list_entry_rules
from statecore.journal.accounts import VIEW_ACCOUNTS, Action
from statecore.kernel import registry
from statecore.kernel.clock import now, rfc3339
from statecore.kernel.flow import Flow
from statecore.machines.patch_ledger import PatchLedger
from statecore.machines.patch_ledger import State as Patch
from statecore.machines.task import State as TaskState
from statecore.machines.task import Task
from statecore.records import Alert
from statecore.records.alert import EPOCH, INTEGRITY, INVARIANT, NO_WORKER

from .search import MAX_LENGTH


class Link(NamedTuple):
    url: str
    permission: str  # required to open the page


def find_url(user: Any, alert: Alert) -> str:
    """The page with what the alert counts, if the user may open it."""
    link = find_link(alert)
    return link.url if link and user.has_perm(link.permission) else ""


def find_link(alert: Alert) -> Link | None:
    """None for a rule that counts nothing a page could list."""
    if (flow := _find_machine(alert.rule)) is not None:
        return Link(reverse("console:entity", args=[flow.collection, alert.key]), flow.permission("view"))
    return LISTS[alert.rule](alert) if alert.rule in LISTS else None


def _find_machine(rule: str) -> Flow | None:
    return next((each.flow for each in list_entry_rules() if each.name == rule), None)


def _failures(alert: Alert) -> Link:
    return _events(alert, "failure_minutes", severity="failures")


def _retries(alert: Alert) -> Link:
    states = {"from_state": TaskState.RUNNING, "to_state": TaskState.RETRYING}
    return _events(alert, "retry_minutes", machine=Task.flow.entity_type, **states)


def _overrides(alert: Alert) -> Link:
    return _events(alert, "override_minutes", kind="override")


def _quarantined(alert: Alert) -> Link:
    return _events(alert, "quarantine_minutes", machine=PatchLedger.flow.entity_type, to_state=str(Patch.QUARANTINED))


def _blocked(alert: Alert) -> Link:
    return _entities(Task.flow, f"state:{TaskState.BLOCKED}")


def _no_progress(alert: Alert) -> Link:
    return _entities(Task.flow, "stalled:yes")


def _findings(alert: Alert) -> Link | None:
    """The entities that an integrity check found; None if it found something else, or too many for one search."""
    flow = next((flow for flow in registry.flows() if flow.entity_type == alert.facts.get("entity_type")), None)
    query = f"id:{','.join(alert.facts.get('ids', ()))}"
    return None if flow is None or query == "id:" or len(query) > MAX_LENGTH else _entities(flow, query)


def _decision(alert: Alert) -> Link | None:
    """The page of the entity, which offers what can be done; None for a machine that is no longer installed."""
    machine, _space, entity_id = alert.key.partition(" ")
    flow = next((flow for flow in registry.flows() if flow.entity_type == machine), None)
    if flow is None:
        return None
    return Link(reverse("console:entity", args=[flow.collection, entity_id]), flow.permission("view"))


def _stuck(alert: Alert) -> Link | None:
    """None for a machine that is no longer installed."""
    machine, _dot, state = alert.key.partition(".")
    flow = next((flow for flow in registry.flows() if flow.entity_type == machine), None)
    query = f"state:{state} overdue:{get_limit('stuck_factor'):g}x"
    return None if flow is None else _entities(flow, query)


def _epoch(alert: Alert) -> Link:
    return Link(f"{reverse('console:audit')}#{alert.key}", "statecore.view_event")


def _webhook(alert: Alert) -> Link:
    return Link(reverse("console:webhook", args=[alert.key]), "statecore.view_webhook")


def _break_glass(alert: Alert) -> Link:
    query = urlencode({"account": alert.key, "action": str(Action.BREAK_GLASS_USED)})
    return Link(f"{reverse('console:accounts')}?{query}", VIEW_ACCOUNTS)


def _system(alert: Alert) -> Link:
    return Link(reverse("console:system"), "statecore.view_processreport")


def _missing_worker(alert: Alert) -> Link:
    return _entities(Task.flow, f"state:{TaskState.QUEUED}")


LISTS: dict[str, Callable[[Alert], Link | None]] = {
    "break_glass": _break_glass,
    "failure_rate": _failures,
    "retry_rate": _retries,
    "override_spike": _overrides,
    "quarantined_patches": _quarantined,
    "blocked_tasks": _blocked,
    "stuck": _stuck,
    "no_progress": _no_progress,
    "needs_decision": _decision,
    "webhook_late": _webhook,
    "webhook_disabled": _webhook,
    INTEGRITY: _findings,
    INVARIANT: _findings,
    EPOCH: _epoch,
    NO_WORKER: _missing_worker,
    **{rule.name: _system for rule in SYSTEM_RULES},
}
# Rules without a list: their text is complete.
WITHOUT_LINK = {"restore_drill"}


def _entities(flow: Flow, query: str) -> Link:
    url = f"{reverse('console:machine', args=[flow.collection])}?{urlencode({'q': query})}"
    return Link(url, flow.permission("view"))


def _events(alert: Alert, minutes: str, **filters: Any) -> Link:
    """The events of the alert's window, which ends now or when the alert was resolved."""
    end = alert.resolved_at or now()
    start = (end - timedelta(minutes=get_limit(minutes))).replace(second=0, microsecond=0)
    window = {"since": rfc3339(start), **({"until": rfc3339(end)} if alert.resolved_at else {})}
    return Link(f"{reverse('console:audit')}?{urlencode({**filters, **window})}", "statecore.view_event")
