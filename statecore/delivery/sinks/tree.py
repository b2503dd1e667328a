"""Extends the Merkle tree by each numbered event, and signs a checkpoint every few seconds while the journal grows."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from django.conf import settings
from django.db import transaction

from statecore_client.transparency.evidence import parse_line, read_lines
from statecore_client.transparency.merkle import hash_leaf

from ...journal import ArchivedRange
from ...journal.archive import get_last_archived_position
from ...journal.checkpoints import publish_checkpoint
from ...journal.tree import Frontier, append_leaves
from .sink import Batch, Sink


class Tree(Sink):
    name = "tree"

    def __init__(self) -> None:
        self.frontier: Frontier | None = None

    def recover(self, cursor: int) -> int:
        """Continues after the last leaf, which commits together with the cursor."""
        self.frontier = Frontier.load()
        if self.frontier.size < get_last_archived_position():
            self._append_archived_events(self.frontier)
        return self.frontier.size

    def _append_archived_events(self, frontier: Frontier) -> None:
        """Reads the events that were archived before the tree existed from their files."""
        for record in ArchivedRange.objects.filter(last_position__gt=frontier.size).order_by("last_position"):
            path = Path(settings.STATECORE_ARCHIVE_DIR) / record.file
            leaves = b"".join(hash_leaf(parse_line(line).body) for line in read_lines(path))
            with transaction.atomic():
                append_leaves(frontier, leaves)

    def deliver(self, batch: Batch) -> None:
        assert self.frontier is not None  # noqa: S101 - recover() comes first
        append_leaves(self.frontier, b"".join([hash_leaf(event.entry.body.encode()) for event in batch]))

    def tick(self, at: datetime) -> None:
        if self.frontier is not None:
            with self.fenced():
                publish_checkpoint(self.frontier)

    def close(self) -> None:
        self.frontier = None
