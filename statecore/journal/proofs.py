"""Proofs for outsiders: that an event is in the journal, and that the journal only grew."""

from __future__ import annotations

from typing import Any

from django.db.models import Max

from statecore_client.transparency.merkle import prove_consistency, prove_inclusion
from statecore_client.transparency.notes import VerifierKey, encode
from statecore_client.transparency.proofs import format_proof

from ..kernel.refusals import Invalid, NotFound, Refusal
from .archive import Anchor, ArchivedRange, build_archived_refusal, get_latest_archived_range
from .checkpoints import SignedCheckpoint, find_checkpoint, latest_checkpoint
from .events import EVENT_ID_LENGTH, Event
from .position import Position
from .tree import compute_subtree_root, tree_size


class NotSigned(Refusal):
    """No signed checkpoint includes the event yet; try again after a few seconds."""

    code = "not_signed"


def get_checkpoint() -> SignedCheckpoint:
    newest = latest_checkpoint()
    if newest is None:
        raise NotFound("no checkpoint has been signed yet: the sequencer signs the first one when it starts")
    return newest


def get_key() -> VerifierKey:
    return VerifierKey.parse(get_checkpoint().verifier_key)


def prove_event(event_id: str) -> dict[str, Any]:
    """Returns the proof that an event is in the journal, as `statecore verify` reads it."""
    found = Position.objects.filter(event=event_id).values_list("position", "event__body").first()
    if found is None:
        raise _unknown_event(event_id)
    position, body = found
    signed = find_checkpoint(position)
    if signed is None:
        raise NotSigned(f"the event at position {position} is not in a signed checkpoint yet", position=position)
    return prove_body(position, body, signed)


def prove_body(position: int, body: str, signed: SignedCheckpoint) -> dict[str, Any]:
    path = prove_inclusion(position - 1, signed.size, compute_subtree_root)
    return format_proof(position, body, path, signed.open(), signed.text)


def _unknown_event(event_id: str) -> Refusal:
    if Event.objects.filter(pk=event_id).exists():
        return NotSigned("the event has no position yet")
    record = get_latest_archived_range()
    if record is not None and len(event_id) == EVENT_ID_LENGTH and event_id <= _last_archived_id(record):
        return build_archived_refusal(record, f"the event {event_id}")
    return NotFound(f"there is no event {event_id!r}")


def _last_archived_id(record: ArchivedRange) -> str:
    """Ids begin with their time, so no archived event has a greater one than the greatest anchor."""
    return str(Anchor.objects.filter(archived_range=record).aggregate(last=Max("event_id"))["last"])


def prove_growth(first: int, second: int) -> dict[str, Any]:
    """Returns the proof that the tree of size `first` is a prefix of the tree of size `second`."""
    if first > second:
        raise Invalid({"first": ["must not be greater than second."]})
    if second > (size := tree_size()):
        raise Invalid({"second": [f"must be at most {size}, the size of the tree."]}, size=size)
    path = prove_consistency(first, second, compute_subtree_root)
    return {"first": first, "second": second, "proof": [encode(node) for node in path]}
