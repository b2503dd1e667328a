"""The alert `train_late`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from statecore.framework.extensions import CountRule, Severity, Violation

from .models import State, Train


def find_late_trains(at: datetime) -> Iterator[Violation]:
    for train in Train.objects.filter(state=State.BOARDING, departs_at__lt=at):
        yield Violation(train.pk, f"train {train.pk} was due, but its run has not succeeded")


TRAIN_LATE = CountRule("train_late", Severity.WARNING, "a train is due before its run has succeeded", find_late_trains)
