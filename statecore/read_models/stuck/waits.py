"""Waits of one entity for another, and which one to name if it waits for several."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db.models import Case, Count, F, QuerySet, When, Window
from django.db.models.functions import RowNumber

from ...kernel.entity import Entity
from ...storage.links import cached_for_batch


@dataclass(frozen=True, slots=True)
class Wait:
    """`relation` is written between the two entities: waits for, blocked by, runs on."""

    relation: str
    entity: Entity
    others: int = 0  # further entities that are waited for
    skipped: int = 0  # entities between the two


@dataclass(frozen=True, slots=True)
class SharedCause:
    """A root cause that is no entity that waits, and that many entities have in common.

    `key` identifies it: `no_worker git`, or the type and id of the entity that it is about.
    """

    key: str
    text: str


@dataclass(frozen=True, slots=True)
class Detail:
    """A description of the entity that contains information about another machine, `about`, if it is not empty."""

    text: str
    about: str = ""
    shared: SharedCause | None = None


# A text describes the entity itself, which is the root cause; an empty text leaves the description to the caller.
Cause = Wait | Detail | str


def find_wait(
    relation: str, entity: Entity, link: str, *, done: Iterable[str] = (), only: Iterable[str] = ()
) -> Wait | None:
    """Returns the wait for the linked entity that is least likely to finish, or None if there is none.

    Ended entities come first, then blocked ones, then those that have been in their state longest. A retried entity is
    represented by its successor. A batch shares one query.
    """
    model, done, only = type(entity), tuple(sorted(done)), tuple(sorted(only))
    key = (find_wait, model, link, done, only)
    found = cached_for_batch(entity, key, lambda ids: _find_first(model, link, ids, done, only))
    return Wait(relation, *found[entity.pk]) if entity.pk in found else None


def find_wait_among(relation: str, candidates: QuerySet[Any]) -> Wait | None:
    """Like `find_wait`, for one entity and any candidates."""
    found = candidates.order_by(_rank_by_state(candidates.model), "state_entered_at", "pk").first()
    return Wait(relation, found, candidates.count() - 1) if found else None


def _find_first(
    model: type[Entity], link: str, ids: list[str], done: tuple[str, ...], only: tuple[str, ...]
) -> dict[str, tuple[Any, int]]:
    """Returns, by id, the first linked entity and the number of further ones."""
    rows, own, other, prefix = _link_rows(model._meta.get_field(link), ids)
    target: Any = model._meta.get_field(link).related_model
    rows = rows.exclude(**{f"{prefix}state__in": done})
    if target.flow.may_be_waived():
        rows = rows.exclude(**{f"{prefix}waived": True})
    if only:
        rows = rows.filter(**{f"{prefix}state__in": only})
    order: list[Any] = [_rank_by_state(target, prefix), F(f"{prefix}state_entered_at"), F(other)]
    ranked = rows.annotate(
        rank=Window(RowNumber(), partition_by=[F(own)], order_by=order),
        count=Window(Count(other), partition_by=[F(own)]),
    )
    first = {source: (found, count) for source, found, count in ranked.filter(rank=1).values_list(own, other, "count")}
    entities = target.objects.in_bulk({found for found, _count in first.values()})
    return {source: (entities[found], count - 1) for source, (found, count) in first.items()}


def _link_rows(field: Any, ids: list[str]) -> tuple[Any, str, str, str]:
    """Returns the rows that hold a link, the columns of its two ends, and the prefix of the fields of the other end."""
    if field.many_to_many:
        own, other = field.m2m_field_name(), field.m2m_reverse_field_name()
        rows = field.remote_field.through.objects.filter(**{f"{own}__in": ids})
        return rows, f"{own}_id", f"{other}_id", f"{other}__"
    own = field.field.attname
    return field.related_model.objects.filter(**{f"{own}__in": ids}, successor=None), own, "pk", ""


def _rank_by_state(model: Any, prefix: str = "") -> Case:
    has_ended, is_blocked = {f"{prefix}state__in": sorted(model.flow.final)}, {f"{prefix}state__iexact": "blocked"}
    return Case(When(**has_ended, then=0), When(**is_blocked, then=1), default=2)
