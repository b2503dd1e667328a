"""A kill during archiving loses nothing, and the next run completes the work."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from statecore.delivery.sinks import counters
from statecore.journal import ArchivedRange, Event, Position
from statecore.journal.archive import get_last_archived_position
from statecore.operations import integrity
from tests.retention.past import Past, archive_old_events
from tests.retention.victim import MOMENTS
from tests.support import forked
from tests.support.sequencer import ROOT, database_url

pytestmark = [pytest.mark.once_on("postgres"), pytest.mark.django_db(transaction=True)]


@pytest.mark.parametrize("moment", MOMENTS)
def test_archiving_killed_at_any_moment_loses_nothing_and_resumes(past: Past, home: Path, moment: str) -> None:
    total, remaining = Event.objects.count(), Event.objects.count() - past.upto

    ended = forked.run(
        [sys.executable, "-m", "tests.retention.victim", moment], cwd=ROOT, timeout=60,
        env={**os.environ, "DATABASE_URL": database_url("owner"), "STATECORE_HOME": str(home),
             "STATECORE_ARCHIVE_DIR": str(past.folder())},
    )  # fmt: skip

    assert ended.returncode == -signal.SIGKILL
    assert get_last_archived_position() == (5 if moment == "in the second batch" else 0)
    # Each archived file is an entry of the journal, which has no position yet.
    files, kept = ArchivedRange.objects.count(), total - get_last_archived_position()
    assert (Event.objects.count(), Position.objects.count()) == (kept + files, kept)
    assert integrity.check_all(past.folder()) == []

    archive_old_events(limit=5)

    files = ArchivedRange.objects.count()
    assert (get_last_archived_position(), Event.objects.count()) == (past.upto, remaining + files)
    assert integrity.check_all(past.folder()) == []
    assert counters.reconcile() == []
    names = {path.name for path in past.folder().iterdir() if path.suffix == ".gz"}
    assert names == set(ArchivedRange.objects.values_list("file", flat=True))
