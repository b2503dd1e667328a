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
        from prometheus_client import mmap_dict, values

        class ReservedDict(mmap_dict.MmapedDict):
            def __init__(self, filename: str, read_mode: bool = False) -> None:
                if not read_mode:
                    filename = reserve(filename, mmap_dict._INITIAL_MMAP_SIZE)
                super().__init__(filename, read_mode)  # type: ignore[no-untyped-call]

        values.MmapedDict = ReservedDict  # type: ignore[attr-defined]
        by_host = {"process_identifier": lambda: f"{HOST}-{os.getpid()}"}
        values.ValueClass = values.MultiProcessValue(**by_host)  # type: ignore[no-untyped-call]


def reserve(file: str, size: int) -> str:
    """Takes the space of a file that is about to be mapped: a write to a page without any ends the process.

    If the disk is full, returns a file in memory instead, so that only the counts of this process are missing.
    """
    if not hasattr(os, "posix_fallocate"):
        return file
    try:
        with Path(file).open("ab") as opened:
            os.posix_fallocate(opened.fileno(), 0, size)
    except OSError:
        Path(file).unlink(missing_ok=True)
        return f"/proc/self/fd/{os.memfd_create('metrics')}"
    return file
