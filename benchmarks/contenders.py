"""The contenders by name. Each is a function that takes a list of ids and applies one transition to each."""

from __future__ import annotations

from functools import cache

from benchmarks.raw import Contender

PEERS = ("django-fsm-log", "ORM", "ORM loop")
CLAIMERS = ("raw SKIP LOCKED", "claim, then report", "report and claim", "claim ten", "procrastinate")


@cache
def contender(name: str) -> Contender:
    """Imports the contender on first use, because the peers' models exist only in the peers' processes."""
    if name in CLAIMERS:
        return _claimer(name)
    return _peer(name) if name in PEERS else _statecore_or_raw(name)


def _claimer(name: str) -> Contender:
    from benchmarks import claimers

    return {
        "raw SKIP LOCKED": claimers.raw,
        "claim, then report": claimers.claim_then_report,
        "report and claim": claimers.report_and_claim(),
        "claim ten": claimers.claim_ten,
        "procrastinate": claimers.procrastinate(),
    }[name]


def _peer(name: str) -> Contender:
    from benchmarks import peers

    return {"django-fsm-log": peers.fsm_log, "ORM": peers.orm, "ORM loop": peers.orm_loop}[name]


def _statecore_or_raw(name: str) -> Contender:
    from benchmarks import processor, raw, transition_service, verify

    return {
        "raw": raw.finish,
        "raw uet_worker": raw.take_and_release(),
        "raw batch": raw.finish_many,
        "Statecore": transition_service.finish,
        "Statecore uet_worker": transition_service.take_and_release(),
        "Statecore, guards with queries": transition_service.queue,
        "Statecore batch": transition_service.finish_many,
        "memory": transition_service.memory,
        "processor time": processor.measure_share,
        "fill journal": verify.fill,
        "verify_chain": verify.verify,
        "verify_tree": verify.verify_tree,
        "hash stored bytes": verify.hash_stored_bytes(),
        "ORM iterator": verify.hash_through_the_orm,
    }[name]
