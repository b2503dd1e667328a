"""Reports that this process runs: every few seconds to the database, and to the program that watches over it.

A process that ends as it should signs off. One that is killed or hangs becomes silent, which the metric
`statecore_process_up` shows, and the supervisor or systemd starts it again.
"""

from __future__ import annotations

import os
import resource
import socket
import sys
import threading
from contextlib import suppress
from datetime import datetime
from multiprocessing import util
from pathlib import Path
from typing import Any

import structlog
from django.db import DEFAULT_DB_ALIAS, Error, connections

from .. import __version__
from ..kernel.clock import now
from ..records import ProcessReport
from ..storage import database_clock, database_faults
from . import pulse

log = structlog.get_logger(__name__)

REPORT_SECONDS = 4.0
HOST = socket.gethostname()


class ProcessReporter:
    """The report of this process. `start` reports in a thread with a separate connection."""

    def __init__(self, role: str, name: str = "") -> None:
        self.role, self.name = role, name or os.environ.get(pulse.NAME) or role
        self.pid = os.getpid()
        self.started_at: datetime | None = None
        self.stopping = threading.Event()
        self.thread: threading.Thread | None = None
        self.entry: Any = None

    def start(self) -> None:
        self.sign_off_at_exit()
        self.thread = threading.Thread(target=self._run, name="process-reporter", daemon=True)
        self.thread.start()

    def sign_off_at_exit(self) -> None:
        # Runs at the end of the main program, like `atexit`, and at that of a child process of `multiprocessing`.
        util.Finalize(None, self.sign_off, exitpriority=10)

    def report_by(self, timer: Any) -> None:
        """Reports by the timer of an event loop: a Celery worker forks, which threads with connections do not survive.

        Can be repeated: a worker that connects to the broker again may have lost its timers.
        """
        if self.entry is None:
            self.sign_off_at_exit()
        else:
            timer.cancel(self.entry)
        self._report_and_disconnect()
        self.entry = timer.call_repeatedly(REPORT_SECONDS, self._report_and_disconnect)

    def _report_and_disconnect(self) -> None:
        """Closes the connection, so that pool processes that are forked later do not inherit it."""
        self.report()
        connections[DEFAULT_DB_ALIAS].close()

    def _run(self) -> None:
        _use_own_connection()
        while not self.stopping.is_set():
            self.report()
            self.stopping.wait(REPORT_SECONDS)
        self._delete()
        connections[DEFAULT_DB_ALIAS].close()

    def report(self) -> None:
        """Writes the report. Without the database the process is silent, which is true."""
        try:
            self._write()
        except Error as error:
            database_faults.note(error)
            log.debug("process_not_reported", error=str(error).strip().partition("\n")[0])
            connections[DEFAULT_DB_ALIAS].close()

    def _write(self) -> None:
        at, is_first = now(), self.started_at is None
        self.started_at = self.started_at or at
        values = {
            "name": self.name[:100],
            "version": __version__,
            "started_at": self.started_at,
            "reported_at": at,
            "memory_bytes": measure_memory(),
            "clock_skew_seconds": round(database_clock.get_skew(), 3),
        }
        key = {"host": HOST, "pid": self.pid, "role": self.role}
        if not ProcessReport.objects.filter(**key).update(**values):
            ProcessReport.objects.get_or_create(**key, defaults=values)
        if is_first:
            self._replace_predecessor()

    def _replace_predecessor(self) -> None:
        """Deletes the report of one process that this one was started in place of: it no longer exists."""
        others = ProcessReport.objects.filter(host=HOST, role=self.role).exclude(pid=self.pid)
        same_first = sorted(others, key=lambda each: (each.name != self.name, each.reported_at))
        for other in same_first:
            if not _exists(other.pid) and ProcessReport.objects.filter(pk=other.pk).delete()[0]:
                return

    def sign_off(self) -> None:
        """Deletes the report, because the process ends as it should."""
        if os.getpid() != self.pid:
            return
        if self.thread is None:
            self._delete()
            return
        self.stopping.set()
        self.thread.join(5)

    def _delete(self) -> None:
        with suppress(Error):
            ProcessReport.objects.filter(host=HOST, pid=self.pid, role=self.role).delete()


def _use_own_connection() -> None:
    """Gives this thread a connection outside the pool, so that a busy process reports too."""
    own = connections[DEFAULT_DB_ALIAS].copy()
    own.settings_dict["OPTIONS"].pop("pool", None)
    connections[DEFAULT_DB_ALIAS] = own


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def measure_memory() -> int:
    """Returns the memory of this process and its children in bytes, and elsewhere than on Linux the largest it had.

    Of memory that processes share, each counts its part: the children of a Celery worker share most of theirs.
    """
    if sys.platform != "linux":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    pids = [str(os.getpid())]
    with suppress(OSError):
        pids += Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return sum(map(_read_memory, pids))


def _read_memory(pid: str) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
