"""What a patch waits for."""

from __future__ import annotations

from datetime import datetime

from ...machines.patch_ledger import PatchLedger, State
from .. import words
from .wait import Cause

NEXT = {
    State.CREATED: "it is not validated yet",
    State.QUEUED: "it is not applied yet",
    State.APPLIED: "its tests have not reported",
    State.VERIFIED: "it is not committed yet",
}


def cause(patch: PatchLedger, at: datetime) -> Cause:
    if patch.abandoned:
        return words.standing(patch, at, f"its workstream {patch.workstream_id} has ended")
    if patch.state == State.VALIDATED:
        objection = patch.phase.objection(patch.patch.touched_paths())
        return words.standing(patch, at, objection or "it is not accepted for merge yet")
    if patch.state == State.APPLY_FAILED:
        return words.standing(patch, at, words.first_line(patch.last_error))
    return words.standing(patch, at, NEXT[State(patch.state)])
