"""Waiting for another entity, and choosing which of several is worth naming."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db.models import Case, F, QuerySet, When, Window
from django.db.models.functions import RowNumber

from ...kernel.entity import Entity
from ...kernel.links import alike, once

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


def first_wait(
    relation: str, entity: Entity, link: str, *, done: Iterable[str] = (), only: Iterable[str] = ()
) -> Wait | None:
    """For the one at the other end that will not come by itself: what has ended, then what is blocked, then what waits
    longest. Asked for a whole batch at once; children that were retried are answered for by their successors.
    """
    model, but, among = type(entity), tuple(sorted(done)), tuple(sorted(only))
    found = once((first_wait, model, link, but, among), lambda: _first(model, link, alike(entity), but, among))
    return Wait(relation, *found[entity.pk]) if entity.pk in found else None


def first_of(relation: str, candidates: QuerySet[Any]) -> Wait | None:
    """The same of any choice, for one entity."""
    found = list(candidates.order_by(_hopeless(candidates.model), "state_entered_at", "pk")[:BREADTH])
    return Wait(relation, found[0], len(found) - 1) if found else None


def _first(
    model: type[Entity], link: str, ids: list[str], done: tuple[str, ...], only: tuple[str, ...]
) -> dict[str, tuple[Any, int]]:
    """By id: the first at the other end of its link, and how many more there are."""
    rows, own, other, to = _links(model._meta.get_field(link), ids)
    rows = rows.exclude(**{f"{to}state__in": done})
    if only:
        rows = rows.filter(**{f"{to}state__in": only})
    target: Any = model._meta.get_field(link).related_model
    order: list[Any] = [_hopeless(target, to), F(f"{to}state_entered_at"), F(other)]
    ranked = rows.annotate(rank=Window(RowNumber(), partition_by=[F(own)], order_by=order)).filter(rank__lte=BREADTH)
    first: dict[str, str] = {}
    count: Counter[str] = Counter()
    for source, found, rank in ranked.values_list(own, other, "rank"):
        count[source] += 1
        if rank == 1:
            first[source] = found
    entities = target.objects.in_bulk(set(first.values()))
    return {source: (entities[found], count[source] - 1) for source, found in first.items()}


def _links(field: Any, ids: list[str]) -> tuple[Any, str, str, str]:
    """The rows that hold a link, the columns of its two ends, and the way to the fields of the other end."""
    if field.many_to_many:
        own, to = field.m2m_field_name(), field.m2m_reverse_field_name()
        rows = field.remote_field.through.objects.filter(**{f"{own}__in": ids})
        return rows, f"{own}_id", f"{to}_id", f"{to}__"
    own = field.field.attname
    return field.related_model.objects.filter(**{f"{own}__in": ids}, successor=None), own, "pk", ""


def _hopeless(model: Any, to: str = "") -> Case:
    has_ended, is_blocked = {f"{to}state__in": sorted(model.flow.final)}, {f"{to}state__iexact": "blocked"}
    return Case(When(**has_ended, then=0), When(**is_blocked, then=1), default=2)
