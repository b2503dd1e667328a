"""Recovery of the work tree after a runner was killed during a patch or a rollback."""

from __future__ import annotations

import structlog

from .. import transitions
from ..kernel.actors import THE_SYSTEM
from ..kernel.refusals import Refusal
from ..machines.patch_ledger import PatchLedger, State
from .repository import Repository

log = structlog.get_logger(__name__)

PATCH, ROLLBACK = "patch", "rollback"
TRAILERS = {PATCH: "Statecore-Patch", ROLLBACK: "Statecore-Rollback"}
RECORDED_AS = {PATCH: State.COMMITTED, ROLLBACK: State.ROLLED_BACK}


def recover_work_tree(repository: Repository) -> None:
    """Complete the ledger entry of the unfinished work if it was committed; otherwise remove all traces of it."""
    unfinished = repository.read_unfinished()
    if unfinished is None:
        return
    repository.remove_stale_locks()
    commit = repository.find_commit(TRAILERS[unfinished.work], unfinished.ledger, since=unfinished.base)
    head = repository.head()
    recorded = commit is not None and _is_recorded(unfinished.work, unfinished.ledger, commit)
    with repository.committing():
        # An unrecorded commit is removed, unless there are later commits on top of it.
        repository.restore(unfinished.base if commit == head and not recorded else head)
        repository.end()
    log.warning("work_tree_recovered", work=unfinished.work, ledger=unfinished.ledger, commit=commit, recorded=recorded)


def _is_recorded(work: str, ledger_id: str, commit: str) -> bool:
    entry = PatchLedger.objects.get(pk=ledger_id)
    if work == PATCH and entry.state == State.VERIFIED:
        return record_commit(entry, commit)
    return bool(entry.state == RECORDED_AS[work])


def record_commit(entry: PatchLedger, commit: str) -> bool:
    try:
        transitions.transition(
            PatchLedger,
            entry.pk,
            "commit_succeeded",
            actor=THE_SYSTEM,
            params={"commit_sha": commit},
            expected_version=entry.version,
        )
    except Refusal as refusal:
        log.warning("commit_not_recorded", ledger=entry.pk, code=refusal.code, detail=refusal.detail)
        return False
    return True
