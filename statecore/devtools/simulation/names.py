"""Names of a simulation: a dedicated phase, and a label that its ids begin with."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from random import Random
from typing import Any

from django.db.models import QuerySet

from ...kernel.entity import Entity
from ...machines import task
from ...machines.task import Task
from ...records import Phase

PHASE = "simulation-"  # prefix of the phase of every simulation
FORBIDDEN = "secrets/*"  # paths that simulated patches may not change
CAPABILITY = "simulated"  # required by simulated tasks, so that no real agent claims them


class RealWorkFound(Exception):
    """Simulated agents would claim, or have claimed, real tasks."""


@dataclass(frozen=True)
class Names:
    """The first simulation with seed 7 in a database has the label `sim7`, the second `sim7.2`."""

    seed: int
    label: str

    @property
    def phase(self) -> str:
        return PHASE + self.label

    def random(self, purpose: str) -> Random:
        """Returns the random generator for one participant, which depends only on the seed."""
        return Random(f"{self.seed}:{purpose}")


def reserve(seed: int) -> Names:
    """Returns the first free label. The phase row makes it unique across processes."""
    for turn in count(1):
        names = Names(seed, f"sim{seed}" if turn == 1 else f"sim{seed}.{turn}")
        title = f"Simulation with seed {seed}"
        _phase, is_new = Phase.objects.get_or_create(
            id=names.phase, defaults={"title": title, "forbidden_paths": [FORBIDDEN]}
        )
        if is_new:
            return names
    raise AssertionError("unreachable")


def simulated(model: type[Entity]) -> QuerySet[Any]:
    """Returns the entities of all simulations, because a simulation also finishes what earlier ones left."""
    found: QuerySet[Any] = model.objects.filter(phase__id__startswith=PHASE)
    return found


def refuse_real_work() -> None:
    """Raises if live real tasks exist, because simulated workers could claim those without capabilities."""
    real = (
        Task.objects.filter(state__in=task.LIVE)
        .exclude(phase__id__startswith=PHASE)
        .values_list("pk", flat=True)
        .first()
    )
    if real is not None:
        raise RealWorkFound(f"task {real} is real work, and simulated agents would claim it")
