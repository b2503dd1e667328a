"""A list of values as one parameter of a statement, on either database."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any


def among(vendor: str) -> str:
    """What follows the column in a WHERE: the parameter is given by `listed`."""
    return "= ANY(%s)" if vendor == "postgresql" else "IN (SELECT value FROM json_each(%s))"


def listed(values: Iterable[str], vendor: str) -> Any:
    return list(values) if vendor == "postgresql" else json.dumps(list(values))
