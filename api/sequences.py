"""Pages of a log of one entity, by its sequence numbers: dense, oldest first, never changing."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet

from statecore.kernel.refusals import Invalid

from .pages import page_size
from .request import Request

WORDS = {"after", "page_size"}


def page(request: Request, rows: QuerySet[Any]) -> dict[str, Any]:
    """Those after a number, as many as fit."""
    given = dict(request.GET.lists())
    if strange := given.keys() - WORDS:
        raise Invalid({name: ["is not a parameter of this list."] for name in sorted(strange)})
    size, after = page_size(given), _after(given)
    found = list(rows.filter(sequence__gt=after).order_by("sequence")[: size + 1])
    chosen = found[:size]

    def at(number: int) -> str:
        return request.build_absolute_uri(f"{request.path}?after={number}&page_size={size}")

    return {
        "next": at(chosen[-1].sequence) if len(found) > size else None,
        "previous": at(max(0, after - size)) if after else None,
        "results": [row.as_dict() for row in chosen],
    }


def _after(given: dict[str, list[str]]) -> int:
    text = given.get("after", ["0"])[-1]
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise Invalid({"after": ["must be a whole number of at most nine digits."]})
    return int(text)
