"""A database that lost its last events begins a new epoch, which names what was lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from django.db import connection

from statecore import transitions
from statecore.delivery.sequencer import takeover
from statecore.delivery.sequencer.takeover import start_epoch_if_needed
from statecore.delivery.sinks import alerts
from statecore.delivery.sinks.journal_file import JournalFile
from statecore.delivery.sinks.tree import Tree
from statecore.journal import Event, Numbering, Position, epochs
from statecore.journal.checkpoints import find_key, read_saved
from statecore.journal.epochs import Cursor
from statecore.journal.home_files import build_lost_path
from statecore.journal.position import head
from statecore.kernel.actors import THE_SYSTEM, Actor
from statecore.kernel.clock import now
from statecore.operations import integrity
from statecore.project import startup
from statecore.project.refusal import Refused
from statecore.read_models import history
from statecore.records import Alert
from statecore.records.alert import acknowledge
from tests.integrity.rewriting import rewrite
from tests.support import world
from tests.support.failover import lose_events_after
from tests.support.sequencer import catch_up, lines, ordered, positions, sign

pytestmark = pytest.mark.django_db(transaction=True)


def create_run(actor: Actor) -> None:
    transitions.create(world.model("Run"), actor=actor, phase=world.phase())


def deliver() -> None:
    catch_up(JournalFile(), Tree())


@pytest.fixture
def kept(home: Path) -> int:
    """The last position that the replica has received of a signed journal."""
    world.workstream()
    world.forced(world.run(), "failed")
    deliver()
    sign()
    return head()


@pytest.fixture
def lost(kept: int) -> list[str]:
    """The events that are confirmed, written to the journal file and signed, and that the replica lacks."""
    create_run(world.AGENT)
    create_run(THE_SYSTEM)
    deliver()
    sign()
    create_run(world.operator())  # not signed yet
    deliver()
    return ordered()[kept:]


def test_a_failover_that_lost_positions_starts_an_epoch_that_names_them(home: Path, kept: int, lost: list[str]) -> None:
    old_lines, last = lines(), head()
    lose_events_after(kept)
    world.run()
    deliver()

    (epoch,) = epochs.list_epochs()
    assert (epoch.number, epoch.reason, epoch.kept) == (2, "failover", kept)
    assert epoch.losses is not None
    assert (epoch.losses.first, epoch.losses.last) == (kept + 1, last)
    assert [each["event_id"] for each in epoch.losses.events] == lost
    assert (epoch.losses.reports, epoch.losses.decisions) == (1, 1)
    first = Position.objects.get(position=kept + 1)
    assert (first.event_id, first.kind) == (epoch.event_id, "epoch")
    assert [line["event_id"] for line in lines()] == ordered()
    evidence = [json.loads(line) for line in build_lost_path(1).read_text().splitlines()]
    assert evidence == old_lines[kept:]
    assert epoch.losses.file == build_lost_path(1).name
    assert integrity.check_all() == []


def test_the_loss_is_an_alert_until_it_is_acknowledged(kept: int, lost: list[str]) -> None:
    lose_events_after(kept)
    deliver()

    alert = Alert.objects.get(rule="epoch")
    assert alert.severity == "critical"
    assert alert.detail == (
        f"epoch 2 began after a failover: positions {kept + 1} to {kept + 3} were lost, among them 1 confirmed report "
        "of agents and 1 decision of operators"
    )
    alerts.evaluate(now())
    assert Alert.objects.get(rule="epoch").resolved_at is None
    acknowledge(alert.pk, "ada")
    alerts.evaluate(now())
    assert Alert.objects.get(rule="epoch").resolved_at is not None


def test_the_new_checkpoint_carries_the_epoch_and_the_old_one_is_kept(home: Path, kept: int, lost: list[str]) -> None:
    old = (home / "checkpoint").read_text()
    lose_events_after(kept)
    start_epoch_if_needed()

    key = find_key()
    assert key is not None
    saved = read_saved(key)
    assert saved is not None
    assert (saved.epoch, saved.size) == (2, kept)
    assert [path.read_text() for path in home.glob("checkpoint-until-*")] == [old]
    sign()
    assert read_saved(key).size == head()  # type: ignore[union-attr]


def test_a_process_starts_on_a_database_that_lost_its_end(kept: int, lost: list[str]) -> None:
    """The sequencer will start the epoch; before that, the loss is no reason to refuse."""
    lose_events_after(kept)
    startup.check_integrity(start_anyway=False)


def test_a_rewritten_history_starts_no_epoch(home: Path, kept: int, lost: list[str]) -> None:
    """The attack: the end is cut off and an earlier event is forged, so that it looks like a failover."""

    def forge(history) -> None:
        del history[kept:]
        history[0].members["actor"] = "mallory"

    before = (home / "transitions.jsonl").read_bytes(), (home / "checkpoint").read_bytes()
    rewrite(forge)
    assert start_epoch_if_needed() is None
    assert epochs.list_epochs() == []
    assert ((home / "transitions.jsonl").read_bytes(), (home / "checkpoint").read_bytes()) == before
    assert "checkpoint" in {finding.check for finding in integrity.check_recent()}
    with pytest.raises(Refused, match="does not verify"):
        startup.check_integrity(start_anyway=False)


@pytest.mark.parametrize("is_deleted", [False, True], ids=["kept", "deleted"])
def test_an_interrupted_start_is_repeated(
    home: Path, kept: int, lost: list[str], monkeypatch, is_deleted: bool
) -> None:
    """The process is killed after it changed the files and before the database committed.

    If the journal file is deleted then, the next start does not need it: the lost lines are in a file of their own.
    """
    lose_events_after(kept)

    def fail(_position: int) -> None:
        cut(_position)
        raise OSError("killed")

    cut = takeover.lost_positions.cut_journal_file
    monkeypatch.setattr(takeover.lost_positions, "cut_journal_file", fail)
    with pytest.raises(OSError, match="killed"):
        takeover.start_epoch_if_needed()
    assert not Event.objects.filter(kind="epoch").exists()
    monkeypatch.undo()
    if is_deleted:
        (home / "transitions.jsonl").unlink()
    deliver()

    (epoch,) = epochs.list_epochs()
    assert epoch.losses is not None
    assert [each["event_id"] for each in epoch.losses.events] == lost
    assert positions(lines()) == list(range(1, head() + 1))
    assert integrity.check_all() == []


def test_a_complete_journal_starts_no_epoch(kept: int) -> None:
    for _ in range(2):
        deliver()
    assert epochs.list_epochs() == []


@pytest.mark.postgres
def test_a_promotion_starts_an_epoch_even_if_this_host_has_no_copy(kept: int, home: Path) -> None:
    """Another host wrote the files: what it had written after the last replicated event is not known here."""
    (home / "transitions.jsonl").unlink()
    (home / "checkpoint").unlink()
    assert connection.vendor == "postgresql"
    assert Numbering.objects.get().timeline == 1
    Numbering.objects.update(timeline=7)
    deliver()

    (epoch,) = epochs.list_epochs()
    assert (epoch.number, epoch.kept, epoch.losses) == (2, kept, None)
    assert Numbering.objects.get().timeline == 1


def test_a_cursor_of_an_earlier_epoch_is_valid_up_to_the_last_shared_position(kept: int, lost: list[str]) -> None:
    lose_events_after(kept)
    deliver()
    world.run()
    deliver()
    last = head()
    lose_events_after(last - 1)
    deliver()

    assert [each.number for each in epochs.list_epochs()] == [3, 2]
    assert epochs.is_current(Cursor(last, None))
    assert epochs.is_current(Cursor(last, 3))
    assert epochs.is_current(Cursor(kept, 1))
    assert not epochs.is_current(Cursor(kept + 1, 1))
    assert epochs.is_current(Cursor(last - 1, 2))
    assert not epochs.is_current(Cursor(last, 2))
    assert not epochs.is_current(Cursor(1, 4)), "an epoch that this database does not know"


def test_the_entry_of_an_epoch_is_no_event_of_a_machine(kept: int, lost: list[str]) -> None:
    lose_events_after(kept)
    deliver()
    page = history.read_page(history.Filters(), after=0, limit=100)
    assert {each["event"]["kind"] for each in page.events}.isdisjoint({"epoch"})
