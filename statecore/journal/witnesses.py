"""Cosignatures of witnesses: verified with the keys in STATECORE_WITNESSES, and stored with their checkpoint."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.conf import settings
from django.db import transaction

from statecore_client.transparency.checkpoint import Checkpoint, Cosignature, open_checkpoint, verify_cosignature
from statecore_client.transparency.notes import DASH, InvalidNote, Note, Signature, VerifierKey

from ..kernel.clock import now, rfc3339
from ..kernel.refusals import Invalid
from .checkpoints import SignedCheckpoint, delete_outdated, find_difference, find_key, latest_checkpoint

CLOCK_SKEW = timedelta(minutes=5)


class WitnessStatus(NamedTuple):
    """The newest checkpoint that a witness has cosigned; size 0 without one."""

    key: VerifierKey
    size: int
    cosigned_at: datetime | None
    is_silent: bool

    @property
    def name(self) -> str:
        return self.key.name

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "verifier_key": str(self.key),
            "size": self.size,
            "cosigned_at": rfc3339(self.cosigned_at) if self.cosigned_at else None,
            "silent": self.is_silent,
        }


def list_witnesses() -> list[WitnessStatus]:
    """Returns the configured witnesses. Cosignatures are verified, because a writer of the database can change them."""
    return [_read_status(key) for key in settings.STATECORE_WITNESSES]


def _read_status(key: VerifierKey) -> WitnessStatus:
    found = SignedCheckpoint.objects.filter(cosignatures__contains=f"{DASH} {key.name} ").order_by("-size").first()
    cosignature = _find_cosignature(found, key) if found else None
    if found is None or cosignature is None:
        return WitnessStatus(key, 0, None, is_silent=_is_silent_since(_get_first_signing()))
    return WitnessStatus(key, found.size, cosignature.at, is_silent=_is_silent_since(cosignature.at))


def _find_cosignature(signed: SignedCheckpoint, key: VerifierKey) -> Cosignature | None:
    try:
        note = Note.parse(signed.text)
        return next(verify_cosignature(note.text, each, key) for each in note.signatures if each.is_by(key))
    except (StopIteration, InvalidNote):
        return None


def _get_first_signing() -> datetime | None:
    return SignedCheckpoint.objects.order_by("size").values_list("signed_at", flat=True).first()


def _is_silent_since(moment: datetime | None) -> bool:
    return moment is not None and now() - moment > timedelta(seconds=settings.STATECORE_WITNESS_SECONDS)


def add_cosignature(text: str, line: str) -> SignedCheckpoint:
    """Stores the cosignature of a configured witness. Raises Invalid if either text does not verify.

    The checkpoint comes with it, because the server keeps few that are not cosigned.
    """
    checkpoint, note, journal = _open(text)
    signature = _read_signature(line, note)
    own = Note(note.text, tuple(each for each in note.signatures if each.is_by(journal)))
    values = {"epoch": checkpoint.epoch, "root": checkpoint.root, "note": str(own), "verifier_key": str(journal)}
    with transaction.atomic():
        signed, _is_new = SignedCheckpoint.objects.select_for_update().get_or_create(
            size=checkpoint.size, defaults={**values, "signed_at": now()}
        )
        if Note.parse(signed.note).text != note.text:
            raise Invalid({"checkpoint": ["differs from the one that was signed at this position."]})
        others = [each for each in signed.cosignatures.splitlines() if not each.startswith(f"{DASH} {signature.name} ")]
        signed.cosignatures = "".join(f"{each}\n" for each in [*others, str(signature)])
        signed.save(update_fields=["cosignatures"])
        delete_outdated(signed)
    return signed


def _open(text: str) -> tuple[Checkpoint, Note, VerifierKey]:
    key = find_key()
    if key is None or latest_checkpoint() is None:
        raise Invalid({"checkpoint": ["cannot be verified: no checkpoint has been signed yet."]})
    try:
        checkpoint = open_checkpoint(text, key)
    except InvalidNote as error:
        raise Invalid({"checkpoint": [f"does not verify: {error}."]}) from None
    if problem := find_difference(checkpoint, key):
        raise Invalid({"checkpoint": [f"contradicts the journal: {problem}."]})
    return checkpoint, Note.parse(text), key


def _read_signature(line: str, note: Note) -> Signature:
    try:
        signature = Signature.parse(line.removesuffix("\n"))
        key = next((each for each in settings.STATECORE_WITNESSES if signature.is_by(each)), None)
        if key is None:
            raise Invalid({"cosignature": [f"is by {signature.name}, which STATECORE_WITNESSES does not name."]})
        cosigned_at = verify_cosignature(note.text, signature, key).at
    except InvalidNote as error:
        raise Invalid({"cosignature": [f"does not verify: {error}."]}) from None
    if cosigned_at > now() + CLOCK_SKEW:
        raise Invalid({"cosignature": ["has a time in the future: check the clock of the witness."]})
    return signature
