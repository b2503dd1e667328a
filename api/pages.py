"""Pages of a list by keyset: the cost of a page does not grow with its depth, and no row is skipped or told twice."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from typing import Any, NamedTuple

import orjson
from django.db import models
from django.db.models import Q, QuerySet
from django.utils.http import urlencode

from statecore.kernel.clock import rfc3339
from statecore.kernel.refusals import Invalid, NotFound
from statecore.kernel.ulid import is_valid_id

from .filters import narrowed
from .request import Request

USUAL_SIZE, LARGEST = 100, 500
OWN_WORDS = {"cursor", "page_size", "ordering"}
NEWEST_FIRST = "-created_at"
BAD_CURSOR = "this list has no such page: take `next` or `previous` as they are"


class Cursor(NamedTuple):
    """The row a page ends at; `back` for the page before it."""

    back: bool
    ordering: str
    value: Any
    key: Any


@cache
def orderings(model: type[models.Model]) -> tuple[str, ...]:
    """Only by columns that an index has in order."""
    indexed = {index.fields[0].lstrip("-") for index in model._meta.indexes if index.fields and not index.condition}
    names = [
        field.name
        for field in model._meta.concrete_fields
        if not field.null
        and (field.primary_key or isinstance(field, models.DateTimeField))
        and (field.primary_key or getattr(field, "db_index", False) or field.name in indexed)
    ]
    return tuple(sign + name for name in names for sign in ("", "-"))


def page(
    request: Request,
    rows: QuerySet[Any],
    tell: Callable[[list[Any]], list[Any]],
    usual: str,
    read: Callable[[QuerySet[Any]], list[Any]] = list,
) -> dict[str, Any]:
    """One page of these rows, narrowed by what the query string says."""
    given = dict(request.GET.lists())
    ordering = _ordering(rows.model, given, usual)
    size, cursor = page_size(given), _cursor(given, rows.model, ordering)
    rows = narrowed(rows, {name: values for name, values in given.items() if name not in OWN_WORDS})
    found = read(_beyond(rows, ordering, cursor)[: size + 1])
    chosen, more = found[:size], len(found) > size
    going_back = cursor is not None and cursor.back
    if going_back:
        chosen.reverse()
    has_next, has_previous = (True, more) if going_back else (more, cursor is not None)
    column = ordering.lstrip("-")

    def at(row: Any, *, back: bool) -> str:
        return _url(request, given, Cursor(back, ordering, getattr(row, column), row.pk))

    return {
        "next": at(chosen[-1], back=False) if chosen and has_next else None,
        "previous": at(chosen[0], back=True) if chosen and has_previous else None,
        "results": tell(chosen),
    }


def _beyond(rows: QuerySet[Any], ordering: str, cursor: Cursor | None) -> QuerySet[Any]:
    """The rows on the other side of the cursor, those next to it first."""
    descending = ordering.startswith("-")
    column = ordering.lstrip("-")
    back = cursor is not None and cursor.back
    sign = "-" if descending != back else ""
    if cursor is not None:
        beyond = "lt" if sign else "gt"
        after = Q(**{f"{column}__{beyond}": cursor.value}) | Q(**{column: cursor.value, f"pk__{beyond}": cursor.key})
        # The first condition says nothing new, but lets the database start at the right place of the index.
        rows = rows.filter(Q(**{f"{column}__{beyond}e": cursor.value}) & after)
    order = [sign + column] if column == rows.model._meta.pk.name else [sign + column, f"{sign}pk"]
    return rows.order_by(*order)


def page_size(given: dict[str, list[str]]) -> int:
    text = given.get("page_size", [str(USUAL_SIZE)])[-1]
    if not (text.isascii() and text.isdigit() and len(text) <= 4) or not 1 <= int(text) <= LARGEST:
        raise Invalid({"page_size": [f"must be a number from 1 to {LARGEST}."]})
    return int(text)


def _ordering(model: type[models.Model], given: dict[str, list[str]], usual: str) -> str:
    ordering = given.get("ordering", [usual])[-1]
    if ordering not in orderings(model):
        raise Invalid({"ordering": [f"must be one of {', '.join(orderings(model))}."]})
    return ordering


def _url(request: Request, given: dict[str, list[str]], cursor: Cursor) -> str:
    query = urlencode({**given, "cursor": written(cursor)}, doseq=True)
    return request.build_absolute_uri(f"{request.path}?{query}")


def written(cursor: Cursor) -> str:
    """A cursor as it stands in an address."""
    value = rfc3339(cursor.value) if isinstance(cursor.value, datetime) else cursor.value
    text = orjson.dumps([cursor.back, cursor.ordering, value, cursor.key])
    return base64.urlsafe_b64encode(text).decode().rstrip("=")


def _cursor(given: dict[str, list[str]], model: type[models.Model], ordering: str) -> Cursor | None:
    if "cursor" not in given:
        return None
    text = given["cursor"][-1]
    try:
        back, its_ordering, value, key = orjson.loads(
            base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True)
        )
        column = model._meta.get_field(ordering.lstrip("-"))
        value = _moment(value) if isinstance(column, models.DateTimeField) else value
    except (ValueError, TypeError, OverflowError, binascii.Error):
        raise NotFound(BAD_CURSOR) from None
    fits = isinstance(value, datetime) or value == key
    if its_ordering != ordering or back not in (True, False) or not fits or not _is_key(model, key):
        raise NotFound(BAD_CURSOR)
    return Cursor(back, ordering, value, key)


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("a cursor says in which zone")
    return moment.astimezone(UTC)


def _is_key(model: type[models.Model], key: object) -> bool:
    is_text = isinstance(model._meta.pk, models.CharField)
    return is_valid_id(key) if is_text else type(key) is int and 0 <= key < 2**63
