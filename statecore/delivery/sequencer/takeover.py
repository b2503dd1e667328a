"""Starts a new epoch when a sequencer that begins to lead finds a database that lost events or was promoted."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import structlog
from django.db import transaction

from ...journal import commit_order, lost_positions
from ...journal.checkpoints import read_saved_epoch, sign_new_epoch
from ...journal.commit_order import ServerIdentity
from ...journal.epochs import Epoch, Losses, Reason, start_epoch
from ...journal.lost_positions import HistoryDiffers
from ...journal.position import Numbering
from ..sinks.alerts import open_epoch_alert

log = structlog.get_logger(__name__)


Fenced = Callable[[], AbstractContextManager[None]]


def start_epoch_if_needed(fenced: Fenced = transaction.atomic) -> Epoch | None:
    """Starts an epoch if the server was promoted or replaced, or if the home directory has events that are lost.

    Runs before the leader numbers anything, so that no position is given twice within an epoch. Raises OSError and
    SigningFailed if the files in the home directory cannot be changed; then nothing may be numbered.
    """
    row, server = commit_order.get_numbering(), commit_order.read_server_identity()
    losses = _find_losses(row)
    reason = _find_reason(row, server, losses)
    if reason is None:
        if server.timeline != row.timeline:
            with fenced():
                Numbering.objects.filter(pk=1).update(timeline=server.timeline)
        return None
    epoch = _start(row, server, reason, losses, fenced)
    log.error("epoch_started", epoch=epoch.number, reason=epoch.reason, kept=epoch.kept, detail=epoch.describe())
    return epoch


def _find_losses(row: Numbering) -> Losses | None:
    try:
        return lost_positions.find_losses(row.head, row.epoch)
    except HistoryDiffers as error:
        # Not a failover. The files stay as they are, nothing is signed, and `manage.py integrity` reports it.
        log.error("journal_rewritten", problem=str(error))
        return None


def _find_reason(row: Numbering, server: ServerIdentity, losses: Losses | None) -> Reason | None:
    if row.cluster and server.cluster and row.cluster != server.cluster:
        return Reason.MOVE
    if losses or (row.timeline and server.timeline and row.timeline != server.timeline):
        return Reason.FAILOVER
    return None


def _start(row: Numbering, server: ServerIdentity, reason: Reason, losses: Losses | None, fenced: Fenced) -> Epoch:
    """Changes the database last: a start that is interrupted is found by the file of lost lines and repeated."""
    number = max(row.epoch, read_saved_epoch()) + 1
    with fenced():
        if losses:
            losses = lost_positions.keep_losses(losses, row.epoch, row.head)
        epoch = start_epoch(number, reason, losses, timeline=server.timeline)
        open_epoch_alert(epoch)
        if losses:
            sign_new_epoch(number)
            lost_positions.cut_journal_file(row.head)
    return epoch
