"""A PostgreSQL backend that checks persistent connections without a round trip."""

from __future__ import annotations

import select

from django.db.backends.postgresql import base
from psycopg.pq import ConnStatus


class DatabaseWrapper(base.DatabaseWrapper):
    def is_usable(self) -> bool:
        """Treats unread data on an idle connection as its end: the server sends a message before it disconnects.

        After an error, sends a query like Django.
        """
        if self.connection is None or self.errors_occurred:
            return bool(super().is_usable())
        server = self.connection.pgconn
        if server.status != ConnStatus.OK:
            return False
        waiting = select.poll()
        waiting.register(server.socket, select.POLLIN)
        return not waiting.poll(0)
