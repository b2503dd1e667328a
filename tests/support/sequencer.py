"""Sequencers: one in the test process that runs round by round, and real processes."""

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

from statecore.delivery.sequencer import SEQUENCER, Sequencer
from statecore.delivery.sinks import Sink
from statecore.delivery.sinks.tree import Tree
from statecore.journal import Position
from statecore.kernel.clock import now
from statecore.records import LeaderLease
from statecore.records.leader_lease import Leadership
from tests.support import forked, roles

ROOT = Path(__file__).parents[2]
LEADERSHIP = Leadership(SEQUENCER)


def sequencer(*sinks: Sink) -> Sequencer:
    """Returns a sequencer that leads; the sequencers of a test share their leadership."""
    made = Sequencer(sinks, LEADERSHIP)
    LeaderLease.objects.filter(name=SEQUENCER).update(holder="")
    assert made.leadership.acquire()
    made.take_over()
    return made


def catch_up(*sinks: Sink) -> None:
    """Numbers all events and feeds the sinks until none is left."""
    leads_before = LeaderLease.objects.filter(name=SEQUENCER, holder=LEADERSHIP.holder).exists()
    working = sequencer(*sinks)
    while working.run_round():
        pass
    for feed in working.feeds:
        feed.close()
        feed.sink.leadership = None
    if not leads_before:
        LeaderLease.objects.filter(name=SEQUENCER).delete()


def sign() -> None:
    """Extends the tree to the last position and signs a checkpoint, which the sequencer does every few seconds."""
    catch_up(tree := Tree())
    tree.recover(0)
    tree.tick(now())


def ordered() -> list[str]:
    """Returns the event ids by position and asserts that the positions have no gaps."""
    rows = list(Position.objects.order_by("position").values_list("position", "event_id"))
    assert [position for position, _event in rows] == list(range(1, len(rows) + 1))
    return [event for _position, event in rows]


def lines(home: Path | None = None) -> list[dict[str, Any]]:
    path = (home or settings.STATECORE_HOME) / "transitions.jsonl"
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def database_url(role: str = "web") -> str:
    """Returns the URL of the test database for a process, on PostgreSQL with the rights of this role."""
    name = connection.settings_dict["NAME"]
    if connection.vendor == "sqlite":
        return f"sqlite:///{name}"
    url = os.environ["DATABASE_URL"].replace("/postgres?", f"/{name}?")
    return url.replace("://postgres:", f"://{roles.PREFIX}_{role}:")


def start(home: Path, **environ: str) -> subprocess.Popen[bytes]:
    """Starts the real command on the test database."""
    with (home / "sequencer.log").open("ab") as log:
        return forked.Popen(
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


def positions(events: Sequence[dict[str, Any]]) -> list[int]:
    return [event["position"] for event in events]
