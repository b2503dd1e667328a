"""Measures verifying hash chains and the Merkle tree, against hashing in memory and reading through the ORM."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from statistics import median
from typing import Any

from django.db import connection, transaction

from benchmarks.raw import Contender

Sample = dict[str, float]
TREE_BATCH = 1_000  # events per transaction, as the sequencer delivers them


def measure(run: Callable[[str, Any], Any], entities: int, transitions: int, rounds: int) -> dict[str, Sample]:
    """Returns events per second for each method: elapsed, by process CPU, and by process and server CPU."""
    events = run("fill journal", (entities, transitions))
    ways = ("verify_chain", "verify_tree", "hash stored bytes", "ORM iterator")
    samples: dict[str, list[Sample]] = {way: [] for way in ways}
    for number in range(rounds + 1):
        for way in ways:
            sample = run(way, None)
            if number:  # the first round is a warm-up
                samples[way].append(sample)
    return {
        way: {unit: events / median(sample[unit] for sample in found) for unit in found[0]}
        for way, found in samples.items()
    }


def fill(size: Sequence[int]) -> int:
    """Creates hash chains through the transition service. Returns the number of events."""
    from benchmarks.transition_service import AGENT
    from statecore import transitions
    from statecore.journal import Event
    from statecore.machines.uet_worker import UetWorker

    entities, length = size
    ids = [f"uet-{number:06d}" for number in range(entities)]
    for entity_id in ids:
        transitions.create(UetWorker, actor=AGENT, id=entity_id, worker_type="bench")
    transitions.transition_many(UetWorker, ids, "initialization_completed", actor=AGENT)
    for number in range(length):
        trigger = "task_completed" if number % 2 else "task_assigned"
        transitions.transition_many(UetWorker, ids, trigger, actor=AGENT)
    _extend_tree()
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")
    return int(Event.objects.count())


def _extend_tree() -> None:
    """Numbers the events and adds them to the Merkle tree, in place of the sequencer."""
    from statecore.delivery.sequencer import Sequencer
    from statecore.journal.tree import Frontier, append_leaves
    from statecore.operations.integrity.tree import compute_leaves

    sequencer = Sequencer(())
    sequencer.leadership.acquire()
    numberer = sequencer.numberer
    numberer.load_mark()
    while numberer.number_new_events():
        pass
    head, frontier = numberer.head, Frontier.load()
    for start in range(0, head, TREE_BATCH):
        with transaction.atomic():
            append_leaves(frontier, compute_leaves(start, min(start + TREE_BATCH, head)))


def verify(_: Any) -> Sample:
    from statecore.operations.integrity import verify_chain

    def work() -> None:
        assert verify_chain() is None  # noqa: S101 - a finding ends the verification early

    return _timed(work)


def verify_tree(_: Any) -> Sample:
    from statecore.operations.integrity.tree import verify_tree

    def work() -> None:
        assert list(verify_tree()) == []  # noqa: S101 - a finding ends the verification early

    return _timed(work)


def hash_stored_bytes() -> Contender:
    bodies: list[bytes] = []

    def run(_: Any) -> Sample:
        from statecore.journal import Event

        if not bodies:
            bodies.extend(body.encode() for body in Event.objects.values_list("body", flat=True))
        return _timed(lambda: [sha256(body).hexdigest() for body in bodies])

    return run


def hash_through_the_orm(_: Any) -> Sample:
    from statecore.journal import Event, digest

    return _timed(lambda: [digest(each.body) == each.hash for each in Event.objects.iterator()])


def _timed(work: Callable[[], Any]) -> Sample:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        (backend,) = cursor.fetchone()
    clock, here, there = time.perf_counter(), time.process_time(), _server_time(backend)
    work()
    here, there = time.process_time() - here, _server_time(backend) - there
    return {"elapsed": time.perf_counter() - clock, "process CPU": here, "process and server CPU": here + there}


def _server_time(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
