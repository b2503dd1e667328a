"""Threads that start at the same moment, each with its own connection."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.db import connection, connections

from statecore.kernel.refusals import Refusal

PATIENCE = 60.0


def run_concurrently(deeds: Sequence[Callable[[], Any]]) -> list[Any]:
    """Runs the calls at the same moment and returns the result or the refusal of each."""
    barrier = threading.Barrier(len(deeds), timeout=PATIENCE)

    def do(deed: Callable[[], Any]) -> Any:
        try:
            connection.ensure_connection()
            barrier.wait()
            return deed()
        except Refusal as refusal:
            return refusal
        finally:
            connections.close_all()

    with ThreadPoolExecutor(len(deeds)) as pool:
        return list(pool.map(do, deeds))
