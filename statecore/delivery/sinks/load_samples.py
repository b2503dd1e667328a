"""Samples of the load: the slots of live workers, how many are busy, the queue, and what is stuck."""

from __future__ import annotations

from collections import Counter
from datetime import datetime

from django.db.models import Count

from ...kernel.constraints import SqlLiteral
from ...machines.task import State, Task
from ...records import IncidentEntity
from ...records.roll_up import Load
from ...scheduling.matching import select_working

Samples = Counter[tuple[str, str]]  # by measure and subject


def sample_load(at: datetime) -> Samples:
    """Returns the current numbers by capability, and what is stuck by machine as the last sweep of incidents found it.

    The numbers without a subject count every worker and task once.
    """
    slots, busy, queued, stuck = (measure.value for measure in (Load.SLOTS, Load.BUSY, Load.QUEUED, Load.STUCK))
    samples: Samples = Counter({(slots, ""): 0, (busy, ""): 0, (queued, ""): 0})
    for capabilities, room, load in select_working(at).values_list(*_WORKER):
        for subject in ("", *capabilities):
            samples[slots, subject] += room
            samples[busy, subject] += load
    tasks = Task.objects.filter(state=SqlLiteral(State.QUEUED)).order_by().values_list("required_capabilities")
    for capabilities, count in tasks.annotate(Count("pk")):
        for subject in ("", *capabilities):
            samples[queued, subject] += count
    entities = IncidentEntity.objects.order_by().values_list("entity_type")
    for entity_type, count in entities.annotate(Count("pk")):
        samples[stuck, entity_type] += count
    return samples


_WORKER = ("capabilities", "max_concurrent_tasks", "current_load")
