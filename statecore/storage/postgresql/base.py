"""A PostgreSQL backend that checks persistent connections without a round trip, and limits what lost clients hold."""

from __future__ import annotations

import select
from typing import Any

from django.db.backends.postgresql import base
from psycopg.pq import ConnStatus

# The server ends the session of a client whose host is gone, or that hangs in a transaction. Without this the locks of
# such a client would stay for two hours, or for ever.
LIMITS = {
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "25s",
    "idle_in_transaction_session_timeout": "60s",
}
_SET_LIMITS = "SELECT " + ", ".join(f"set_config('{name}', '{value}', false)" for name, value in LIMITS.items())


class DatabaseWrapper(base.DatabaseWrapper):
    def _configure_connection(self, connection: Any) -> bool:
        """Called for each new connection, also by the pool. Returns whether there is something to commit."""
        super()._configure_connection(connection)  # type: ignore[misc]  # not in the stubs
        connection.execute(_SET_LIMITS)
        return True

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
