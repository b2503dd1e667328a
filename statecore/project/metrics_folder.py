"""Where the processes of one machine keep their counts, so that any of them can add them up."""

import os
import socket
from pathlib import Path

VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
HOST = socket.gethostname()


def choose(home: Path) -> Path:
    """Must run before prometheus_client is imported."""
    folder = Path(os.environ.setdefault(VARIABLE, str(home / "metrics")))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def prepare(home: Path) -> None:
    """Empty at each start: Prometheus expects counts to begin anew with the program.

    What a process counted stays when it dies, so nothing has to be marked: there are no gauges among the files.
    """
    for left_over in choose(home).glob("*.db"):
        left_over.unlink()


def tell_containers_apart() -> None:
    """Name the files by host and process: containers that share the folder all have a process 1.

    Before anything is counted, that is by the settings.
    """
    if VARIABLE in os.environ:
        from prometheus_client import values

        by_host = {"process_identifier": lambda: f"{HOST}-{os.getpid()}"}
        values.ValueClass = values.MultiProcessValue(**by_host)  # type: ignore[no-untyped-call]
