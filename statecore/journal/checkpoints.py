"""Signed checkpoints: stored in the database and in a file beside it, and cosigned by witnesses.

Before it signs, the journal compares the tree with the checkpoint in the file, which a writer of the database cannot
reach: a rewritten history is reported and not signed.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from datetime import datetime

import structlog
from django.conf import settings
from django.db import models

from statecore_client.transparency.checkpoint import Checkpoint, open_checkpoint, sign_checkpoint
from statecore_client.transparency.notes import InvalidNote, Note, Signer, VerifierKey

from ..kernel.clock import now
from . import signing
from .home_files import CHECKPOINT_FILE, copy_checkpoint_aside, get_checkpoint_path
from .position import current_epoch
from .signing import SigningFailed
from .tree import Frontier, compute_root_at, tree_size

log = structlog.get_logger(__name__)


class SignedCheckpoint(models.Model):
    """The signature protects it; of each hour, the newest one and the newest one of each witness are kept."""

    size = models.BigIntegerField(primary_key=True)
    epoch = models.PositiveIntegerField(default=1)
    root = models.BinaryField()
    note = models.TextField()
    verifier_key = models.CharField(max_length=300)
    # Cosignatures of witnesses, one per line.
    cosignatures = models.TextField(default="")
    signed_at = models.DateTimeField(db_index=True)

    class Meta:
        default_permissions = ("view",)

    def __str__(self) -> str:
        return f"checkpoint at position {self.size}"

    @property
    def text(self) -> str:
        """The signed note with the cosignatures."""
        return self.note + self.cosignatures

    def list_witnesses(self) -> set[str]:
        """Returns the names of the witnesses that have cosigned it."""
        return {line.split(" ")[1] for line in self.cosignatures.splitlines()}

    def open(self) -> Checkpoint:
        """Returns the checkpoint, verified with the key that it was stored with. Raises InvalidNote."""
        return open_checkpoint(self.note, VerifierKey.parse(self.verifier_key))


def latest_checkpoint() -> SignedCheckpoint | None:
    return SignedCheckpoint.objects.order_by("-size").first()


def find_checkpoint(position: int) -> SignedCheckpoint | None:
    """Returns the newest checkpoint that includes a position; a cosigned one if there is any."""
    covering = SignedCheckpoint.objects.filter(size__gte=position).order_by("-size")
    return covering.exclude(cosignatures="").first() or covering.first()


def publish_checkpoint(frontier: Frontier) -> SignedCheckpoint | None:
    """Signs the tree and stores the checkpoint in the database and in the file, unless both are up to date.

    Returns None, and logs why, if the key cannot be used or the tree contradicts the file.
    """
    newest, epoch = latest_checkpoint(), current_epoch()
    if newest and (newest.size, newest.epoch) == (frontier.size, epoch) and get_checkpoint_path().exists():
        return newest
    try:
        signer = _get_signer(newest)
        if problem := find_contradiction(signer.verifier):
            log.error("journal_rewritten", problem=problem)
            return None
        checkpoint = Checkpoint(signer.verifier.name, frontier.size, frontier.root(), epoch)
        note = sign_checkpoint(checkpoint, signer)
    except SigningFailed as error:
        log.error("checkpoint_not_signed", reason=str(error))
        return None
    _write_file(str(note))
    return _store(checkpoint, note, signer.verifier)


def sign_new_epoch(epoch: int) -> None:
    """Replaces the checkpoint in the file by one of an epoch that lost positions.

    The caller has proven that the tree is the beginning of the one that was signed. The old checkpoint is kept.
    """
    if not get_checkpoint_path().exists():
        return
    signer = signing.find_signer()
    if signer is None:
        raise SigningFailed(f"{signing.get_key_path()} is missing")
    frontier = Frontier.load()
    checkpoint = Checkpoint(signer.verifier.name, frontier.size, frontier.root(), epoch)
    note = sign_checkpoint(checkpoint, signer)
    copy_checkpoint_aside()
    _write_file(str(note))
    _store(checkpoint, note, signer.verifier)


def _get_signer(newest: SignedCheckpoint | None) -> Signer:
    """Creates the first key. A lost key is not replaced silently: outsiders trust the old one."""
    if signer := signing.find_signer():
        return signer
    if newest is not None and newest.size:
        raise SigningFailed(
            f"{signing.get_key_path()} is missing, but checkpoints were signed with {newest.verifier_key}: "
            "restore the file, or begin with another key: `manage.py newkey`."
        )
    return signing.create_key()


def _store(checkpoint: Checkpoint, note: Note, key: VerifierKey) -> SignedCheckpoint:
    signed_at = now()
    values = {"epoch": checkpoint.epoch, "root": checkpoint.root, "note": str(note), "verifier_key": str(key)}
    stored, _is_new = SignedCheckpoint.objects.update_or_create(
        size=checkpoint.size, defaults={**values, "cosignatures": "", "signed_at": signed_at}
    )
    delete_outdated(stored)
    return stored


def delete_outdated(newer: SignedCheckpoint) -> None:
    """Deletes the smaller checkpoints of the last hour that no other witness has cosigned."""
    hour = now().replace(minute=0, second=0, microsecond=0)
    recent = SignedCheckpoint.objects.filter(signed_at__gte=hour, size__lt=newer.size)
    outdated = [each.size for each in recent if each.list_witnesses() <= newer.list_witnesses()]
    recent.filter(size__in=outdated).delete()


def find_key() -> VerifierKey | None:
    """Returns the public key of the journal as this host knows it.

    On a host without it, the newest checkpoint in the database names the key; a writer of the database can change that.
    """
    try:
        if signer := signing.find_signer():
            return signer.verifier
    except SigningFailed:
        pass
    newest = latest_checkpoint()
    known = settings.STATECORE_JOURNAL_VERIFIER_KEY or (newest.verifier_key if newest else "")
    return VerifierKey.parse(known) if known else None


def read_saved(key: VerifierKey) -> Checkpoint | None:
    """Returns the checkpoint in the file, or None if there is no file. Raises InvalidNote if it does not verify."""
    try:
        return open_checkpoint(get_checkpoint_path().read_text("utf-8"), key)
    except FileNotFoundError:
        return None
    except (OSError, UnicodeError):
        raise InvalidNote("it is unreadable") from None


def read_saved_epoch() -> int:
    """Returns the epoch of the checkpoint in the file; 0 without a valid one."""
    key = find_key()
    try:
        saved = read_saved(key) if key else None
    except InvalidNote:
        return 0
    return saved.epoch if saved else 0


def find_contradiction(key: VerifierKey) -> str | None:
    """Returns how the stored tree contradicts the checkpoint in the file, or None."""
    try:
        saved = read_saved(key)
    except InvalidNote as error:
        return f"the file {CHECKPOINT_FILE} does not verify: {error}"
    return find_difference(saved, key) if saved else None


def find_difference(checkpoint: Checkpoint, key: VerifierKey) -> str | None:
    """Returns how the stored tree differs from a verified checkpoint, and the first position that can differ."""
    if checkpoint.epoch > (epoch := current_epoch()):
        return f"the journal went back from epoch {checkpoint.epoch} to epoch {epoch}"
    if checkpoint.size > (size := tree_size()):
        return f"the journal ends at position {size}, but {checkpoint.size} positions were signed"
    if compute_root_at(checkpoint.size) == checkpoint.root:
        return None
    first = _find_last_agreeing_size(checkpoint.size, key) + 1
    where = f"position {first}" if first == checkpoint.size else f"a position from {first} to {checkpoint.size}"
    return f"the journal differs from the one that was signed, first at {where}"


def _find_last_agreeing_size(below: int, key: VerifierKey) -> int:
    """Returns the size of the newest stored checkpoint that the tree agrees with; all smaller ones then agree too."""
    stored = list(SignedCheckpoint.objects.filter(size__lt=below).order_by("size"))
    agreeing = bisect_left(stored, 1, key=lambda signed: 0 if _is_in_tree(signed, key) else 1)
    return stored[agreeing - 1].size if agreeing else 0


def _is_in_tree(signed: SignedCheckpoint, key: VerifierKey) -> bool:
    try:
        checkpoint = open_checkpoint(signed.note, key)
    except InvalidNote:
        return False
    return compute_root_at(checkpoint.size) == checkpoint.root


def _write_file(text: str) -> None:
    """Replaces the file in one step; a reader sees the old or the new checkpoint."""
    path = get_checkpoint_path()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    with fresh.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)


def newest_before(moment: datetime) -> int:
    """Returns the size of the newest checkpoint that was signed at or before a time; 0 without one."""
    found = SignedCheckpoint.objects.filter(signed_at__lte=moment).order_by("-size")
    return found.values_list("size", flat=True).first() or 0
