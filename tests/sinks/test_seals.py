"""Sealed ranges: whatever is taken out of the journal afterwards shows."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import IntegrityError, connection

from statecore import integrity
from statecore.journal import Event
from statecore.kernel import triggers
from statecore.kernel.clock import now
from statecore.records import Position, Seal
from statecore.records.position import head
from statecore.sinks import seals
from statecore.sinks.seals import Seals
from tests.support import world
from tests.support.sequencer import catch_up

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def short_ranges(monkeypatch) -> None:
    monkeypatch.setattr(seals, "SIZE", 4)


def tampered(*statements: str) -> str:
    with triggers.lowered(connection), connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
    finding = integrity.verify_seals()
    assert finding is not None
    assert finding == integrity.verify_seals(latest=3)
    assert finding in integrity.check_all()
    return finding.detail


def sealed() -> None:
    for _ in range(5):
        world.workstream()  # and its run
    catch_up(Seals())


def test_ranges_are_dense_and_chained() -> None:
    sealed()

    assert list(Seal.objects.order_by("pk").values_list("first_position", "last_position")) == [(1, 4), (5, 8)]
    assert integrity.verify_seals() is None
    assert integrity.check_all() == []


def test_a_quiet_journal_is_sealed_after_a_while() -> None:
    sealed()
    Seals().tick(now())
    assert Seal.objects.count() == 2

    Seals().tick(now() + timedelta(minutes=2))
    Seals().tick(now() + timedelta(minutes=2))
    assert Seal.objects.latest("pk").last_position == head() == 10
    assert integrity.verify_seals() is None


def test_a_removed_tail_shows() -> None:
    sealed()
    assert "end at position 7" in tampered(
        "DELETE FROM statecore_event WHERE event_id IN (SELECT event_id FROM statecore_position WHERE position >= 8)",
        "DELETE FROM statecore_position WHERE position >= 8",
    )


def test_a_removed_entity_shows() -> None:
    sealed()
    event = Event.objects.filter(entity_type="workstream").order_by("event_id")[0]
    position = Position.objects.get(event=event).position
    assert f"position {position} is gone" in tampered(
        f"DELETE FROM statecore_event WHERE entity_id = '{event.entity_id}'",
        f"DELETE FROM statecore_workstream WHERE id = '{event.entity_id}'",
    )


def test_events_that_changed_places_show() -> None:
    sealed()
    assert "not those that were sealed" in tampered(
        "UPDATE statecore_position SET event_id = 'x' WHERE position = 1",
        "UPDATE statecore_position SET event_id = (SELECT event_id FROM statecore_position WHERE position = 2) || ''"
        " WHERE position = 2",
        "UPDATE statecore_position SET position = 99 WHERE position = 3",
        "UPDATE statecore_position SET position = 3 WHERE position = 4",
        "UPDATE statecore_position SET position = 4 WHERE position = 99",
        "UPDATE statecore_position SET event_id ="
        " (SELECT event_id FROM statecore_event WHERE event_id NOT IN (SELECT event_id FROM statecore_position))"
        " WHERE position = 1",
    )


def test_a_removed_seal_shows() -> None:
    sealed()
    assert "the seal before it is missing" in tampered("DELETE FROM statecore_seal WHERE first_position = 1")


def test_a_seal_made_up_afterwards_shows() -> None:
    sealed()
    assert "not what its hash says" in tampered("UPDATE statecore_seal SET root = prev_hash WHERE first_position = 1")


def test_a_seal_is_never_changed() -> None:
    sealed()
    with pytest.raises(IntegrityError, match="append-only"):
        Seal.objects.update(root="x")
