"""`hold`, `holds` and `release` on the command line."""

from __future__ import annotations

from statecore.records.hold import Hold
from tests.cli.process import Statecore


def test_a_hold_is_placed_listed_and_released(statecore: Statecore) -> None:
    placed = statecore("hold", "everything", "--reason", "upgrade", "--for", "30m").out
    hold = Hold.objects.get()
    assert hold.expires_at is not None
    assert placed == f"{hold.pk} active: everything, until {hold.expires_at:%Y-%m-%d %H:%M:%S} UTC\n"
    (listed,) = statecore("holds", "--json").json
    assert (listed["id"], listed["created_by"], listed["reason"]) == (hold.pk, "ada", "upgrade")
    assert statecore("release", hold.pk, "--reason", "done").out == f"{hold.pk} released: everything\n"
    assert statecore("holds").out == "no active holds\n"
    assert hold.pk in statecore("holds", "--status", "all").out
    assert "terminal_state" in statecore("release", hold.pk, "--reason", "again", code=3).err


def test_a_scope_or_duration_that_means_nothing_is_refused(statecore: Statecore) -> None:
    assert "scope" in statecore("hold", "all", "--reason", "why", code=6).err
    assert "must be a duration" in statecore("hold", "everything", "--reason", "why", "--for", "soon", code=2).err
    assert not Hold.objects.exists()
