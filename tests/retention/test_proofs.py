"""Proofs and archived events: the leaves remain, so the tree and newer proofs stay valid."""

from __future__ import annotations

import gzip
import json

import pytest

from statecore.journal import SignedCheckpoint, checkpoints, proofs
from statecore.journal.tree import compute_root_at
from statecore.kernel.refusals import Archived
from statecore_client.transparency.notes import VerifierKey
from statecore_client.transparency.proofs import verify_proof
from tests.retention.past import Past, archive_old_events, deliver
from tests.support import world


def test_an_archived_event_is_refused_with_its_file(past: Past) -> None:
    from statecore.journal import Event

    event = Event.objects.filter(entity_id=past.ended.pk).latest("sequence")
    (record,) = archive_old_events()

    with pytest.raises(Archived) as refused:
        proofs.prove_event(event.pk)
    assert refused.value.facts["file"] == record.file


def test_an_archived_event_can_still_be_proven_from_its_file(past: Past) -> None:
    root = compute_root_at(past.upto)
    (record,) = archive_old_events()
    world.run()
    deliver()
    signed = checkpoints.latest_checkpoint()
    assert signed is not None

    assert compute_root_at(past.upto) == root
    with gzip.open(past.folder() / record.file, "rt") as file:
        for line in map(json.loads, file):
            proof = proofs.prove_body(line["position"], line["body"], signed)
            verify_proof(proof, VerifierKey.parse(SignedCheckpoint.objects.latest("size").verifier_key))
