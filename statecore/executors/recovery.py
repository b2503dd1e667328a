"""Putting the work tree in order after a runner that was killed in the middle of a patch or a rollback."""

from __future__ import annotations

import structlog

from .. import door
from ..kernel.actors import THE_SYSTEM
from ..kernel.refusals import Refusal
from ..machines.patch_ledger import PatchLedger, State
from .repository import Repository

log = structlog.get_logger(__name__)

PATCH, ROLLBACK = "patch", "rollback"
TRAILERS = {PATCH: "Statecore-Patch", ROLLBACK: "Statecore-Rollback"}
RECORDED_AS = {PATCH: State.COMMITTED, ROLLBACK: State.ROLLED_BACK}


def put_in_order(repository: Repository) -> None:
    """Either what was under way is committed and recorded, or nothing of it is left."""
    left = repository.under_way()
    if left is None:
        return
    repository.remove_stale_locks()
    made, head = repository.find(TRAILERS[left.work], left.ledger, since=left.base), repository.head()
    recorded = made is not None and _is_recorded(left.work, left.ledger, made)
    # A commit that no ledger entry knows goes, unless somebody has built on it.
    repository.restore(left.base if made == head and not recorded else head)
    repository.end()
    log.warning("work_tree_put_in_order", work=left.work, ledger=left.ledger, commit=made, recorded=recorded)


def _is_recorded(work: str, ledger_id: str, made: str) -> bool:
    entry = PatchLedger.objects.get(pk=ledger_id)
    if work == PATCH and entry.state == State.VERIFIED:
        return record_commit(entry, made)
    return bool(entry.state == RECORDED_AS[work])


def record_commit(entry: PatchLedger, made: str) -> bool:
    try:
        door.transition(
            PatchLedger,
            entry.pk,
            "commit_succeeded",
            actor=THE_SYSTEM,
            params={"commit_sha": made},
            expected_version=entry.version,
        )
    except Refusal as refusal:
        log.warning("commit_not_recorded", ledger=entry.pk, code=refusal.code, detail=refusal.detail)
        return False
    return True
