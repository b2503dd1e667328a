"""Keyset pagination: a page costs the same at any depth, and no row is skipped or repeated."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from functools import cache
from typing import Any, NamedTuple

import orjson
from django.db import models
from django.db.models import Q, QuerySet
from django.utils.http import urlencode

from statecore.kernel.clock import rfc3339
from statecore.kernel.ids import is_valid_id
from statecore.kernel.refusals import Invalid, NotFound

from .filters import apply_filters
from .request import Request

DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE = 100, 500
PAGE_PARAMS = {"cursor", "page_size", "ordering"}
LOG_PARAMS = {"after", "page_size"}
NEWEST_FIRST = "-created_at"
BAD_CURSOR = "invalid cursor: use the URLs in `next` and `previous` unchanged"


class Cursor(NamedTuple):
    """The row at which a page begins or ends: the next page starts after it, with `back` the previous ends before it.

    `value` is its value in the column of the ordering, `key` its primary key.
    """

    back: bool
    ordering: str
    value: Any
    key: Any


@cache
def list_orderings(model: type[models.Model]) -> tuple[str, ...]:
    """Return the orderings that an index supports."""
    indexed = {index.fields[0].lstrip("-") for index in model._meta.indexes if index.fields and not index.condition}
    names = [
        field.name
        for field in model._meta.concrete_fields
        if not field.null
        and (field.primary_key or isinstance(field, models.DateTimeField))
        and (field.primary_key or getattr(field, "db_index", False) or field.name in indexed)
    ]
    return tuple(sign + name for name in names for sign in ("", "-"))


def paginate(
    request: Request,
    rows: QuerySet[Any],
    serialize: Callable[[list[Any]], list[Any]],
    default_ordering: str,
    read: Callable[[QuerySet[Any]], list[Any]] = list,
) -> dict[str, Any]:
    """Return the page that the query string selects, with links to the next and the previous page.

    `read` runs the query and `serialize` renders its rows. Raises Invalid for an unknown filter or ordering, and
    NotFound for a cursor that this list did not issue.
    """
    given = dict(request.GET.lists())
    ordering = _read_ordering(rows.model, given, default_ordering)
    size, cursor = read_page_size(given), _read_cursor(given, rows.model, ordering)
    rows = apply_filters(rows, {name: values for name, values in given.items() if name not in PAGE_PARAMS})
    found = read(_select_beyond(rows, ordering, cursor)[: size + 1])
    chosen, more = found[:size], len(found) > size
    pages_back = cursor is not None and cursor.back
    if pages_back:
        chosen.reverse()
    has_next, has_previous = (True, more) if pages_back else (more, cursor is not None)
    column = ordering.lstrip("-")

    def build_url_at(row: Any, *, back: bool) -> str:
        return _build_url(request, given, Cursor(back, ordering, getattr(row, column), row.pk))

    return {
        "next": build_url_at(chosen[-1], back=False) if chosen and has_next else None,
        "previous": build_url_at(chosen[0], back=True) if chosen and has_previous else None,
        "results": serialize(chosen),
    }


def _select_beyond(rows: QuerySet[Any], ordering: str, cursor: Cursor | None) -> QuerySet[Any]:
    """Return the rows after the cursor, or before it if it points back; the nearest come first."""
    descending = ordering.startswith("-")
    column = ordering.lstrip("-")
    back = cursor is not None and cursor.back
    sign = "-" if descending != back else ""
    if cursor is not None:
        beyond = "lt" if sign else "gt"
        after = Q(**{f"{column}__{beyond}": cursor.value}) | Q(**{column: cursor.value, f"pk__{beyond}": cursor.key})
        # The first condition follows from the second; it is there so that the database seeks in the index.
        rows = rows.filter(Q(**{f"{column}__{beyond}e": cursor.value}) & after)
    order = [sign + column] if column == rows.model._meta.pk.name else [sign + column, f"{sign}pk"]
    return rows.order_by(*order)


def read_page_size(given: dict[str, list[str]]) -> int:
    text = given.get("page_size", [str(DEFAULT_PAGE_SIZE)])[-1]
    if not (text.isascii() and text.isdigit() and len(text) <= 4) or not 1 <= int(text) <= MAX_PAGE_SIZE:
        raise Invalid({"page_size": [f"must be a number from 1 to {MAX_PAGE_SIZE}."]})
    return int(text)


def _read_ordering(model: type[models.Model], given: dict[str, list[str]], default: str) -> str:
    ordering = given.get("ordering", [default])[-1]
    if ordering not in list_orderings(model):
        raise Invalid({"ordering": [f"must be one of {', '.join(list_orderings(model))}."]})
    return ordering


def _build_url(request: Request, given: dict[str, list[str]], cursor: Cursor) -> str:
    query = urlencode({**given, "cursor": encode_cursor(cursor)}, doseq=True)
    return request.build_absolute_uri(f"{request.path}?{query}")


def encode_cursor(cursor: Cursor) -> str:
    value = rfc3339(cursor.value) if isinstance(cursor.value, datetime) else cursor.value
    text = orjson.dumps([cursor.back, cursor.ordering, value, cursor.key])
    return base64.urlsafe_b64encode(text).decode().rstrip("=")


def _read_cursor(given: dict[str, list[str]], model: type[models.Model], ordering: str) -> Cursor | None:
    if "cursor" not in given:
        return None
    text = given["cursor"][-1]
    try:
        back, cursor_ordering, value, key = orjson.loads(
            base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True)
        )
        column = model._meta.get_field(ordering.lstrip("-"))
        value = _parse_time(value) if isinstance(column, models.DateTimeField) else value
    except (ValueError, TypeError, OverflowError, binascii.Error):
        raise NotFound(BAD_CURSOR) from None
    fits = isinstance(value, datetime) or value == key
    if cursor_ordering != ordering or back not in (True, False) or not fits or not _is_key(model, key):
        raise NotFound(BAD_CURSOR)
    return Cursor(back, ordering, value, key)


def _parse_time(text: str) -> datetime:
    time = datetime.fromisoformat(text)
    if time.tzinfo is None:
        raise ValueError("no time zone")
    return time.astimezone(UTC)


def _is_key(model: type[models.Model], key: object) -> bool:
    is_text = isinstance(model._meta.pk, models.CharField)
    return is_valid_id(key) if is_text else type(key) is int and 0 <= key < 2**63


def paginate_log(request: Request, rows: QuerySet[Any], filters: Collection[str] = ()) -> dict[str, Any]:
    """Return a page of the log of one entity, oldest first, by the number of its last entry.

    `filters` are the columns by whose values the caller may choose entries.
    """
    given = dict(request.GET.lists())
    if unknown := given.keys() - LOG_PARAMS - set(filters):
        raise Invalid({name: ["is not a parameter of this list."] for name in sorted(unknown)})
    size, after = read_page_size(given), _read_after(given)
    chosen_by = {name: given[name] for name in filters if name in given}
    rows = rows.filter(**{f"{name}__in": values for name, values in chosen_by.items()})
    found = list(rows.filter(sequence__gt=after).order_by("sequence")[: size + 1])
    chosen = found[:size]

    def build_url_after(number: int) -> str:
        params: dict[str, Any] = {"after": number, "page_size": size, **chosen_by}
        query = urlencode(params, doseq=True)
        return request.build_absolute_uri(f"{request.path}?{query}")

    return {
        "next": build_url_after(chosen[-1].sequence) if len(found) > size else None,
        "previous": build_url_after(_find_previous_start(rows, after, size)) if after else None,
        "results": [row.as_dict() for row in chosen],
    }


def _find_previous_start(rows: QuerySet[Any], after: int, size: int) -> int:
    """Return the number of the last entry before the page that ends with the entry `after`."""
    earlier = rows.filter(sequence__lte=after).order_by("-sequence").values_list("sequence", flat=True)
    return next(iter(earlier[size : size + 1]), 0)


def _read_after(given: dict[str, list[str]]) -> int:
    text = given.get("after", ["0"])[-1]
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise Invalid({"after": ["must be a whole number of at most nine digits."]})
    return int(text)
