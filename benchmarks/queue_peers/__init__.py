"""Other task queues on the same PostgreSQL, each with its own worker in a separate process.

Each program prints `ready`, then reads a number of tasks per line, enqueues them, works them off, and prints a JSON
object: the `seconds`, and of them those of `enqueue`.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.peer_python import python

HERE = Path(__file__).parent
PROGRAMS = {"procrastinate": "procrastinate_worker.py", "DBOS": "dbos_worker.py"}


class Peer(NamedTuple):
    process: Any

    def run(self, count: int) -> dict[str, float]:
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()
        return dict(json.loads(self._read()))

    def _read(self) -> str:
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.process.args!r} has ended")
        return str(line)


@contextmanager
def peer(name: str, database: str, concurrency: int) -> Iterator[Peer]:
    command = [python("queues", HERE / "requirements.txt"), "-P", str(HERE / PROGRAMS[name]), database]
    process = subprocess.Popen(
        [*command, str(concurrency)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=dict(os.environ)
    )
    found = Peer(process)
    try:
        found._read()
        yield found
    finally:
        process.terminate()
        process.wait(30)
