"""Records beside the journal that an entry of the account journal covers: requests, decisions and audit notes.

The entry contains a digest of the record, so the hash chain and the Merkle tree cover the record too. A record without
an entry is refused by the triggers of PostgreSQL, and a record that differs from its entry is found by `integrity`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar

from django.db import connection, models, transaction

from ..journal import EVENT_ID_LENGTH, accounts
from ..kernel import evidence
from ..kernel.actors import Actor
from ..storage.write_guard import allow_writes


class JournaledRecord(models.Model):
    append_only = True
    # Columns without a part in the digest: a number that the database gives, and the entry, which has the digest.
    volatile: ClassVar[tuple[str, ...]] = ("id", "journal_entry")
    event_columns: ClassVar[frozenset[str]] = frozenset()

    # The id of the event; empty if an earlier version wrote the record.
    journal_entry = models.CharField(max_length=EVENT_ID_LENGTH, default="", db_default="", editable=False)

    class Meta:
        abstract = True

    def get_time(self) -> datetime:
        """Returns when the record was made."""
        raise NotImplementedError

    def digest(self) -> str:
        return evidence.digest(type(self), self.__dict__)

    def insert(self, action: accounts.Action, *, actor: Actor, facts: Mapping[str, Any]) -> None:
        """Store a new record with its entry, which is one of the account that acts."""
        with transaction.atomic():
            facts = {**facts, "digest": self.digest()}
            self.journal_entry = accounts.record(action, accounts.Account.of_actor(actor), actor=actor, facts=facts)
            with allow_writes(connection):
                self.save(force_insert=True)
