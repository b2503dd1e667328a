"""What a workstream leaves behind when it ends: gates and patches that nobody waits for any more."""

from __future__ import annotations

from typing import Any

from ..door import rows
from ..door.change import Change
from ..kernel.entity import Entity
from ..kernel.indexes import is_live
from ..kernel.strides import next_by_entry
from ..machines.patch_ledger import PatchLedger
from ..machines.test_gate import TestGate
from ..machines.workstream import FINAL as ENDED

PARTS = (TestGate, PatchLedger)
BATCH = 500


def mark_what_is_left(changes: list[Change]) -> None:
    """The reaction to the end of workstreams. They keep their states: they neither passed nor failed."""
    ended = [change.entity.pk for change in changes if _is_the_end_of_a_workstream(change)]
    for model in PARTS if ended else ():
        left = model.objects.filter(workstream__in=ended).exclude(state__in=sorted(model.flow.final))
        # One that somebody else has locked is not waited for: what is left of it then, the sweep finds.
        ours = rows.at_hand(model, left.values_list("pk", flat=True), skip_locked=True)
        model.objects.filter(pk__in=[part.pk for part in ours]).update(abandoned=True)


# Where this process stopped last time, so that many who are waited for do not hide the others.
_places: dict[tuple[type[Entity], str], Any] = {}


def mark_overlooked() -> int:
    """Those that were in other hands, or not there yet, when their workstream ended; a batch of each state."""
    return sum(
        _mark_some(model, state) for model in PARTS for state in model.flow.states if not model.flow.is_final(state)
    )


def _mark_some(model: Any, state: str) -> int:
    waiting = model.objects.filter(is_live(model.flow.final), state=state, abandoned=False)
    ids = next_by_entry(waiting, _places, (model, state), BATCH)
    left = model.objects.filter(pk__in=ids, workstream__state__in=sorted(ENDED))
    return int(left.update(abandoned=True)) if ids else 0


def _is_the_end_of_a_workstream(change: Change) -> bool:
    flow = change.entity.flow
    return flow.entity_type == "workstream" and flow.is_final(change.entry.to_state)
