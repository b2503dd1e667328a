"""A sealed range of positions: a root over the hashes of its events, chained to the seal before it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from django.db import models

from ..journal import GENESIS


class Seal(models.Model):
    append_only = True

    last_position = models.BigIntegerField(primary_key=True)
    first_position = models.BigIntegerField(unique=True)
    root = models.CharField(max_length=64)
    prev_hash = models.CharField(max_length=64)
    hash = models.CharField(max_length=64)
    sealed_at = models.DateTimeField()

    class Meta:
        default_permissions = ("view",)

    def __str__(self) -> str:
        return f"seal {self.first_position} to {self.last_position}"


def root_of(first: int, hashes: Iterable[str]) -> str:
    """Over positions and hashes: an event that changed places changes it as one that changed its text does."""
    digest = hashlib.sha256()
    for position, hash_ in enumerate(hashes, first):
        digest.update(f"{position} {hash_}\n".encode())
    return digest.hexdigest()


def chained(first: int, last: int, root: str, prev_hash: str = GENESIS) -> str:
    return hashlib.sha256(f"{first} {last} {root} {prev_hash}".encode()).hexdigest()
