"""What belongs to a simulation: a phase of its own, and ids that begin with its label."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from random import Random
from typing import Any

from django.db.models import QuerySet

from ..kernel.entity import Entity
from ..machines import task
from ..machines.task import Task
from ..records import Phase

PHASE = "simulation-"  # every phase of a simulation begins like this
FORBIDDEN = "secrets/*"  # what a simulated patch may not touch
CAPABILITY = "simulated"  # what simulated tasks ask for, so that no real agent takes one


class RealWork(Exception):
    """Simulated agents would take tasks that somebody means."""


@dataclass(frozen=True)
class Names:
    """A seed played for the first time in a database is `sim7`, for the second time `sim7.2`."""

    seed: int
    label: str

    @property
    def phase(self) -> str:
        return PHASE + self.label

    def random(self, whose: str) -> Random:
        """The choices of one of the crowd: the same for the same seed, whatever the label."""
        return Random(f"{self.seed}:{whose}")


def reserve(seed: int) -> Names:
    """The first label nobody has; the row of the phase is what two processes cannot both make."""
    for turn in count(1):
        names = Names(seed, f"sim{seed}" if turn == 1 else f"sim{seed}.{turn}")
        title = f"Simulation with seed {seed}"
        _phase, is_new = Phase.objects.get_or_create(
            id=names.phase, defaults={"title": title, "forbidden_paths": [FORBIDDEN]}
        )
        if is_new:
            return names
    raise AssertionError("there is always another number")


def simulated(model: type[Entity]) -> QuerySet[Any]:
    """The entities of any simulation: what one left behind is finished by the next."""
    found: QuerySet[Any] = model.objects.filter(phase__id__startswith=PHASE)
    return found


def refuse_real_work() -> None:
    """A task that asks for no capability is open to every worker, simulated ones too."""
    real = (
        Task.objects.filter(state__in=task.LIVE)
        .exclude(phase__id__startswith=PHASE)
        .values_list("pk", flat=True)
        .first()
    )
    if real is not None:
        raise RealWork(f"task {real} is real work, and simulated agents would take it")
