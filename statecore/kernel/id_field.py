"""The column of an id."""

from __future__ import annotations

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper


class IdField(models.CharField):  # type: ignore[type-arg]
    """A text that is only ever compared whole.

    To a `varchar` that is a key Django adds a second index on PostgreSQL, for LIKE, and one more to every foreign key
    that points to it: seven on the tasks alone, each of them written with every move and read by nobody. Under its
    long name the same type is left alone.
    """

    def db_type(self, connection: BaseDatabaseWrapper) -> str:
        if connection.vendor == "postgresql":
            return f"character varying({self.max_length})"
        return str(super().db_type(connection))
