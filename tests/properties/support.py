"""How the properties are tried: the same examples on every machine, each in a transaction that is rolled back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import transaction
from hypothesis import HealthCheck, settings

# Time is the database's, and a shrunk failure is worth more than a fresh one: no deadline, no chance.
SETTINGS = settings(
    derandomize=True, database=None, deadline=None, print_blob=False,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip


@contextmanager
def rolled_back() -> Iterator[None]:
    """Whatever happens inside is gone afterwards."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)
