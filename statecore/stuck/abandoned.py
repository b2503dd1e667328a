"""What a workstream leaves behind when it ends: gates and patches that nobody waits for any more."""

from __future__ import annotations

from ..door import rows
from ..door.change import Change
from ..machines.patch_ledger import PatchLedger
from ..machines.test_gate import TestGate

PARTS = (TestGate, PatchLedger)


def mark_what_is_left(changes: list[Change]) -> None:
    """The reaction to the end of workstreams. They keep their states: they neither passed nor failed."""
    ended = [change.entity.pk for change in changes if _is_the_end_of_a_workstream(change)]
    for model in PARTS if ended else ():
        left = model.objects.filter(workstream__in=ended).exclude(state__in=sorted(model.flow.final))
        # One that somebody else has locked is on its way to an end of its own, and whoever does that waits for us.
        ours = rows.lock_many(model, list(left.values_list("pk", flat=True)), skip_locked=True)
        model.objects.filter(pk__in=[part.pk for part in ours]).update(abandoned=True)


def _is_the_end_of_a_workstream(change: Change) -> bool:
    flow = change.entity.flow
    return flow.entity_type == "workstream" and flow.is_final(change.entry.to_state)
