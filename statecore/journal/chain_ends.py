"""Chains that belong to no row, such as that of an account: their end is read from the events."""

from __future__ import annotations

from django.db import connection
from django.db.models import Max

from .archive import Anchor
from .events import GENESIS, Event

LOCK_CLASS = 0x5C1  # of PostgreSQL's advisory locks; no other code uses them with two keys


def lock_chain_end(entity_type: str, entity_id: str) -> tuple[int, str]:
    """Return the last sequence and hash of a chain; until the end of the transaction no other event is appended.

    A transaction of SQLite has the only write lock already.
    """
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", [LOCK_CLASS, entity_id])
    for model in (Event, Anchor):
        chain = model._default_manager.filter(entity_type=entity_type, entity_id=entity_id)
        last = chain.aggregate(last=Max("sequence"))["last"]
        if last is not None:
            return last, chain.values_list("hash", flat=True).get(sequence=last)
    return 0, GENESIS
