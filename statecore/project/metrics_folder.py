"""The directory in which the processes of one host share their Prometheus counters."""

import os
import socket
from pathlib import Path

VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
HOST = socket.gethostname()


def choose(home: Path) -> Path:
    """Creates the directory and sets the variable; must run before prometheus_client is imported."""
    folder = Path(os.environ.setdefault(VARIABLE, str(home / "metrics")))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def prepare(home: Path) -> None:
    """Empties the directory at each start, because counters start at zero.

    Files of processes that died in between stay: their counts are part of the total. There are no gauges among them.
    """
    for file in choose(home).glob("*.db"):
        file.unlink()


def tell_containers_apart() -> None:
    """Names the files by host and process, because containers that share the directory all have a process 1.

    The settings call it, before anything is counted.
    """
    if VARIABLE in os.environ:
        from prometheus_client import values

        by_host = {"process_identifier": lambda: f"{HOST}-{os.getpid()}"}
        values.ValueClass = values.MultiProcessValue(**by_host)  # type: ignore[no-untyped-call]
