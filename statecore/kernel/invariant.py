"""A rule between entities that no single row can hold: named, said in a sentence, and found broken by a query."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import QuerySet


@dataclass(frozen=True, slots=True)
class Invariant:
    """`sentence` says what is wrong with the entities that `broken` finds."""

    name: str
    sentence: str
    broken: Callable[[datetime], QuerySet[Any]]
