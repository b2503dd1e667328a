"""A sequencer in this process, a round at a time, and sequencers in processes of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connection

from statecore.records import Position
from statecore.sequencer import Sequencer
from statecore.sinks import Sink

ROOT = Path(__file__).parents[2]


def sequencer(*sinks: Sink) -> Sequencer:
    made = Sequencer(sinks)
    made.numberer.begin()
    return made


def catch_up(*sinks: Sink) -> None:
    """Number everything and feed the sinks until nothing is left."""
    working = sequencer(*sinks)
    while working.round():
        pass
    for feed in working.feeds:
        feed.close()


def ordered() -> list[str]:
    """The ids of the events in the order of their positions, which are dense."""
    rows = list(Position.objects.order_by("position").values_list("position", "event_id"))
    assert [position for position, _event in rows] == list(range(1, len(rows) + 1))
    return [event for _position, event in rows]


def lines(home: Path | None = None) -> list[dict[str, Any]]:
    path = (home or settings.STATECORE_HOME) / "transitions.jsonl"
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def database_url() -> str:
    name = connection.settings_dict["NAME"]
    if connection.vendor == "sqlite":
        return f"sqlite:///{name}"
    return os.environ["DATABASE_URL"].replace("/postgres?", f"/{name}?")


def start(home: Path, **environ: str) -> subprocess.Popen[bytes]:
    """The real command, on the test database."""
    with (home / "sequencer.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "manage.py", "sequencer"],
            cwd=ROOT,
            env={**os.environ, "DATABASE_URL": database_url(), "STATECORE_HOME": str(home), **environ},
            stderr=log,
        )


@contextmanager
def running(home: Path, **environ: str) -> Iterator[subprocess.Popen[bytes]]:
    process = start(home, **environ)
    try:
        yield process
    finally:
        end(process, signal.SIGKILL)


def end(process: subprocess.Popen[bytes], how: signal.Signals = signal.SIGTERM) -> int:
    if process.poll() is None:
        process.send_signal(how)
    return process.wait(20)


def positions(told: Sequence[dict[str, Any]]) -> list[int]:
    return [line["position"] for line in told]
