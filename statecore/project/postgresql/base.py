"""Whether a kept connection is still good is looked at, not asked: the question would be a round trip in every call."""

from __future__ import annotations

import select

from django.db.backends.postgresql import base
from psycopg.pq import ConnStatus


class DatabaseWrapper(base.DatabaseWrapper):
    def is_usable(self) -> bool:
        """A server that ended the connection has said so: words nobody asked for wait to be read.

        After an error it is asked all the same.
        """
        if self.connection is None or self.errors_occurred:
            return bool(super().is_usable())
        server = self.connection.pgconn
        if server.status != ConnStatus.OK:
            return False
        waiting = select.poll()
        waiting.register(server.socket, select.POLLIN)
        return not waiting.poll(0)
