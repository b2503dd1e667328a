"""The digest of the columns of a row that carry decisions and evidence.

Every event has the digest of the row as the event left it, so the hash chain and the Merkle tree cover these columns
too. Columns with their default value are left out: a column that a later version adds does not change old digests.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from datetime import UTC
from decimal import Decimal
from functools import cache
from typing import Any, NamedTuple

import orjson
from django.db import models

OPTIONS = orjson.OPT_SORT_KEYS | orjson.OPT_UTC_Z
_FLOAT = re.compile(rb"\d[.e]")
SMALLEST, LARGEST = -(2**63), 2**64 - 1  # integers that JSON parsers read back as integers


class Columns(NamedTuple):
    """The columns of a machine that are evidence: their defaults, those that may contain floats, and timestamps."""

    defaults: tuple[tuple[str, Any], ...]
    with_floats: tuple[str, ...]
    times: tuple[str, ...]


@cache
def columns(model: Any) -> Columns:
    """Returns all columns except those that an event has itself and those declared `volatile`."""
    left_out = model.event_columns | set(model.volatile)
    fields = [field for field in model._meta.concrete_fields if field.name not in left_out]
    floats = tuple(field.attname for field in fields if isinstance(field, models.JSONField | models.FloatField))
    times = tuple(field.attname for field in fields if isinstance(field, models.DateTimeField))
    return Columns(tuple((field.attname, _default(field)) for field in fields), floats, times)


def _default(field: models.Field[Any, Any]) -> Any:
    """Returns an object that equals nothing if the column has no default."""
    return field.get_default() if field.has_default() or field.null else object()


def digest(model: Any, values: Mapping[str, Any]) -> str:
    """Returns the SHA-256 of the evidence among these values of a row, by the names of their attributes."""
    defaults, with_floats, times = columns(model)
    given = {name: value for name, default in defaults if (value := values[name]) is not default and value != default}
    for name in with_floats:
        if name in given and _has_floats(given[name]):
            given[name] = _canonical(given[name])
    for name in times:  # databases return them in UTC
        if name in given and given[name].tzinfo is not UTC:
            given[name] = given[name].astimezone(UTC)
    return hashlib.sha256(orjson.dumps(given, option=OPTIONS, default=str)).hexdigest()


def digest_links(links: Mapping[str, Iterable[str]]) -> str:
    """Returns the digests of the linked ids by link, as JSON; links without ids are left out."""
    digests = {name: _digest_ids(ids) for name, ids in sorted(links.items()) if ids}
    return orjson.dumps(digests).decode()


def _digest_ids(ids: Iterable[str]) -> str:
    """The triggers of PostgreSQL compute the same (storage/postgresql_guards.py). No id contains a comma."""
    return hashlib.sha256(",".join(sorted(ids)).encode()).hexdigest()


def _has_floats(value: Any) -> bool:
    try:
        return _FLOAT.search(orjson.dumps(value)) is not None
    except TypeError:  # an integer beyond 64 bits, which was a float before it was stored
        return True


def _canonical(value: Any) -> Any:
    """Returns whole floats as the integers that PostgreSQL stores: 1e16 as 10000000000000000, -0.0 as 0."""
    if isinstance(value, float) and value.is_integer():
        stored = int(Decimal(repr(value)))  # the shortest digits, padded with zeros
        return stored if SMALLEST <= stored <= LARGEST else value
    if isinstance(value, int) and not SMALLEST <= value <= LARGEST:
        return float(value)
    if isinstance(value, dict):
        return {key: _canonical(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_canonical(member) for member in value]
    return value
