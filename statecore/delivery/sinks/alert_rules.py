"""The alert rules: about single events, about counts and deadlines, and about the findings of integrity checks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Q, QuerySet, Sum

from ...journal import accounts
from ...kernel import extensions, registry
from ...kernel.clock import format_utc
from ...kernel.flow import Flow
from ...kernel.transition import Severity
from ...machines.circuit_breaker import CircuitBreaker
from ...machines.circuit_breaker import State as Breaker
from ...machines.patch_ledger import PatchLedger
from ...machines.patch_ledger import State as Patch
from ...machines.task import State as TaskState
from ...machines.task import Task
from ...machines.uet_worker import QUARANTINE_LIMIT, UetWorker
from ...machines.uet_worker import State as UetState
from ...machines.worker import RECOVERY_WINDOW, Worker
from ...machines.worker import State as WorkerState
from ...read_models import stuck, webhooks
from ...records import StateCount, TransitionRollUp, restore_drill
from ...records.alert import EPOCH, INTEGRITY, INVARIANT, NO_WORKER
from ...records.roll_up import Resolution
from ...scheduling import deadlines

MAX_STUCK_IDS = 20  # listed in one alert
MAX_WEBHOOKS = 50  # alerts about disabled webhooks at a time, the oldest first
BREAK_GLASS_WINDOW = timedelta(hours=1)
MAX_DECISIONS = 50  # alerts about decisions at a time, the oldest first
OVERDUE_DRILL = restore_drill.EVERY + restore_drill.REPEATED_AFTER
# Workers without work that leave without signing off: a sweep ends them after this time. It is an alert only if not.
ENDED_WHEN_SILENT = {
    (Worker.flow.entity_type, str(WorkerState.IDLE)): RECOVERY_WINDOW,
    (UetWorker.flow.entity_type, str(UetState.IDLE)): QUARANTINE_LIMIT,
}


@dataclass(frozen=True, slots=True)
class Violation:
    """What a rule found. `key` identifies its subject; a rule has at most one open alert for a key."""

    key: str
    detail: str
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EntryRule:
    """Opens an alert when an entity enters `state`.

    The alert resolves when the entity enters a state of `ends_in` or, if that is empty, after some minutes.
    """

    name: str
    severity: Severity
    flow: Flow
    state: str
    detail: str
    condition: str
    ends_in: Collection[str] = ()
    minutes: str = ""  # the setting that holds the minutes
    # For states that neither open nor resolve the alert: the text that an open alert then has.
    still_open: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CountRule:
    """Opens an alert for each violation that `check` finds; the alert resolves when `check` no longer finds it."""

    name: str
    severity: Severity
    condition: str
    check: Callable[[datetime], Iterator[Violation]]


@dataclass(frozen=True, slots=True)
class FindingRule:
    """An alert about findings of checks and sweeps of `statecore.operations`, which open and resolve it."""

    name: str
    severity: Severity
    condition: str


def get_limit(name: str) -> float:
    return float(settings.STATECORE_ALERTS[name])


def _select_rates(at: datetime, minutes: str) -> Any:
    """Returns the rates of the last minutes, including the whole minute in which the window begins."""
    start = (at - timedelta(minutes=get_limit(minutes))).replace(second=0, microsecond=0)
    return TransitionRollUp.objects.filter(resolution=Resolution.MINUTE, start__gte=start)


def find_too_many_failures(at: datetime) -> Iterator[Violation]:
    changes = _select_rates(at, "failure_minutes").exclude(from_state="")
    sums = changes.aggregate(all=Sum("count"), failed=Sum("failures"))
    yield from _check_share("failures", sums["failed"] or 0, sums["all"] or 0, "failure", "transitions failed")


def find_too_many_retries(at: datetime) -> Iterator[Violation]:
    ended = _select_rates(at, "retry_minutes").filter(entity_type=Task.flow.entity_type, from_state=TaskState.RUNNING)
    sums = ended.aggregate(all=Sum("count"), retried=Sum("count", filter=Q(to_state=TaskState.RETRYING)))
    yield from _check_share("retries", sums["retried"] or 0, sums["all"] or 0, "retry", "task attempts need a retry")


def _check_share(key: str, some: int, total: int, kind: str, description: str) -> Iterator[Violation]:
    if total >= get_limit(f"{kind}_least") and some * 100 > get_limit(f"{kind}_percent") * total:
        minutes = get_limit(f"{kind}_minutes")
        detail = f"{some} of {total} {description} in {minutes:.0f} minutes ({some * 100 / total:.0f} %)"
        yield Violation(key, detail, {"count": some, "of": total, "minutes": minutes})


def find_too_many_overrides(at: datetime) -> Iterator[Violation]:
    count = _select_rates(at, "override_minutes").aggregate(sum=Sum("overrides"))["sum"] or 0
    if count > get_limit("override_count"):
        yield Violation(
            "overrides", f"{count} overrides in {get_limit('override_minutes'):.0f} minutes", {"count": count}
        )


def find_too_many_quarantined(at: datetime) -> Iterator[Violation]:
    entered = _select_rates(at, "quarantine_minutes").filter(
        entity_type=PatchLedger.flow.entity_type, to_state=Patch.QUARANTINED
    )
    count = entered.aggregate(sum=Sum("count"))["sum"] or 0
    if count > get_limit("quarantine_count"):
        detail = f"{count} patches quarantined in {get_limit('quarantine_minutes'):.0f} minutes"
        yield Violation("quarantined", detail, {"count": count})


def find_too_many_blocked(at: datetime) -> Iterator[Violation]:
    """Tasks that wait in a workstream whose other tasks go on are not counted: a chain is blocked but for its head."""
    counted = StateCount.objects.filter(entity_type=Task.flow.entity_type, state=TaskState.BLOCKED)
    if (counted.values_list("count", flat=True).first() or 0) <= get_limit("blocked_count"):
        return
    count = stuck.select_hopelessly_blocked().count()
    if count > get_limit("blocked_count"):
        yield Violation("blocked", f"{count} tasks are blocked", {"count": count})


def find_no_progress(at: datetime) -> Iterator[Violation]:
    """Yields a violation for the tasks whose agents are alive but report the same progress for too long."""
    rows = stuck.select_without_progress(at).order_by("progress_due_at", "pk")
    if found := list(rows[:MAX_STUCK_IDS]):
        count = len(found) if len(found) < MAX_STUCK_IDS else rows.count()
        subject = f"task {found[0].pk} is" if count == 1 else f"{count} tasks are"
        since = format_utc(found[0].progressed_at())
        detail = f"{subject} alive but without progress, since {since}"
        facts = {"count": count, "ids": [task.pk for task in found]}
        yield Violation("tasks", detail, facts)


def find_decisions(at: datetime) -> Iterator[Violation]:
    """Yields a violation for each entity that waits for an operator's decision, with what the operator can do."""
    for item in stuck.list_decisions(at, MAX_DECISIONS):
        entity_type = item.entity.flow.entity_type
        noun = item.entity.flow.event_noun.replace("_", " ")
        detail = f"{noun} {item.entity.pk} needs a decision ({item.recovery.action}): {item.why}"
        facts = {"entity_type": entity_type, "ids": [item.entity.pk], "action": item.recovery.action}
        yield Violation(f"{entity_type} {item.entity.pk}", detail, facts)


def find_late_webhooks(at: datetime) -> Iterator[Violation]:
    """Yields a violation for each enabled webhook whose oldest undelivered event is older than the limit."""
    limit = timedelta(minutes=get_limit("webhook_minutes"))
    for webhook, since in webhooks.list_waiting():
        if since is not None and at - since > limit:
            detail = f"webhook {webhook.pk} to {webhook.host} has not delivered events since {format_utc(since)}"
            yield Violation(webhook.pk, detail, {"webhook": webhook.pk})


def find_disabled_webhooks(at: datetime) -> Iterator[Violation]:
    """Yields a violation for each webhook that was disabled because its receiver failed."""
    for webhook in webhooks.list_failed()[:MAX_WEBHOOKS]:
        detail = f"webhook {webhook.pk} to {webhook.host} is disabled: {webhook.disabled_reason}"
        yield Violation(webhook.pk, detail, {"webhook": webhook.pk})


def find_break_glass_logins(at: datetime) -> Iterator[Violation]:
    """Yields a violation for each account that has used a password lately although single sign-on is required."""
    names = settings.STATECORE_BREAK_GLASS_ACCOUNTS if settings.STATECORE_SIGN_IN_ONLY else ()
    for entry in accounts.list_break_glass_logins(names, since=at - BREAK_GLASS_WINDOW):
        detail = f"{entry.actor} logged in with a password at {format_utc(entry.timestamp)}"
        yield Violation(entry.entity_id, detail, {"account": entry.entity_id})


def find_failing_drills(at: datetime) -> Iterator[Violation]:
    """Yields a violation if the last restore drill failed, or if the next one is more than a day late."""
    last = restore_drill.find_last() if settings.STATECORE_DRILL_DATABASE else None
    if last is None:
        return
    if last.has_failed(at):
        why = last.error or "it was interrupted"
        yield Violation("drill", f"the {last} failed: {why}")
    elif last.started_at < at - OVERDUE_DRILL:
        yield Violation("drill", f"no restore drill was run since that of {format_utc(last.started_at)}")


def find_stuck(at: datetime) -> Iterator[Violation]:
    """Yields a violation for each machine and state in which entities are far past their deadline."""
    for flow in registry.flows():
        for state in flow.timing:
            stuck_entities = _select_stuck(flow, state, at)
            if found := list(stuck_entities[:MAX_STUCK_IDS]):
                count = len(found) if len(found) < MAX_STUCK_IDS else stuck_entities.count()
                yield _describe_stuck(flow, state, found, count)


def _select_stuck(flow: Flow, state: str, at: datetime) -> QuerySet[Any]:
    factor = get_limit("stuck_factor")
    ended_after = ENDED_WHEN_SILENT.get((flow.entity_type, state), timedelta())
    return deadlines.select_stuck(flow, state, at, factor, at_least=factor * ended_after)


def _describe_stuck(flow: Flow, state: str, found: list[Any], count: int) -> Violation:
    """Returns the violation with the number of these entities, and the ids of those that are overdue longest."""
    one = f"{flow.event_noun.replace('_', ' ')} {found[0].pk} has"
    subject = one if count == 1 else f"{count} {flow.collection.replace('-', ' ')} have"
    since = format_utc(deadlines.get_clock_start(found[0]))
    detail = f"{subject} been {state.lower().replace('_', ' ')} for far longer than expected, since {since}"
    return Violation(f"{flow.entity_type}.{state}", detail, {"count": count, "ids": [entity.pk for entity in found]})


ENTRY_RULES = (
    # A half-open breaker keeps the alert open, so that alternating between open and half-open is one alert.
    EntryRule(
        "breaker_open", Severity.CRITICAL, CircuitBreaker.flow, Breaker.OPEN, "circuit breaker {} is open",
        "a circuit breaker is open, or half-open and on trial: its tool failed too often", ends_in={Breaker.CLOSED},
        still_open={Breaker.HALF_OPEN: "circuit breaker {} is half-open: trial calls decide whether it closes"},
    ),
    EntryRule(
        "rollback", Severity.CRITICAL, PatchLedger.flow, Patch.ROLLED_BACK, "patch {} was rolled back",
        "a committed patch was rolled back within the last {rollback_minutes} minutes", minutes="rollback_minutes",
    ),
    EntryRule(
        "worker_unresponsive", Severity.WARNING, Worker.flow, WorkerState.UNRESPONSIVE, "worker {} is unresponsive",
        "a worker that holds tasks has missed its heartbeats", ends_in=set(WorkerState) - {WorkerState.UNRESPONSIVE},
    ),
)  # fmt: skip

COUNT_RULES = (
    CountRule(
        "break_glass", Severity.CRITICAL,
        "a break-glass account has logged in with a password within an hour although single sign-on is required",
        find_break_glass_logins,
    ),
    CountRule(
        "failure_rate", Severity.CRITICAL,
        "of at least {failure_least} transitions within {failure_minutes} minutes, more than {failure_percent} % were "
        "failures", find_too_many_failures,
    ),
    CountRule(
        "override_spike", Severity.CRITICAL,
        "more than {override_count} states were forced within {override_minutes} minutes", find_too_many_overrides,
    ),
    CountRule(
        "stuck", Severity.CRITICAL,
        "an entity has made no progress for more than {stuck_factor} times its deadline or its learnt duration",
        find_stuck,
    ),
    CountRule(
        "retry_rate", Severity.WARNING,
        "of at least {retry_least} task attempts that ended within {retry_minutes} minutes, more than "
        "{retry_percent} % need a retry", find_too_many_retries,
    ),
    CountRule(
        "quarantined_patches", Severity.WARNING,
        "more than {quarantine_count} patches were quarantined within {quarantine_minutes} minutes",
        find_too_many_quarantined,
    ),
    CountRule(
        "blocked_tasks", Severity.WARNING,
        "more than {blocked_count} tasks are blocked in workstreams with a failure or without a task under way",
        find_too_many_blocked,
    ),
    CountRule(
        "no_progress", Severity.WARNING,
        "a task whose agent is alive has reported the same progress for longer than its `progress_timeout_sec`, or "
        "STATECORE_PROGRESS_SECONDS", find_no_progress,
    ),
    CountRule(
        "needs_decision", Severity.WARNING,
        "a part of a run or workstream failed or was cancelled, and an operator decides how it goes on", find_decisions,
    ),
    CountRule(
        "webhook_late", Severity.WARNING,
        "the oldest event that an enabled webhook has not delivered is older than {webhook_minutes} minutes",
        find_late_webhooks,
    ),
    CountRule(
        "restore_drill", Severity.ERROR,
        "the last restore drill failed, or none was run for more than eight days although STATECORE_DRILL_DATABASE is "
        "set", find_failing_drills,
    ),
    CountRule(
        "webhook_disabled", Severity.ERROR,
        "a webhook was disabled because its receiver failed for too long or no longer exists", find_disabled_webhooks,
    ),
)  # fmt: skip

FINDING_RULES = (
    FindingRule(
        NO_WORKER,
        Severity.CRITICAL,
        "tasks have been queued for more than {no_worker_minutes} min, and no live worker has their capabilities",
    ),
    FindingRule(
        INTEGRITY, Severity.CRITICAL, "stored data does not verify: it was changed in another way than by a transition"
    ),
    FindingRule(
        INVARIANT, Severity.CRITICAL, "entities contradict each other, although each of them is in a legal state"
    ),
    FindingRule(
        EPOCH,
        Severity.CRITICAL,
        "a failover or a restore began a new epoch of the journal, and events may be lost; the alert resolves when it "
        "is acknowledged",
    ),
)

# About the installation itself. `operations.watch` evaluates them, also while no sequencer leads.
SYSTEM_RULES = (
    FindingRule(
        "process_silent", Severity.CRITICAL,
        "a process has stopped reporting without signing off, and none was started in its place",
    ),
    FindingRule(
        "process_restarts", Severity.ERROR, "a process was started again three times or more, each within half an hour"
    ),
    FindingRule("no_leader", Severity.CRITICAL, "no sequencer leads, so events get no positions"),
    FindingRule(
        "sequencer_behind", Severity.CRITICAL,
        "an event has waited longer than STATECORE_SEQUENCER_LAG_SECONDS for its position or for a sink",
    ),
    FindingRule("broker_unreachable", Severity.CRITICAL, "Redis is unreachable, hangs, or is full"),
    FindingRule("sweep_late", Severity.ERROR, "a sweep of beat has not started for several of its intervals"),
    FindingRule(
        "disk_low", Severity.ERROR,
        "less than {disk_free_mb} MiB are free for the database, the journal file, exports or archives",
    ),
    FindingRule(
        "clock_skew", Severity.WARNING,
        "the clock of a process differs from the database's by more than {clock_skew_seconds} s",
    ),
    FindingRule("witness_silent", Severity.ERROR, "a witness has cosigned nothing for STATECORE_WITNESS_SECONDS"),
)  # fmt: skip

RULES = (*SYSTEM_RULES, *COUNT_RULES, *ENTRY_RULES, *FINDING_RULES)


def list_count_rules() -> list[CountRule]:
    """Returns our rules and those of other packages."""
    return [*COUNT_RULES, *(rule for rule in extensions.alert_rules if isinstance(rule, CountRule))]


def list_entry_rules() -> list[EntryRule]:
    return [*ENTRY_RULES, *(rule for rule in extensions.alert_rules if isinstance(rule, EntryRule))]


def list_rules() -> list[CountRule | EntryRule | FindingRule]:
    return [*SYSTEM_RULES, *list_count_rules(), *list_entry_rules(), *FINDING_RULES]
