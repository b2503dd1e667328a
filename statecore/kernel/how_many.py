"""What belongs to each row that is asked about, by one look into an index for each.

A join or EXISTS would say the same, but the database may then read all there is of the other side, and does where it
has not been told how much that is.
"""

from __future__ import annotations

from typing import Any

from django.db.models import IntegerField, Model, OuterRef, Q, Subquery

from .fields import related


class HowMany(Subquery):
    template = "(SELECT count(*) FROM (%(subquery)s) AS counted)"
    output_field = IntegerField()


def how_many_linked(model: type[Model], link: str, such: Q) -> HowMany:
    """Of those at the other end of a link."""
    field: Any = model._meta.get_field(link)
    there = HowMany(field.related_model.objects.filter(such, pk=OuterRef(field.m2m_reverse_field_name())))
    links = field.remote_field.through.objects.filter(**{field.m2m_field_name(): OuterRef("pk")})
    return HowMany(links.alias(there=there).filter(there__gt=0).values("pk"))


def of_its(model: type[Model], link: str, name: str) -> Subquery:
    """A column of what stands at the other end of a key, by one look."""
    there: Any = related(model, link)
    return Subquery(there.objects.filter(pk=OuterRef(f"{link}_id")).values(name))


def without_successor(rows: Any) -> Any:
    """What was retried is answered for by its successor."""
    return rows.alias(successors=HowMany(rows.model.objects.filter(retry_of=OuterRef("pk")).values("pk"))).filter(
        successors=0
    )
