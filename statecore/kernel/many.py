"""A list of values as one parameter of a statement, on either database.

One value alone is compared with `=`: for a list of unknown length PostgreSQL expects ten rows each time, finds a plan
of its own for every call cheaper than a general one, and plans for longer than it works.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any


def among(vendor: str, count: int) -> str:
    """What follows the column in a WHERE; the parameter is given by `listed`."""
    if count == 1:
        return "= %s"
    return "= ANY(%s)" if vendor == "postgresql" else "IN (SELECT value FROM json_each(%s))"


def quoted(states: Iterable[str]) -> str:
    """States in the statement itself, where the planner is to see which they are; they need no escape (E007)."""
    return ", ".join(f"'{state}'" for state in sorted(map(str, states)))


def listed(values: Sequence[str], vendor: str) -> Any:
    if len(values) == 1:
        return values[0]
    return list(values) if vendor == "postgresql" else json.dumps(list(values))
