"""Processing of patches: validation, acceptance, application, test and commit.

The patches of a repository form a queue. Several are tested at the same time, each on top of those before it, and then
committed in this order: each commit is a tree that has passed its tests. If a patch fails, those behind it are tested
again without it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, cast

import structlog
from django.conf import settings
from django.db.models import QuerySet

from .. import transitions
from ..kernel import clock, repositories
from ..kernel.actors import THE_SYSTEM
from ..kernel.clock import now
from ..kernel.constraints import is_live
from ..kernel.refusals import GuardFailed, Refusal
from ..kernel.repositories import DEFAULT
from ..machines.patch_ledger import APPLY_RETRIES, PatchLedger, State
from ..machines.workstream import FINAL as ENDED
from . import allowed_commands, command, compensation, diff, repository, verification, work_tree_recovery
from .checkouts import Source
from .diff import FILE_MODES, Objection
from .errors import GitFailed, WorkerStopping
from .repository import Repository
from .verification import VerificationCommand, VerificationResult
from .work_tree_recovery import PATCH, TRAILERS, record_commit

log = structlog.get_logger(__name__)

BATCH = 50
TO_PREPARE = (State.APPLY_FAILED, State.VALIDATED, State.CREATED)
# Patches of a killed runner come first, while the branch is still at the commit they were tested on.
TO_MERGE = (State.VERIFIED, State.APPLIED, State.QUEUED)
DELETED = "000000"


def run_due(name: str = DEFAULT, limit: int = BATCH, *, wait: float = 0.0) -> int:
    """Process each due patch of a repository as far as possible, and return the number of commits."""
    if name not in repositories.get_all():
        return 0
    for entry_id in _select(name, TO_PREPARE, limit):
        _prepare(entry_id)
    waiting = _select(name, TO_MERGE, limit)
    if not waiting:
        return 0
    try:
        with repository.locked(name, wait=wait) as work_tree:
            return _merge_all(work_tree, waiting)
    except (Refusal, GitFailed) as error:
        log.warning("patches_postponed", count=len(waiting), reason=str(error))
    except WorkerStopping:
        log.info("patches_postponed", count=len(waiting), reason="the worker is stopping")
    return 0


def find_due_repositories() -> list[str]:
    """Return the repositories with patches to process."""
    return [name for name in repositories.get_all() if _select(name, (*TO_MERGE, *TO_PREPARE), 1)]


def _select(name: str, states: tuple[State, ...], limit: int) -> list[str]:
    """Return the ids of patches in the order of these states, longest waiting first in each."""
    found: list[str] = []
    for state in states:
        found += unfinished_patches(name, state)[: limit - len(found)]
    return found


def unfinished_patches(name: str, state: State) -> QuerySet[PatchLedger, str]:
    live = PatchLedger.objects.filter(is_live(PatchLedger.flow.final), state=state, abandoned=False)
    live = live.filter(workstream__repository=name)
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
        # The scope is checked last, so what it rejects has passed the other checks.
        passed, details = objection.check is diff.Check.SCOPE, {"check": str(objection.check)}
        given: dict[str, Any] = {"details": details, "format_passed": passed, "constraints_passed": passed}
        return _fire(entry, "validation_failed", error=str(objection), **given)
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


class Candidate(NamedTuple):
    """A patch and the tree that it is tested on: the newest commit, the candidates before it, and its own change."""

    entry: PatchLedger
    tests: list[VerificationCommand]
    tree: str


def _merge_all(work_tree: Repository, waiting: list[str]) -> int:
    """Merge the patches in order, a window at a time; a requested rollback comes before the next window."""
    work_tree_recovery.recover_work_tree(work_tree)
    work_tree.check()
    committed, queue = 0, deque(waiting)
    while queue and not command.runners.stopping:
        committed += _merge_window(work_tree, queue)
        if compensation.has_due(work_tree.name):
            break
    return committed


def _merge_window(work_tree: Repository, queue: deque[str]) -> int:
    """Test the first patches of the queue at the same time and commit them in order; return the number of commits.

    Patches behind one that is not committed go back to the queue, because their trees contain its change.
    """
    base = commit = work_tree.head()
    candidates, committed = _apply_first(work_tree, queue, base), 0
    obsolete = threading.Event()
    with ThreadPoolExecutor(max_workers=max(1, len(candidates))) as pool:
        tested = [
            pool.submit(
                verification.run_until_failure, Source(work_tree.path, base, each.tree), each.tests,
                is_obsolete=obsolete.is_set,
            )
            for each in candidates
        ]  # fmt: skip
        try:
            for candidate, results in zip(candidates, tested, strict=True):
                made = _complete(work_tree, candidate, commit, results.result())
                if made is None:
                    break
                commit, committed = made, committed + 1
        finally:
            obsolete.set()
    queue.extendleft(each.entry.pk for each in reversed(candidates[committed + 1 :]))
    return committed


def _apply_first(work_tree: Repository, queue: deque[str], base: str) -> list[Candidate]:
    """Take patches from the queue that can be tested at the same time, and apply each on top of the one before it."""
    candidates: list[Candidate] = []
    while queue and len(candidates) < settings.STATECORE_COMMANDS_AT_ONCE:
        entry = PatchLedger.objects.select_related("patch", "phase", "workstream").get(pk=queue[0])
        try:
            candidate = _apply_candidate(work_tree, entry, candidates[-1].tree if candidates else base, base)
        except GitFailed:
            if not candidates:
                raise
            break  # it may apply without the candidates before it
        except Refusal as refusal:
            log.info("patch_postponed", ledger=entry.pk, code=refusal.code, reason=refusal.detail)
        else:
            candidates += [candidate] if candidate else []
        queue.popleft()
    return candidates


def _apply_candidate(work_tree: Repository, entry: PatchLedger, tree: str, base: str) -> Candidate | None:
    """Return the patch applied to the tree; None if there is nothing to test. Raises GitFailed and Refusal.

    A patch that is already verified is tested again: only what these tests have run on is committed.
    """
    if entry.state not in TO_MERGE:  # the recovery or a concurrent transition has changed it
        return None
    tests = verification.commands_for_patch(entry)
    if tests:
        allowed_commands.require_enabled()
    if entry.state == State.VERIFIED and (commit := work_tree.find_commit(TRAILERS[PATCH], entry.pk)):
        record_commit(entry, commit)
        return None
    try:
        applied = _apply(work_tree, entry, tree)
    except GitFailed as error:
        if tree != base:
            raise
        _report_apply_failure(entry, str(error))
        return None
    return Candidate(_fire(entry, "apply_succeeded") if entry.state == State.QUEUED else entry, tests, applied)


def _complete(work_tree: Repository, candidate: Candidate, base: str, results: list[VerificationResult]) -> str | None:
    """Return the recorded commit of a tested patch; None if it failed or was changed concurrently."""
    entry = candidate.entry
    try:
        if results and not results[-1].passed:
            _report_failed_tests(entry, results)
            return None
        if entry.state == State.APPLIED:
            entry = _report_passed_tests(entry, results)
    except Refusal as refusal:
        log.info("patch_changed_concurrently", ledger=entry.pk, code=refusal.code)
        return None
    with work_tree.committing():
        return _commit(work_tree, entry, candidate.tree, base)


def _commit(work_tree: Repository, entry: PatchLedger, tree: str, base: str) -> str | None:
    """The work is marked as ended last, when the commit is recorded or undone."""
    commit = None
    work_tree.begin(PATCH, entry.pk, base)
    try:
        made = work_tree.commit(tree, base, _commit_message(entry))
        commit = made if record_commit(entry, made) else None
    except GitFailed as error:
        _report_commit_failure(entry, f"could not be committed: {error}")
    if commit is None:
        work_tree.restore(base)
    work_tree.end()
    return commit


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


def _report_failed_tests(entry: PatchLedger, results: list[VerificationResult]) -> None:
    """Report the test that failed, with those that passed before it."""
    *passed, failed = results
    error = f"Tests failed: {failed.describe()}"
    if entry.state == State.APPLIED:
        _fire(entry, "tests_failed", error=error, details={**failed.details(), "passed": _describe_passed(passed)})
    else:
        _report_commit_failure(entry, error)


def _report_passed_tests(entry: PatchLedger, results: list[VerificationResult]) -> PatchLedger:
    if not results:
        return _fire(entry, "tests_passed", reason="no test is configured")
    return _fire(entry, "tests_passed", metadata={"tests": _describe_passed(results)})


def _describe_passed(results: list[VerificationResult]) -> list[dict[str, Any]]:
    return [{"command": each.verification.command[:200], "seconds": each.result.duration_sec} for each in results[:20]]


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
