"""Waiting for another entity, and choosing which of several is worth naming."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db.models import Case, QuerySet, When

from ...kernel.entity import Entity

BREADTH = 10  # of what an entity waits for, how many are looked at


@dataclass(frozen=True, slots=True)
class Wait:
    """`relation` is said between the two: waits for, blocked by, runs on."""

    relation: str
    entity: Entity
    others: int = 0


@dataclass(frozen=True, slots=True)
class Tale:
    """The rest of a sentence about the entity itself that tells of another machine."""

    text: str
    about: str


# A text is the rest of a sentence about the entity itself; an empty one means there is nothing special to say.
Cause = Wait | Tale | str


def first_wait(relation: str, candidates: QuerySet[Any], done: Iterable[str]) -> Wait | None:
    """For the one that will not come by itself: what has ended, then what is blocked, then what waits longest."""
    model: Any = candidates.model
    hopeless = Case(When(state__in=model.flow.final, then=0), When(state__iexact="blocked", then=1), default=2)
    ranked = candidates.exclude(state__in=list(done)).order_by(hopeless, "state_entered_at", "pk")
    found = list(ranked.values_list("pk", flat=True)[:BREADTH])
    return Wait(relation, model.objects.get(pk=found[0]), len(found) - 1) if found else None
