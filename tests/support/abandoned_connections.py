"""Refuses threads that end without closing their connection.

Python warns of such a connection when its memory is freed, in whichever test runs then.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db.backends.signals import connection_created


@contextmanager
def refuse_abandoned_connections() -> Iterator[None]:
    opened: list[tuple[threading.Thread, Any]] = []

    def note(connection: Any, **_: Any) -> None:
        opened.append((threading.current_thread(), connection))

    connection_created.connect(note, weak=False)
    try:
        yield
    finally:
        connection_created.disconnect(note)
    abandoned = [(thread, each) for thread, each in opened if each.connection is not None and not thread.is_alive()]
    for _, each in abandoned:
        each.inc_thread_sharing()
        each.close()
    assert not abandoned, f"threads ended without closing their connection: {[thread.name for thread, _ in abandoned]}"
