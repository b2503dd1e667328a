"""Marks the gates and patches that an ended workstream leaves behind as abandoned."""

from __future__ import annotations

from typing import Any

from ..kernel.constraints import is_live
from ..kernel.entity import Entity
from ..machines.patch_ledger import PatchLedger
from ..machines.test_gate import TestGate
from ..machines.workstream import FINAL as ENDED
from ..storage.keyset_scan import next_by_entry
from ..transitions.change import Change
from ..transitions.unit_of_work import UnitOfWork

PARTS = (TestGate, PatchLedger)
BATCH = 500


def mark_abandoned(work: UnitOfWork, changes: list[Change]) -> None:
    """Mark the unfinished parts of ended workstreams; they keep their states, having neither passed nor failed."""
    ended = [change.entity.pk for change in changes if change.entry.to_state in ENDED]
    if ended:
        work.flush()
    for model in PARTS if ended else ():
        left = model.objects.filter(workstream__in=ended).exclude(state__in=sorted(model.flow.final))
        # Rows locked elsewhere are not awaited; the sweep finds them.
        ours = work.lock_known(model, left.values_list("pk", flat=True), skip_locked=True)
        model.objects.filter(pk__in=[part.pk for part in ours]).update(abandoned=True)


# Where this process stopped last time, so that many parts of live workstreams do not hide the others.
_places: dict[tuple[type[Entity], str], Any] = {}


def mark_overlooked() -> int:
    """Mark parts that were locked, or did not exist, when their workstream ended; a batch of each state."""
    return sum(
        _mark_some(model, state) for model in PARTS for state in model.flow.states if not model.flow.is_final(state)
    )


def _mark_some(model: Any, state: str) -> int:
    waiting = model.objects.filter(is_live(model.flow.final), state=state, abandoned=False)
    ids = next_by_entry(waiting, _places, (model, state), BATCH)
    left = model.objects.filter(pk__in=ids, workstream__state__in=sorted(ENDED))
    return int(left.update(abandoned=True)) if ids else 0
