"""When the runs that started last will probably end: for displays.

Estimated at most every half minute for all viewers of a process, because each estimate simulates its run.
"""

from __future__ import annotations

from datetime import datetime

from ...machines.run import Run
from ...machines.task import Task
from ...machines.workstream import Workstream
from ..estimates import Estimate, list_estimates
from .cached import Cached

FACTOR = 6  # of the usual time between two reads
MAX_RUNS = 3
# An estimate is about all of them, as `runs/{id}/estimate/` is.
ABOUT = {Run.flow.entity_type, Workstream.flow.entity_type, Task.flow.entity_type}


def _read(_at: datetime) -> list[Estimate]:
    return list_estimates(MAX_RUNS)


cache = Cached(_read, FACTOR)
