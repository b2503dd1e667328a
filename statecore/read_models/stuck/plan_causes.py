"""What runs, workstreams, tasks, gates and patches wait for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from ...kernel import phrasing
from ...kernel.clock import format_utc
from ...kernel.entity import Entity
from ...kernel.fields import related
from ...machines import circuit_breaker, patch_ledger, run, task, test_gate, worker, workstream
from ...machines.patch_ledger import PatchLedger
from ...machines.run import Run, its_time_has_come
from ...machines.task import Task
from ...machines.test_gate import TestGate
from ...machines.worker import SILENCE_LIMIT
from ...machines.workstream import Workstream, all_its_tasks_are_created
from ...reactions import tools
from ...storage.links import cached_for_batch
from .executor_causes import is_silent
from .transition_checks import build_system_facts
from .waits import Cause, Detail, SharedCause, Wait, find_wait

UNBLOCKED = "nothing blocks it"
MAX_WORKERS = 1_000
MAX_WORDS_LENGTH = 120  # of capabilities in the key of a cause
PATCH_STEPS = {
    patch_ledger.State.CREATED: "not validated yet",
    patch_ledger.State.QUEUED: "not applied yet",
    patch_ledger.State.APPLIED: "no test results yet",
    patch_ledger.State.VERIFIED: "not committed yet",
}


def find_run_cause(entity: Run, at: datetime) -> Cause:
    if entity.state == run.State.PENDING:
        if early := its_time_has_come(entity, build_system_facts(at)):
            return phrasing.describe_state(entity, at, early.detail)
        return phrasing.describe_state(entity, at, "not started yet")
    wait = find_wait("waits for", entity, "workstreams", done=("completed", "skipped"))
    return wait or phrasing.describe_state(entity, at, "it has no unfinished workstream")


def find_workstream_cause(entity: Workstream, at: datetime) -> Cause:
    if entity.state == workstream.State.PAUSED:
        until = entity.paused_until
        end = f"it resumes at {format_utc(until)}" if until else "until an operator resumes it"
        return phrasing.describe_state(entity, at, end)
    if entity.state in (workstream.State.PLANNED, workstream.State.BLOCKED):
        return _find_cause_before_start(entity, at)
    if entity.awaits_repair():
        gate, left = entity.failed_final_gate(), entity.max_repairs - entity.repairs
        words = f"gate {gate} failed: it accepts a task that repairs it, {left} of {entity.max_repairs} repairs remain"
        return Detail(phrasing.describe_state(entity, at, words), about="test_gate")
    for children, done in _list_parts(entity):
        if found := find_wait("waits for", entity, children, done=done):
            return found
    if quarantined := entity.left_in_quarantine():
        return Wait("waits for", quarantined)
    return phrasing.describe_state(entity, at, "it has no unfinished task, gate or patch")


def _find_cause_before_start(entity: Workstream, at: datetime) -> Cause:
    if found := find_wait("waits for", entity, "depends_on", done={workstream.State.COMPLETED}):
        return found
    if missing := all_its_tasks_are_created(entity, build_system_facts(at)):
        return phrasing.describe_state(entity, at, missing.detail)
    if entity.run.state == "pending":
        return Wait("waits for", entity.run)
    return phrasing.describe_state(entity, at, UNBLOCKED)


def _list_parts(entity: Workstream) -> Iterator[tuple[str, set[str]]]:
    """Yields the links to the parts in the order in which the workstream waits for them, and their completed states."""
    yield "tasks", {"completed"}
    if entity.state == workstream.State.VALIDATING:
        yield "gates", {"PASSED"}
        yield "patches", {"committed", "dropped"}


def find_task_cause(entity: Task, at: datetime) -> Cause:
    return _TASK_CAUSES[task.State(entity.state)](entity, at)


def _find_cause_before_queue(entity: Task, at: datetime) -> Cause:
    failed = ("FAILED",)
    found = _find_gate(entity, "gates", failed) or _find_gate(entity, "entry_gates", failed)
    found = found or find_wait("waits for", entity, "depends_on", done={task.State.COMPLETED})
    found = found or _find_gate(entity, "entry_gates")
    if found:
        return _note_timeout(entity, found, at)
    if early := task.its_time_has_come(entity, build_system_facts(at)):
        return phrasing.describe_state(entity, at, early.detail)
    if entity.workstream.state not in workstream.STARTED:
        return Wait("waits for", entity.workstream)
    return phrasing.describe_state(entity, at, UNBLOCKED)


def _note_timeout(entity: Task, wait: Wait, at: datetime) -> Wait:
    if entity.dependency_timeout_sec is None or entity.dependency_due_at is None or at < entity.dependency_due_at:
        return wait
    timeout = phrasing.format_duration(timedelta(seconds=entity.dependency_timeout_sec))
    return replace(wait, relation=f"is past its dependency timeout of {timeout} and {wait.relation}")


def _find_cause_in_queue(entity: Task, at: datetime) -> Cause:
    if entity.workstream.state == workstream.State.PAUSED:
        return Wait("waits for", entity.workstream)
    if hold := entity.find_hold(at):
        return _share(entity, at, f"hold {hold.pk}", hold.describe())
    if found := _find_tool_wait(entity, at):
        return found
    if full := task.its_run_has_room(entity, build_system_facts(at)):
        return _share(entity, at, f"run {entity.run_id}", full.detail, about="run")
    return _explain_unclaimed(entity, at)


def _share(entity: Entity, at: datetime, key: str, text: str, about: str = "") -> Detail:
    """Returns the description of an entity by a cause that others may have as well."""
    return Detail(phrasing.describe_state(entity, at, text), about, SharedCause(key, text))


def _find_cause_while_running(entity: Task, at: datetime) -> Cause:
    holder: Any = entity.worker
    contact = entity.last_contact()
    if entity.has_no_progress(at) and contact is not None and entity.lease_ends_at(contact) >= at:
        unchanged = phrasing.format_duration(at - entity.progressed_at())
        return phrasing.describe_state(entity, at, f"alive, but no progress for {unchanged}")
    if is_silent(holder, at):
        return Wait("runs on", holder)
    timeout = phrasing.format_duration(timedelta(seconds=entity.timeout_sec))
    late = f", past its timeout of {timeout}" if entity.times_out_at() < at else ""
    return f"{phrasing.describe_state(entity, at)} on worker {holder.pk}{late}"


def _find_cause_in_validation(entity: Task, at: datetime) -> Cause:
    if found := _find_gate(entity, "gates"):
        return found
    if entity.patch is not None and entity.patch.state not in ("verified", "committed"):
        return Wait("waits for", entity.patch)
    return phrasing.describe_state(entity, at, UNBLOCKED)


def _find_cause_before_retry(entity: Task, at: datetime) -> Cause:
    due = phrasing.format_due(entity.retry_at or entity.state_entered_at, at)
    return f"retrying after {phrasing.first_line(entity.last_error) or 'a failure'}: the next attempt {due}"


_TASK_CAUSES: dict[task.State, Callable[[Task, datetime], Cause]] = {
    task.State.PENDING: _find_cause_before_queue,
    task.State.BLOCKED: _find_cause_before_queue,
    task.State.QUEUED: _find_cause_in_queue,
    task.State.RUNNING: _find_cause_while_running,
    task.State.VALIDATING: _find_cause_in_validation,
    task.State.RETRYING: _find_cause_before_retry,
}


def _explain_unclaimed(entity: Task, at: datetime) -> Detail:
    """Explains why no worker claims a queued task: none is live, capable, of the right affinity, or free."""
    live, required = _find_live_workers(entity, at), entity.required_capabilities
    capable = [each for each in live if not each.missing_capabilities(required)]
    if not capable:
        return _share(entity, at, name_missing_worker(required), _describe_missing(live, required), about="worker")
    near = [each for each in capable if each.has_affinity_for(entity.workstream_id)]
    if not near:
        with_required = f" with {phrasing.join_quoted(required)}" if required else ""
        text = f"no live worker{with_required} has affinity to workstream {entity.workstream_id}"
        return _share(entity, at, f"no_affinity {entity.workstream_id}", text, about="worker")
    free = [each for each in near if each.reason_to_refuse() is None]
    if free:
        text = f"worker {free[0].pk} could take it but has not claimed it"
        return Detail(phrasing.describe_state(entity, at, text), about="worker")
    return _share(entity, at, f"busy_workers {format_words(required)}", _describe_unavailable(near), about="worker")


def name_missing_worker(required: Iterable[str]) -> str:
    """Returns the key of the cause that no live worker has these capabilities."""
    return f"no_worker {format_words(required)}".strip()


def format_words(words: Iterable[str]) -> str:
    """`git+helm`, within the length of a key."""
    return "+".join(sorted(words))[:MAX_WORDS_LENGTH]


def _describe_missing(live: list[Any], required: list[str]) -> str:
    if not live:
        return "there is no live worker"
    known = {capability for each in live for capability in each.capabilities}
    unknown = [capability for capability in required if capability not in known]
    return f"no live worker has {phrasing.join_quoted(unknown or required)}{'' if unknown else ' together'}"


def _find_live_workers(entity: Task, at: datetime) -> list[Any]:
    working = (worker.State.IDLE, worker.State.BUSY)
    live = related(entity, "worker").objects.filter(state__in=working, last_heartbeat__gte=at - SILENCE_LIMIT)
    return cached_for_batch(entity, (_find_live_workers, at), lambda _ids: list(live.order_by("pk")[:MAX_WORKERS]))


def _describe_unavailable(workers: list[Any]) -> str:
    are_busy = [each.state == worker.State.BUSY for each in workers]
    how = "busy or full" if len({*are_busy}) == 2 else "busy" if are_busy[0] else "full"
    if len(workers) == 1:
        return f"the only suitable worker, {workers[0].pk}, is {how}"
    return f"all {len(workers)} suitable workers are {how}"


def find_gate_cause(entity: TestGate, at: datetime) -> Cause:
    if entity.state == test_gate.State.RUNNING:
        timeout = f"its timeout {phrasing.format_due(entity.times_out_at, at)}" if entity.times_out_at else ""
        return phrasing.describe_state(entity, at, timeout)
    if entity.abandoned:
        return phrasing.describe_state(entity, at, f"its workstream {entity.workstream_id} has ended")
    found = _find_gate(entity, "depends_on") or _find_tool_wait(entity, at)
    return found or phrasing.describe_state(entity, at, "not started yet")


def _find_tool_wait(entity: Task | TestGate, at: datetime) -> Detail | None:
    """Returns why its tool does not permit a start: `queued 2 min: waits for tool aider: 4 of 4 in use`."""
    unavailable = (
        cached_for_batch(entity, (_find_tool_wait,), lambda _ids: tools.find_unavailable()) if entity.tool else {}
    )
    if entity.tool not in unavailable:
        return None
    breaker, in_use = unavailable[entity.tool]
    if breaker.state == circuit_breaker.State.OPEN:
        why = f"breaker open, probe {_format_in(breaker.cools_down_at(), at)}"
    elif breaker.state == circuit_breaker.State.HALF_OPEN and breaker.probe_until is not None:
        why = f"breaker half open, probed by {breaker.probe_by.replace(':', ' ')}"
    else:
        why = f"{in_use} of {breaker.concurrency_limit} in use"
    text = f"waits for tool {entity.tool}: {why}"
    shared = SharedCause(f"circuit_breaker {entity.tool}", f"tool {entity.tool}: {why}")
    return Detail(phrasing.describe_state(entity, at, text), "circuit_breaker", shared)


def _format_in(moment: datetime, at: datetime) -> str:
    return f"in {phrasing.format_duration(moment - at)}" if moment > at else "is due now"


def _find_gate(entity: Entity, link: str, only: Iterable[str] = ()) -> Wait | None:
    """Returns the wait for a linked gate that has not passed: `blocked by` if the gate failed, else `waits for`."""
    found = find_wait("waits for", entity, link, done={test_gate.State.PASSED}, only=only)
    if found and found.entity.state in (test_gate.State.FAILED, test_gate.State.BLOCKED):
        return Wait("blocked by", found.entity, found.others)
    return found


def find_patch_cause(entity: PatchLedger, at: datetime) -> Cause:
    if entity.abandoned:
        return phrasing.describe_state(entity, at, f"its workstream {entity.workstream_id} has ended")
    if entity.state == patch_ledger.State.VALIDATED:
        objection = entity.phase.objection(entity.patch.touched_paths())
        return phrasing.describe_state(entity, at, objection or "not accepted for merge yet")
    if entity.state == patch_ledger.State.APPLY_FAILED:
        return phrasing.describe_state(entity, at, phrasing.first_line(entity.last_error))
    return phrasing.describe_state(entity, at, PATCH_STEPS[patch_ledger.State(entity.state)])


CAUSES: dict[str, Callable[[Any, datetime], Cause]] = {
    "run": find_run_cause,
    "workstream": find_workstream_cause,
    "task": find_task_cause,
    "test_gate": find_gate_cause,
    "patch_ledger": find_patch_cause,
}
