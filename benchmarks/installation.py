"""The processes of an installation, started as the units in deploy/ start them, and the processor time of each."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import psutil

from benchmarks.http_clients import Address, free_port, wait_for
from benchmarks.support import Environ

ROOT = Path(__file__).parents[1]
LISTENING = ("rest", "live")
OTHERS = ("sequencer", "worker", "beat")


class Installation(NamedTuple):
    """The addresses of the servers, and the process of each part."""

    addresses: dict[str, Address]
    pids: dict[str, int]

    def read_cpu_seconds(self) -> dict[str, float]:
        """Returns the processor time of each part so far."""
        return {name: cpu_seconds(pid) for name, pid in self.pids.items()}


@contextmanager
def installation(settings: Environ, database: Path) -> Iterator[Installation]:
    """Runs one of each process. PostgreSQL in the folder `database` counts as a part."""
    addresses = {name: ("127.0.0.1", free_port()) for name in LISTENING}
    pids = {"PostgreSQL": int((database / "postmaster.pid").read_text().split()[0])}
    with ExitStack() as stack:
        for name in (*LISTENING, *OTHERS):
            port = ["--port", str(addresses[name][1])] if name in addresses else []
            process = stack.enter_context(_process([name, *port], settings))
            pids[name] = process.pid
            if name in addresses:
                wait_for(addresses[name], process)
        yield Installation(addresses, pids)


@contextmanager
def _process(words: list[str], settings: Environ) -> Iterator[subprocess.Popen[bytes]]:
    """Its log, one line per call, goes nowhere: under systemd another process writes it."""
    command = [sys.executable, "-m", "statecore.project.process", *words]
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, **settings}, stdout=quiet, stderr=quiet)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(30)


def cpu_seconds(pid: int) -> float:
    """Returns the processor time of a process and all its descendants, including those that have ended."""
    parent, seconds = psutil.Process(pid), 0.0
    for each in (*parent.children(recursive=True), parent):
        with suppress(psutil.NoSuchProcess):  # one that ends now is part of its parent's time
            seconds += sum(each.cpu_times()[:4])
    return seconds
