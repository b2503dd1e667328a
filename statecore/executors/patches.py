"""Processing of patches: validation, acceptance, and one at a time application, test and commit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import structlog
from django.db.models import QuerySet

from .. import transitions
from ..kernel import clock
from ..kernel.actors import THE_SYSTEM
from ..kernel.clock import now
from ..kernel.constraints import is_live
from ..kernel.refusals import GuardFailed, Refusal
from ..machines.patch_ledger import APPLY_RETRIES, PatchLedger, State
from ..machines.workstream import FINAL as ENDED
from . import allowed_commands, command, diff, repository, verification, work_tree_recovery
from .checkouts import Source
from .diff import FILE_MODES, Objection
from .errors import GitFailed, NotEnabled, WorkerStopping
from .repository import Repository
from .verification import VerificationCommand, VerificationResult
from .work_tree_recovery import PATCH, TRAILERS, record_commit

log = structlog.get_logger(__name__)

BATCH = 50
# Seconds to wait for other users of the repository; after that the next sweep tries again.
LOCK_TIMEOUT = 30.0
TO_PREPARE = (State.APPLY_FAILED, State.VALIDATED, State.CREATED)
# Patches of a killed runner come first, while the branch is still at the commit they were tested on.
TO_MERGE = (State.VERIFIED, State.APPLIED, State.QUEUED)
DELETED = "000000"


def run_due(limit: int = BATCH, *, wait: float = LOCK_TIMEOUT) -> int:
    """Process each due patch as far as possible, and return the number of commits."""
    if not repository.is_enabled():
        return 0
    for entry_id in _select(TO_PREPARE, limit):
        _prepare(entry_id)
    waiting = _select(TO_MERGE, limit)
    if not waiting:
        return 0
    try:
        with repository.locked(wait=wait) as work_tree:
            return _merge_all(work_tree, waiting)
    except (Refusal, GitFailed) as error:
        log.warning("patches_postponed", count=len(waiting), reason=str(error))
    except WorkerStopping:
        log.info("patches_postponed", count=len(waiting), reason="the worker is stopping")
    return 0


def find_due(limit: int = BATCH) -> list[str]:
    """Return the ids of patches to process; none without a repository."""
    return _select((*TO_MERGE, *TO_PREPARE), limit) if repository.is_enabled() else []


def _select(states: tuple[State, ...], limit: int) -> list[str]:
    """Return the ids of patches in the order of these states, longest waiting first in each."""
    found: list[str] = []
    for state in states:
        found += unfinished_patches(state)[: limit - len(found)]
    return found


def unfinished_patches(state: State) -> QuerySet[PatchLedger, str]:
    live = PatchLedger.objects.filter(is_live(PatchLedger.flow.final), state=state, abandoned=False)
    # `abandoned` is set some time after the workstream has ended.
    live = live.exclude(workstream__state__in=ENDED)
    return cast("QuerySet[PatchLedger, str]", live.order_by("state_entered_at", "pk").values_list("pk", flat=True))


# Without the repository


def _prepare(entry_id: str) -> None:
    """Validate, accept or retry; skip a patch that changed concurrently."""
    entry = PatchLedger.objects.select_related("patch", "phase").get(pk=entry_id)
    try:
        if entry.state == State.CREATED:
            entry = _validate(entry)
        if entry.state == State.VALIDATED:
            entry = _accept(entry)
        if entry.state == State.APPLY_FAILED:
            _retry_or_quarantine(entry)
    except Refusal as refusal:
        log.info("patch_changed_concurrently", ledger=entry_id, code=refusal.code)


def _validate(entry: PatchLedger) -> PatchLedger:
    try:
        _check_paths(entry)
    except Objection as objection:
        return _fire(entry, "validation_failed", error=str(objection), details={"check": str(objection.check)})
    return _fire(entry, "validation_passed", format_passed=True, scope_passed=True, constraints_passed=True)


def _check_paths(entry: PatchLedger) -> list[str]:
    """Return the paths that the diff touches; raises Objection."""
    if entry.diff_sha256 and entry.patch.sha256 != entry.diff_sha256:
        raise Objection(diff.Check.FORMAT, "the diff was changed after the patch was submitted")
    touched = diff.read_paths(entry.patch.diff)
    if objection := entry.phase.objection(touched):
        raise Objection(diff.Check.SCOPE, objection)
    return touched


def _accept(entry: PatchLedger) -> PatchLedger:
    """Accept the patch. The guard checks the phase again, because its policy may have changed."""
    try:
        return _fire(entry, "accepted_for_merge")
    except GuardFailed as refusal:
        return _fire(entry, "policy_violated", error=refusal.unmet[0].detail, details={"unmet": refusal.facts["unmet"]})


def _retry_or_quarantine(entry: PatchLedger) -> None:
    if entry.apply_retries >= APPLY_RETRIES:
        _fire(entry, "auto_quarantined")
    elif now() >= entry.state_entered_at + clock.retry_delay(entry.pk, entry.apply_retries + 1):
        _fire(entry, "apply_retried")


# In the repository


def _merge_all(work_tree: Repository, waiting: list[str]) -> int:
    work_tree_recovery.recover_work_tree(work_tree)
    work_tree.check()
    committed = 0
    for entry_id in waiting:
        if command.runners.stopping:
            break
        entry = PatchLedger.objects.select_related("patch", "phase").get(pk=entry_id)
        if entry.state in TO_MERGE:  # the recovery may have changed it
            try:
                committed += _merge(work_tree, entry)
            except NotEnabled as refusal:
                log.warning("patch_postponed", ledger=entry.pk, reason=refusal.detail)
    return committed


def _merge(work_tree: Repository, entry: PatchLedger) -> bool:
    """Apply, test and commit one patch; raises NotEnabled if it has tests and commands are disabled.

    The work is marked as ended last, when a commit is recorded or undone.
    """
    tests = verification.commands_for_patch(entry)
    if tests:
        allowed_commands.require_enabled()
    base = work_tree.head()
    if entry.state == State.VERIFIED and (commit := work_tree.find_commit(TRAILERS[PATCH], entry.pk)):
        return record_commit(entry, commit)
    work_tree.begin(PATCH, entry.pk, base)
    commit = None
    try:
        commit = _apply_and_commit(work_tree, entry, tests, base)
    except Refusal as refusal:
        log.info("patch_changed_concurrently", ledger=entry.pk, code=refusal.code)
    if commit is None:
        work_tree.restore(base)
    work_tree.end()
    return commit is not None


def _apply_and_commit(
    work_tree: Repository, entry: PatchLedger, tests: list[VerificationCommand], base: str
) -> str | None:
    """Return the recorded commit; None if the patch did not get that far.

    A patch that is already verified is tested again: only what these tests have run on is committed.
    """
    try:
        tree = _apply(work_tree, entry, base)
    except GitFailed as error:
        _report_apply_failure(entry, str(error))
        return None
    if entry.state == State.QUEUED:
        entry = _fire(entry, "apply_succeeded")
    results = verification.run_until_failure(Source(work_tree.path, base, tree), tests)
    if results and not results[-1].passed:
        _report_failed_tests(entry, results[-1])
        return None
    if entry.state == State.APPLIED:
        entry = _report_passed_tests(entry, results)
    try:
        commit = work_tree.commit(tree, base, _commit_message(entry))
    except GitFailed as error:
        _report_commit_failure(entry, f"could not be committed: {error}")
        return None
    return commit if record_commit(entry, commit) else None


def _apply(work_tree: Repository, entry: PatchLedger, base: str) -> str:
    """Apply the diff outside the work tree and return the resulting tree.

    The paths are checked again, because an agent may have reported the validation, and compared with those that git
    has changed.
    """
    try:
        checked = _check_paths(entry)
    except Objection as objection:
        raise GitFailed(str(objection)) from objection
    tree = work_tree.apply(entry.patch.diff, base)
    for path, mode in work_tree.changed_modes(base, tree).items():
        if path not in checked or mode not in {*FILE_MODES, DELETED}:
            raise GitFailed(f"git changes {path} to mode {mode}, unlike the checked diff")
    return tree


def _report_apply_failure(entry: PatchLedger, error: str) -> None:
    if entry.state == State.QUEUED:
        _fire(entry, "apply_failed", error=error)
    elif entry.state == State.APPLIED:
        _fire(entry, "tests_failed", error=f"the patch no longer applies: {error}")
    else:
        _report_commit_failure(entry, f"the patch no longer applies: {error}")


def _report_commit_failure(entry: PatchLedger, error: str) -> None:
    """Record the error. A verified patch has no other transition than the commit, so the next sweep tries again."""
    PatchLedger.objects.filter(pk=entry.pk).update(last_error=error)
    log.error("verified_patch_not_committed", ledger=entry.pk, error=error)


def _report_failed_tests(entry: PatchLedger, failed: VerificationResult) -> None:
    error = f"Tests failed: {failed.describe()}"
    if entry.state == State.APPLIED:
        _fire(entry, "tests_failed", error=error, details=failed.details())
    else:
        _report_commit_failure(entry, error)


def _report_passed_tests(entry: PatchLedger, results: list[VerificationResult]) -> PatchLedger:
    if not results:
        return _fire(entry, "tests_passed", reason="no test is configured")
    ran = [{"command": each.verification.command[:200], "seconds": each.result.duration_sec} for each in results[:20]]
    return _fire(entry, "tests_passed", metadata={"tests": ran})


def _commit_message(entry: PatchLedger) -> str:
    patch = entry.patch
    return (
        f"{_as_line(patch.title) or f'Patch {_as_line(patch.pk)}'}\n\n"
        f"{TRAILERS[PATCH]}: {entry.pk}\n"
        f"Statecore-Patch-Id: {_as_line(patch.pk)}\n"
        f"Statecore-Workstream: {entry.workstream_id}\n"
    )


def _as_line(text: str) -> str:
    """Join the lines of a text, because a second line could look like a trailer."""
    return " ".join(text.split())


def _fire(
    entry: PatchLedger, trigger: str, *, reason: str = "", metadata: Mapping[str, Any] | None = None, **params: Any
) -> PatchLedger:
    """Fire with the version that was read, so that a concurrent change is a Refusal."""
    outcome = transitions.transition(
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
