"""Who of those that wait could take a task now: asked for all of them at once, without claiming anything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ..machines.task import State, Task
from ..machines.worker import Worker

LOOKED_AT = 2_000  # tasks; whoever could only take one further behind finds it by claiming


def worth_asking(worker_ids: Sequence[str]) -> list[str]:
    """In the order given: those that a queued task is left for, and those that may not claim any more."""
    queued = Task.objects.filter(state=State.QUEUED).order_by("-priority", "state_entered_at", "id")
    open_ = Counter(
        (tuple(required), workstream)
        for required, workstream in queued.values_list("required_capabilities", "workstream_id")[:LOOKED_AT]
    )
    workers = Worker.objects.in_bulk(list(worker_ids))
    return [pk for pk in worker_ids if pk not in workers or _takes_one(workers[pk], open_)]


def _takes_one(worker: Worker, open_: Counter[tuple[tuple[str, ...], str]]) -> bool:
    if worker.why_not_at_all():
        return True
    room = worker.max_concurrent_tasks - worker.current_load
    found = False
    for kind, count in open_.items():
        if room and count and worker.why_not(kind[1], kind[0]) is None:
            taken = min(room, count)
            open_[kind] -= taken
            room -= taken
            found = True
    return found
