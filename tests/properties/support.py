"""How the properties are tried: the same examples on every machine, each in a transaction that is rolled back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import transaction
from hypothesis import HealthCheck, Phase, settings

# No deadline: the time is the database's. No chance: what fails here fails everywhere, and the same way each time.
# No shrinking: it takes minutes against a database; a developer adds Phase.shrink while looking into a failure.
SETTINGS = settings(
    derandomize=True, database=None, deadline=None, print_blob=False, phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)  # fmt: skip


@contextmanager
def rolled_back() -> Iterator[None]:
    """Whatever happens inside is gone afterwards."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)
