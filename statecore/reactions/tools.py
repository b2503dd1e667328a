"""Tools of tasks and gates: a start needs the permission of the tool's circuit breaker, and the end is reported to it.

Tasks and gates without a tool cost nothing here. A breaker is locked only while it decides something: if it is not
closed, or if it has a limit. A transaction waits for at most one such lock, so that two of them cannot deadlock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db.models import Q
from django.db.models.expressions import RawSQL

from ..journal import EventKind
from ..kernel.actors import Actor, Kind
from ..kernel.clock import now
from ..kernel.refusals import GuardFailed, Unmet
from ..machines import task, test_gate
from ..machines.circuit_breaker import CircuitBreaker, State
from ..machines.task import Task
from ..machines.test_gate import TestGate
from ..records import RunQueue, tool_lease
from ..transitions.change import Change
from ..transitions.unit_of_work import UnitOfWork
from . import tool_reports
from .tool_reports import Reporter

RUNNING = {Task: task.State.RUNNING, TestGate: test_gate.State.RUNNING}
BREAKERS = CircuitBreaker._meta.db_table
# The number of running tasks and gates with the tool of a breaker.
IN_USE = " + ".join(
    f"(SELECT count(*) FROM {model._meta.db_table} AS holder "
    f"WHERE holder.tool = {BREAKERS}.id AND NOT (holder.tool = '') AND holder.state = '{state.value}')"
    for model, state in RUNNING.items()
)
# One list for a whole statement: the databases read it once, however many tasks of these tools are queued.
UNAVAILABLE = (
    f"SELECT {BREAKERS}.id FROM {BREAKERS} WHERE {BREAKERS}.state = '{State.OPEN.value}' "
    f"OR ({BREAKERS}.state = '{State.HALF_OPEN.value}' AND {BREAKERS}.probe_until IS NOT NULL) "
    f"OR ({BREAKERS}.concurrency_limit > 0 AND {BREAKERS}.concurrency_limit <= {IN_USE})"
)
# Exit codes from 124 on are those of shells and of timeout(1): the command did not run to its end.
NO_VERDICT = 124


def is_available(tool: str = "tool") -> Q:
    """The condition that an entity has no tool or one that permits a start; `tool` names the field."""
    return Q(**{tool: ""}) | ~Q(**{f"{tool}__in": RawSQL(UNAVAILABLE, [])})  # noqa: S611 - a constant


def find_unavailable() -> dict[str, tuple[CircuitBreaker, int]]:
    """Return the breakers that permit no start, with the number of running tasks and gates, by tool."""
    found = CircuitBreaker.objects.filter(pk__in=RawSQL(UNAVAILABLE, []))  # noqa: S611 - a constant
    return {breaker.pk: (breaker, breaker.in_use) for breaker in found.annotate(in_use=RawSQL(IN_USE, []))}  # noqa: S611


# Starts


def admit(
    work: UnitOfWork,
    starting: Sequence[Any],
    actor: Actor,
    *,
    is_running: bool = False,
    earlier: Counter[str] | None = None,
) -> list[Any]:
    """Return the entities whose tools permit them to start, in order; the actor gets leases of these tools.

    `is_running` if one entity is given and already counts as running. `earlier` has the number of entities by tool that
    this transaction has admitted and not started yet.
    """
    tools = sorted({entity.tool for entity in starting if entity.tool})
    if not tools:
        return list(starting)
    breakers = tool_reports.get_or_create(tools, work)
    deciding = [tool for tool in tools if breakers[tool].state != State.CLOSED or breakers[tool].concurrency_limit]
    room = _lock_and_measure(work, deciding, own=int(is_running))
    room.subtract({tool: count for tool, count in (earlier or {}).items() if tool in deciding})
    admitted = []
    for entity in starting:
        if entity.tool in deciding and not _take_place(work, entity, room):
            continue
        admitted.append(entity)
    for tool in {entity.tool for entity in admitted if entity.tool} if actor.holds else ():
        tool_lease.renew(tool, actor.identity)
    work.admitted |= {(type(entity), entity.pk) for entity in admitted}
    return admitted


def _lock_and_measure(work: UnitOfWork, tools: list[str], own: int) -> Counter[str]:
    """Lock the breakers and return how many starts each permits; none if the breaker is locked elsewhere.

    A transaction that has locked a breaker or the queues of a run before does not wait for another one.
    """
    if not tools:
        return Counter()
    has_lock = work.holds_lock_of(CircuitBreaker, RunQueue)
    locked = work.lock_many(CircuitBreaker, tools, skip_locked=has_lock)
    in_use = count_in_use(work, [breaker.pk for breaker in locked if breaker.concurrency_limit])
    return Counter({breaker.pk: _compute_room(breaker, in_use.get(breaker.pk, 0) - own) for breaker in locked})


def _compute_room(breaker: CircuitBreaker, in_use: int) -> int:
    if breaker.state == State.OPEN or (breaker.state == State.HALF_OPEN and breaker.probe_until is not None):
        return 0
    most = 1 if breaker.state == State.HALF_OPEN else breaker.concurrency_limit
    return max(0, min(most, breaker.concurrency_limit - in_use)) if breaker.concurrency_limit else most


def count_in_use(work: UnitOfWork, tools: Sequence[str]) -> dict[str, int]:
    """Return the number of running tasks and gates by tool."""
    if not tools:
        return {}
    work.flush()
    return dict(CircuitBreaker.objects.filter(pk__in=tools).values_list("pk", RawSQL(IN_USE, [])))  # noqa: S611 - a constant


def _take_place(work: UnitOfWork, entity: Any, room: Counter[str]) -> bool:
    if room[entity.tool] <= 0:
        return False
    room[entity.tool] -= 1
    breaker: Any = work.entities[CircuitBreaker, entity.tool]
    if breaker.state == State.HALF_OPEN:
        seconds = max(entity.timeout_sec, settings.STATECORE_PROBE_SECONDS)
        breaker.probe_by, breaker.probe_until = probe_of(entity), now() + timedelta(seconds=seconds)
        CircuitBreaker.objects.filter(pk=breaker.pk).update(probe_by=breaker.probe_by, probe_until=breaker.probe_until)
    return True


def probe_of(entity: Any) -> str:
    """The prober of a tool is the task or gate, not its agent, which may run another one with the same tool."""
    return f"{entity.flow.entity_type}:{entity.pk}"


# Reactions


def react(work: UnitOfWork, changes: Iterable[Change]) -> None:
    """Refuse a start without permission, and report the ends to the breakers; for tasks and gates with a tool."""
    for change in changes:
        entity: Any = change.entity
        running = RUNNING[type(entity)]
        was_running, is_running = change.entry.from_state == running, change.entry.to_state == running
        if is_running and not was_running:
            _require_admission(work, change)
        elif was_running and not is_running:
            _report(work, entity, change)


def _require_admission(work: UnitOfWork, change: Change) -> None:
    """Admit an entity that was started without a claim."""
    entity: Any = change.entity
    if (type(entity), entity.pk) in work.admitted:
        return
    if admit(work, [entity], entity.facts.actor, is_running=True):
        return
    trigger = "worker_started" if isinstance(entity, Task) else "gate_started"
    detail = f"tool {entity.tool} is not available: its breaker is not closed, or its limit is reached"
    unmet = Unmet("tool_unavailable", detail, entity.tool, CircuitBreaker.flow.entity_type)
    raise GuardFailed(trigger, [unmet], **change.facts_before())


def _report(work: UnitOfWork, entity: Any, change: Change) -> None:
    works, probe, holder = judge(change), probe_of(entity), change.before["holder"]
    breaker = tool_reports.get_or_create([entity.tool], work)[entity.tool]
    if works is None:
        tool_reports.release_probe(entity.tool, probe)
    elif not (works and tool_reports.is_healthy(breaker)):
        if holder:  # it has used the tool until now, however long ago it was admitted
            tool_lease.renew(entity.tool, holder)
        error = "" if works else describe_failure(entity)
        tool_reports.count(work, entity.tool, Reporter(probe, holder, probe), success=works, error=error)


def judge(change: Change) -> bool | None:
    """Return whether the tool worked; None if the end says nothing about it.

    A tool that gave a verdict works, also if the verdict is that the task failed.
    """
    facts, trigger = change.entity.facts, change.entry.trigger
    if change.entry.kind == EventKind.OVERRIDE:
        return None
    if trigger in ("execution_completed", "gate_passed"):
        return True
    if trigger == "timeout_exceeded":
        return False
    if trigger == "execution_failed" and facts.actor.kind is Kind.SYSTEM:  # the worker was lost
        return None
    if trigger not in ("execution_failed", "gate_failed"):
        return None
    if "tool_failed" in facts.params:
        failed = facts.params["tool_failed"]
        return None if failed is None else not failed
    code = facts.params.get("exit_code")
    return code is not None and 0 <= code < NO_VERDICT


def describe_failure(entity: Any) -> str:
    error = entity.last_error if isinstance(entity, Task) else entity.stderr or f"exit code {entity.exit_code}"
    return str(error)[:500]
