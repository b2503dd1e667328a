"""The way of a patch from created to committed: checked, accepted, applied, tested and committed, one at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import structlog
from django.db.models import QuerySet

from .. import door
from ..kernel import backoff
from ..kernel.actors import THE_SYSTEM
from ..kernel.clock import now
from ..kernel.indexes import is_live
from ..kernel.refusals import GuardFailed, Refusal
from ..machines.patch_ledger import APPLY_RETRIES, PatchLedger, State
from ..machines.workstream import FINAL as ENDED
from . import allowed, checks, command, diff, recovery, repository
from .diff import FILE_MODES, Objection
from .repository import GitFailed, Repository, Stopped

log = structlog.get_logger(__name__)

BATCH = 50
# How long to wait for gates that run in the work tree; after that the next sweep tries again.
PATIENCE = 30.0
TO_PREPARE = (State.APPLY_FAILED, State.VALIDATED, State.CREATED)
# What a killed runner has begun comes first: the base it was tested on is still there.
TO_MERGE = (State.VERIFIED, State.APPLIED, State.QUEUED)
GONE = "000000"


def run_due(limit: int = BATCH, *, wait: float = PATIENCE) -> int:
    """Take every patch that can be taken further as far as it goes; how many were committed."""
    if not repository.is_on():
        return 0
    for entry_id in _in_turn(TO_PREPARE, limit):
        _prepare(entry_id)
    waiting = _in_turn(TO_MERGE, limit)
    if not waiting:
        return 0
    try:
        with repository.opened(wait=wait) as opened:
            return _merge_all(opened, waiting)
    except (Refusal, GitFailed) as said:
        log.warning("patches_left_waiting", count=len(waiting), because=str(said))
    except Stopped:
        log.info("patches_left_waiting", count=len(waiting), because="the worker was asked to stop")
    return 0


def due(limit: int = BATCH) -> list[str]:
    """The patches there is something to do for; none without a repository."""
    return _in_turn((*TO_MERGE, *TO_PREPARE), limit) if repository.is_on() else []


def _in_turn(states: tuple[State, ...], limit: int) -> list[str]:
    """Patches in these states whose workstream goes on; in this order, those that have waited longest first."""
    found: list[str] = []
    for state in states:
        found += awaited(state)[: limit - len(found)]
    return found


def awaited(state: State) -> QuerySet[PatchLedger, str]:
    live = PatchLedger.objects.filter(is_live(PatchLedger.flow.final), state=state, abandoned=False)
    # Where a workstream has ended just now, what it leaves behind may not be marked yet.
    live = live.exclude(workstream__state__in=ENDED)
    return cast("QuerySet[PatchLedger, str]", live.order_by("state_entered_at", "pk").values_list("pk", flat=True))


def _prepare(entry_id: str) -> None:
    """As far as a patch comes without the repository; what somebody else has moved meanwhile is left to them."""
    entry = PatchLedger.objects.select_related("patch", "phase").get(pk=entry_id)
    try:
        if entry.state == State.CREATED:
            entry = _validate(entry)
        if entry.state == State.VALIDATED:
            entry = _accept(entry)
        if entry.state == State.APPLY_FAILED:
            _try_again(entry)
    except Refusal as refusal:
        log.info("patch_moved_meanwhile", ledger=entry_id, code=refusal.code)


def _validate(entry: PatchLedger) -> PatchLedger:
    try:
        _checked_paths(entry)
    except Objection as objection:
        return _fire(entry, "validation_failed", error=str(objection), details={"check": str(objection.check)})
    return _fire(entry, "validation_passed", format_passed=True, scope_passed=True, constraints_passed=True)


def _checked_paths(entry: PatchLedger) -> list[str]:
    touched = diff.paths(entry.patch.diff)
    if objection := entry.phase.objection(touched):
        raise Objection(diff.Check.SCOPE, objection)
    return touched


def _accept(entry: PatchLedger) -> PatchLedger:
    """The phase is asked once more: its policy may have changed since."""
    try:
        return _fire(entry, "accepted_for_merge")
    except GuardFailed as refusal:
        return _fire(entry, "policy_violated", error=refusal.unmet[0].detail, details={"unmet": refusal.facts["unmet"]})


def _try_again(entry: PatchLedger) -> None:
    if entry.apply_retries >= APPLY_RETRIES:
        _fire(entry, "auto_quarantined")
    elif now() >= entry.state_entered_at + backoff.delay(entry.pk, entry.apply_retries + 1):
        _fire(entry, "apply_retried")


def _merge_all(opened: Repository, waiting: list[str]) -> int:
    recovery.put_in_order(opened)
    opened.check()
    committed = 0
    for entry_id in waiting:
        if command.runners.stopping:
            break
        entry = PatchLedger.objects.select_related("patch", "phase").get(pk=entry_id)
        if entry.state in TO_MERGE:  # putting in order may have moved it
            committed += _merge(opened, entry)
    return committed


def _merge(opened: Repository, entry: PatchLedger) -> bool:
    """Apply, test, commit. The note of what is under way goes last, when the work tree is clean again."""
    tests = checks.of_patch(entry)
    if tests and not allowed.are_on():
        log.warning("patch_left_waiting", ledger=entry.pk, because="its tests are commands, and commands are off")
        return False
    base = opened.head()
    if entry.state == State.VERIFIED and (made := opened.find(recovery.TRAILERS[recovery.PATCH], entry.pk)):
        return recovery.record_commit(entry, made)
    opened.begin(recovery.PATCH, entry.pk, base)
    made = None
    try:
        made = _commit(opened, entry, tests, base)
    except Refusal as refusal:
        log.info("patch_moved_meanwhile", ledger=entry.pk, code=refusal.code)
    opened.restore(made or base)
    opened.end()
    return made is not None


def _commit(opened: Repository, entry: PatchLedger, tests: list[checks.Check], base: str) -> str | None:
    """The commit that was made and recorded; None where it did not come to that."""
    try:
        tree = _apply(opened, entry, base)
    except GitFailed as error:
        opened.restore(base)
        _does_not_apply(entry, str(error))
        return None
    if entry.state == State.QUEUED:
        entry = _fire(entry, "apply_succeeded")
    if entry.state == State.APPLIED:
        entry = _test(opened, entry, tests, base)
    if entry.state != State.VERIFIED:
        return None
    try:
        made = opened.commit(tree, base, _message(entry))
    except GitFailed as error:
        _cannot_be_committed(entry, f"it could not be committed: {error}")
        return None
    return made if recovery.record_commit(entry, made) else None


def _apply(opened: Repository, entry: PatchLedger, base: str) -> str:
    """Checked here too, as an agent may have said that it was; and git has the last word on what a patch touches."""
    try:
        announced = _checked_paths(entry)
    except Objection as objection:
        raise GitFailed(str(objection)) from objection
    tree = opened.apply(entry.patch.diff)
    for path, mode in opened.staged(base).items():
        if path not in announced or mode not in {*FILE_MODES, GONE}:
            raise GitFailed(f"it makes {path} a file of mode {mode}, which is not what was checked")
    return tree


def _does_not_apply(entry: PatchLedger, error: str) -> None:
    if entry.state == State.QUEUED:
        _fire(entry, "apply_failed", error=error)
    elif entry.state == State.APPLIED:
        _fire(entry, "tests_failed", error=f"it does not apply any more: {error}")
    else:
        _cannot_be_committed(entry, f"it does not apply any more: {error}")


def _cannot_be_committed(entry: PatchLedger, error: str) -> None:
    """No move leads out of verified but the commit: it is tried again until it is overdue and an operator decides."""
    PatchLedger.objects.filter(pk=entry.pk).update(last_error=error)
    log.error("verified_patch_not_committed", ledger=entry.pk, error=error)


def _test(opened: Repository, entry: PatchLedger, tests: list[checks.Check], base: str) -> PatchLedger:
    done = checks.run(opened, tests)
    failed = next((each for each in done if not each.passed), None)
    if failed is not None:
        opened.restore(base)
        return _fire(entry, "tests_failed", error=f"Tests failed: {failed.told()}", details=failed.details())
    if not done:
        return _fire(entry, "tests_passed", reason="no test is configured")
    ran = [{"command": each.check.command[:200], "seconds": each.result.duration_sec} for each in done[:20]]
    return _fire(entry, "tests_passed", metadata={"tests": ran})


def _message(entry: PatchLedger) -> str:
    patch = entry.patch
    return (
        f"{_line(patch.title) or f'Patch {_line(patch.pk)}'}\n\n"
        f"{recovery.TRAILERS[recovery.PATCH]}: {entry.pk}\n"
        f"Statecore-Patch-Id: {_line(patch.pk)}\n"
        f"Statecore-Workstream: {entry.workstream_id}\n"
    )


def _line(text: str) -> str:
    """In one line: a title must not look like a trailer."""
    return " ".join(text.split())


def _fire(
    entry: PatchLedger, trigger: str, *, reason: str = "", metadata: Mapping[str, Any] | None = None, **params: Any
) -> PatchLedger:
    """Against the version that was seen: what somebody else has moved is refused."""
    outcome = door.transition(
        PatchLedger,
        entry.pk,
        trigger,
        actor=THE_SYSTEM,
        params=params,
        reason=reason,
        metadata=metadata,
        expected_version=entry.version,
    )
    return cast("PatchLedger", outcome.entity)
