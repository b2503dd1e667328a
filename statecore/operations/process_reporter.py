"""Reports that this process runs: every few seconds to the database, and to the program that watches over it.

A process that ends as it should signs off. One that is killed or hangs becomes silent, which the metric
`statecore_process_up` shows, and the supervisor or systemd starts it again.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import threading
from contextlib import suppress
from datetime import datetime
from multiprocessing import util
from pathlib import Path
from typing import Any

import structlog
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, Error, connections

from .. import __version__
from ..kernel.clock import now
from ..records import ProcessReport
from ..storage import database_clock, database_faults
from ..storage.host import HOST
from . import pulse

log = structlog.get_logger(__name__)

REPORT_SECONDS = 4.0


def get_max_memory() -> int:
    return int(settings.STATECORE_PROCESS_MEMORY_MB) << 20


class ProcessReporter:
    """The report of this process. `start` reports in a thread with a separate connection."""

    def __init__(self, role: str, name: str = "") -> None:
        self.role, self.name = role, name or os.environ.get(pulse.NAME) or role
        self.pid = os.getpid()
        self.started_at: datetime | None = None
        self.has_reported = False
        self.stopping = threading.Event()
        self.thread: threading.Thread | None = None
        self.entry: Any = None
        self.max_memory = self.memory = 0

    def start(self, *, max_memory: int = 0) -> None:
        """Ends the process as a signal would when it has more bytes of memory than this, so that it is replaced."""
        self.max_memory = max_memory
        pulse.start()
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
            pulse.start()
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
        use_own_connection()
        while not self.stopping.is_set():
            self.report()
            self._limit_memory()
            self.stopping.wait(REPORT_SECONDS)
        self._delete()
        connections[DEFAULT_DB_ALIAS].close()

    def _limit_memory(self) -> None:
        if 0 < self.max_memory < self.memory:
            log.warning("process_ends_for_memory", name=self.name, bytes=self.memory, limit=self.max_memory)
            self.max_memory = 0
            os.kill(self.pid, signal.SIGTERM)

    def report(self) -> None:
        """Writes the report. Without the database the process is silent, which is true."""
        try:
            self._write()
        except Error as error:
            database_faults.note(error)
            log.debug("process_not_reported", error=str(error).strip().partition("\n")[0])
            connections[DEFAULT_DB_ALIAS].close()

    def _write(self) -> None:
        at = now()
        self.started_at = self.started_at or at
        self.memory = measure_memory()
        values = {
            "name": self.name[:100],
            "version": __version__,
            "started_at": self.started_at,
            "reported_at": at,
            "memory_bytes": self.memory,
            "clock_skew_seconds": round(database_clock.get_skew(), 3),
        }
        key = {"host": HOST, "pid": self.pid, "role": self.role}
        if not self.has_reported:
            self._write_first(key, values)
            self.has_reported = True
        elif not ProcessReport.objects.filter(**key).update(**values):
            ProcessReport.objects.get_or_create(**key, defaults=values)

    def _write_first(self, key: dict[str, Any], values: dict[str, Any]) -> None:
        """Takes the place of a process that died; in a container that one had the same number."""
        before = ProcessReport.objects.filter(**key).first()
        report, _is_new = ProcessReport.objects.update_or_create(**key, defaults={**values, "last_exit": ""})
        if before:
            report.follow(before)
        else:
            report.replace_dead()

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


def use_own_connection() -> None:
    """Gives this thread a connection outside the pool, so that a busy process reports too."""
    own = connections[DEFAULT_DB_ALIAS].copy()
    own.settings_dict["OPTIONS"].pop("pool", None)
    connections[DEFAULT_DB_ALIAS] = own


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
