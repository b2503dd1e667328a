"""Passes a list of values as one parameter of a statement, on either database.

A single value is compared with `=`. For a list of unknown length PostgreSQL estimates ten rows, prefers a custom plan
over the generic one, and spends more time on planning than on the query.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any


def in_clause(vendor: str, count: int) -> str:
    """Returns what follows the column in a WHERE clause; `in_param` makes the parameter."""
    if count == 1:
        return "= %s"
    return "= ANY(%s)" if vendor == "postgresql" else "IN (SELECT value FROM json_each(%s))"


def in_param(values: Sequence[str], vendor: str) -> Any:
    if len(values) == 1:
        return values[0]
    return list_param(values, vendor)


def list_param(values: Iterable[str], vendor: str) -> Any:
    return list(values) if vendor == "postgresql" else json.dumps(list(values))


def quote_states(states: Iterable[str]) -> str:
    """Inlines states into a statement so that the planner knows them; they need no escaping (check E007)."""
    return ", ".join(f"'{state}'" for state in sorted(map(str, states)))
