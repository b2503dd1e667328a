"""Everybody who makes moves, by name; each takes a list of ids and moves them."""

from __future__ import annotations

from functools import cache

from benchmarks.raw import Contender

PEERS = ("django-fsm-log", "ORM", "ORM loop")
CLAIMERS = ("raw SKIP LOCKED", "claim, then report", "report and claim", "claim ten", "procrastinate")


@cache
def contender(name: str) -> Contender:
    """Imported at first use: the peers' modules exist in the peers' processes only."""
    if name in CLAIMERS:
        return _claimer(name)
    return _theirs(name) if name in PEERS else _ours(name)


def _claimer(name: str) -> Contender:
    from benchmarks import claimers

    return {
        "raw SKIP LOCKED": claimers.raw,
        "claim, then report": claimers.ours,
        "report and claim": claimers.ours_in_one(),
        "claim ten": claimers.ours_by_ten,
        "procrastinate": claimers.procrastinate(),
    }[name]


def _theirs(name: str) -> Contender:
    from benchmarks import peers

    return {"django-fsm-log": peers.fsm_log, "ORM": peers.orm, "ORM loop": peers.orm_loop}[name]


def _ours(name: str) -> Contender:
    from benchmarks import ours, raw, verify

    return {
        "raw": raw.finish,
        "raw uet_worker": raw.take_and_release(),
        "raw batch": raw.finish_many,
        "door": ours.finish,
        "door uet_worker": ours.take_and_release(),
        "door, guards with queries": ours.queue,
        "door batch": ours.finish_many,
        "memory": ours.memory,
        "fill journal": verify.fill,
        "verify_chain": verify.verify,
        "hash stored bytes": verify.hash_stored_bytes(),
        "ORM iterator": verify.through_the_orm,
    }[name]
