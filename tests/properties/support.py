"""Settings of the property tests: deterministic examples, each in a transaction that is rolled back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import transaction
from hypothesis import HealthCheck, Phase, settings

# No deadline: the database takes the time. Derandomised: a failure repeats on every computer.
# No shrinking: it takes minutes against a database; add Phase.shrink while investigating a failure.
SETTINGS = settings(
    derandomize=True, database=None, deadline=None, print_blob=False, phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)  # fmt: skip


@contextmanager
def rolled_back() -> Iterator[None]:
    """Rolls back everything that happens inside the block."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)
