"""The Merkle tree: it grows with the journal, survives restarts, and reveals every change of a signed event."""

from __future__ import annotations

import stat
import sys
from datetime import timedelta
from io import StringIO
from pathlib import Path

import pytest
import time_machine
from django.core.management import CommandError, call_command
from django.db import IntegrityError, connection

from statecore.delivery.sinks.tree import Tree
from statecore.journal import Event, Position, SignedCheckpoint, TreeHashes
from statecore.journal import tree as stored
from statecore.journal.checkpoints import find_checkpoint
from statecore.journal.home_files import CHECKPOINT_FILE
from statecore.journal.position import head
from statecore.journal.proofs import prove_event
from statecore.kernel.clock import now
from statecore.operations import integrity
from statecore.storage import triggers
from statecore_client.transparency.checkpoint import open_checkpoint
from statecore_client.transparency.merkle import compute_root, hash_leaf, prove_consistency, verify_consistency
from statecore_client.transparency.notes import SignerKey, VerifierKey, sign_note
from statecore_client.transparency.proofs import verify_proof
from tests.support import world
from tests.support.sequencer import catch_up, sign

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("home")]


@pytest.fixture
def small_tiles(monkeypatch) -> None:
    """Makes a journal of a few events reach several levels."""
    monkeypatch.setattr(stored, "TILE_BITS", 1)
    monkeypatch.setattr(stored, "TILE_SIZE", 2)
    monkeypatch.setattr(integrity.tree, "TILE_BITS", 1)
    monkeypatch.setattr(integrity.tree, "TILE_SIZE", 2)
    monkeypatch.setattr(integrity.tree, "RANGE_SIZE", 4)


def make_signed_journal() -> None:
    for _ in range(5):
        world.workstream()  # also creates its run
    sign()


def leaves() -> bytes:
    bodies = Position.objects.order_by("position").values_list("event__body", flat=True)
    return b"".join(hash_leaf(body.encode()) for body in bodies)


def tamper(*statements: str) -> str:
    with triggers.disabled(connection), connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
    finding = next(integrity.verify_tree())
    assert finding in integrity.check_recent()
    assert finding in integrity.check_all()
    return finding.detail


def test_the_root_is_that_of_the_events() -> None:
    make_signed_journal()

    assert stored.tree_size() == head() == 10
    assert stored.compute_root_at(10) == compute_root(leaves())
    assert integrity.check_all() == []


@pytest.mark.usefixtures("small_tiles")
def test_every_subtree_of_several_levels_has_its_root() -> None:
    """Delivered in portions of different sizes, with a restart between them."""
    for portion in (1, 3, 7, 2):
        for _ in range(portion):
            world.run()
        catch_up(Tree())
    make_signed_journal()

    whole = leaves()
    assert TreeHashes.objects.filter(level=4).exists()
    for size in range(head() + 1):
        assert stored.compute_root_at(size) == compute_root(whole[: 32 * size])
        for old in range(size + 1):
            path = prove_consistency(old, size, stored.compute_subtree_root)
            roots = compute_root(whole[: 32 * old]), compute_root(whole[: 32 * size])
            assert verify_consistency(old, size, *roots, path)
    assert integrity.check_all() == []
    with triggers.disabled(connection):
        TreeHashes.objects.filter(level=2, first=1).update(hashes=bytes(32))
    assert "positions 5 to 8 differ from their hash" in next(integrity.verify_tree()).detail


def test_a_checkpoint_is_signed_with_a_key_that_only_its_owner_can_read(home: Path) -> None:
    make_signed_journal()

    path = home / "journal.key"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    key = SignerKey.parse(path.read_text()).verifier
    checkpoint = open_checkpoint((home / CHECKPOINT_FILE).read_text(), key)
    assert (checkpoint.size, checkpoint.root, checkpoint.epoch) == (10, compute_root(leaves()), 1)
    assert SignedCheckpoint.objects.get().note == (home / CHECKPOINT_FILE).read_text()
    with connection.cursor() as cursor:
        cursor.execute("SELECT note || verifier_key FROM statecore_signedcheckpoint")
        assert "PRIVATE" not in cursor.fetchone()[0]


def test_a_key_that_others_can_read_is_not_used(home: Path) -> None:
    make_signed_journal()
    (home / "journal.key").chmod(0o644)
    world.run()
    sign()

    assert SignedCheckpoint.objects.latest("size").size == 10
    assert stored.tree_size() == 11


def test_a_lost_key_is_not_replaced_silently(home: Path) -> None:
    make_signed_journal()
    (home / "journal.key").unlink()
    world.run()
    sign()

    assert SignedCheckpoint.objects.latest("size").size == 10
    assert not (home / "journal.key").exists()


def test_an_operator_replaces_a_lost_key(home: Path) -> None:
    make_signed_journal()
    old = SignedCheckpoint.objects.get().verifier_key
    with pytest.raises(CommandError, match="there is a key"):
        call_command("newkey")
    (home / "journal.key").unlink()
    out = StringIO()
    call_command("newkey", stdout=out)
    sign()

    signed = SignedCheckpoint.objects.get()
    assert signed.verifier_key == out.getvalue().strip() != old
    assert open_checkpoint((home / CHECKPOINT_FILE).read_text(), VerifierKey.parse(signed.verifier_key)).size == 10
    assert integrity.check_all() == []


@pytest.mark.parametrize("output", ["raw", "base64"])
def test_a_program_can_hold_the_key(home: Path, settings, output: str) -> None:
    key = SignerKey.generate("example.com/kms")
    program = home / "kms.py"
    program.write_text(
        "import base64, sys\nfrom statecore_client.transparency.notes import SignerKey\n"
        f"signature = SignerKey.parse({key.export()!r}).sign(sys.stdin.buffer.read())\n"
        f"sys.stdout.buffer.write(signature if {output == 'raw'} else base64.b64encode(signature))\n"
    )
    settings.STATECORE_JOURNAL_SIGNER = f"{sys.executable} {program}"
    settings.STATECORE_JOURNAL_VERIFIER_KEY = str(key.verifier)
    make_signed_journal()

    assert open_checkpoint((home / CHECKPOINT_FILE).read_text(), key.verifier).size == 10
    assert not (home / "journal.key").exists()
    settings.STATECORE_JOURNAL_VERIFIER_KEY = str(SignerKey.generate("example.com/kms").verifier)
    world.run()
    sign()
    assert SignedCheckpoint.objects.latest("size").size == 10, "signed with another key than announced"


def test_an_environment_variable_can_hold_the_key(home: Path, settings) -> None:
    key = SignerKey.generate("example.com/environment")
    settings.STATECORE_JOURNAL_KEY = key.export()
    make_signed_journal()

    assert open_checkpoint((home / CHECKPOINT_FILE).read_text(), key.verifier).size == 10


def test_one_checkpoint_is_kept_per_hour_and_all_that_were_cosigned() -> None:
    hour = now().replace(minute=0, second=0, microsecond=0)
    for minute in (0, 10, 20, 70, 80):
        with time_machine.travel(hour + timedelta(minutes=minute), tick=False):
            world.run()
            sign()
            if minute == 10:
                SignedCheckpoint.objects.update(cosignatures="— w AAAAAAAA\n")

    assert list(SignedCheckpoint.objects.order_by("size").values_list("size", flat=True)) == [2, 3, 5]
    assert find_checkpoint(1).size == 2
    assert find_checkpoint(3).size == 5


def test_a_proof_at_every_position_verifies_offline() -> None:
    make_signed_journal()
    key = VerifierKey.parse(SignedCheckpoint.objects.get().verifier_key)

    for position, event_id in Position.objects.values_list("position", "event_id"):
        proof = prove_event(event_id)
        proven = verify_proof(proof, key)
        assert (proven.position, proven.event["event_id"]) == (position, event_id)


def test_a_removed_tail_is_detected() -> None:
    make_signed_journal()
    assert "position 8 is missing" in tamper(
        "DELETE FROM statecore_event WHERE event_id IN (SELECT event_id FROM statecore_position WHERE position >= 8)",
        "DELETE FROM statecore_position WHERE position >= 8",
    )


def test_a_removed_entity_is_detected() -> None:
    make_signed_journal()
    event = Event.objects.filter(entity_type="workstream").order_by("event_id")[0]
    position = Position.objects.get(event=event).position
    assert f"position {position} is missing" in tamper(
        f"DELETE FROM statecore_event WHERE entity_id = '{event.entity_id}'",
        f"DELETE FROM statecore_workstream WHERE id = '{event.entity_id}'",
    )


def test_swapped_events_are_detected() -> None:
    make_signed_journal()
    assert "position 3 differs from its leaf" in tamper(
        "UPDATE statecore_position SET position = 99 WHERE position = 3",
        "UPDATE statecore_position SET position = 3 WHERE position = 4",
        "UPDATE statecore_position SET position = 4 WHERE position = 99",
    )


def test_a_tree_that_was_cut_off_contradicts_its_checkpoint() -> None:
    make_signed_journal()
    with triggers.disabled(connection):
        TreeHashes.objects.all().delete()

    assert "the tree ends at position 0" in next(integrity.check_checkpoints()).detail
    assert any(finding.check == "checkpoint" for finding in integrity.check_recent())


def test_a_checkpoint_signed_with_a_foreign_key_is_detected() -> None:
    make_signed_journal()
    forger = SignerKey.generate("forger")
    signed = SignedCheckpoint.objects.get()
    note = signed.note.split("\n\n")[0] + "\n"

    note = note.replace(signed.verifier_key.split("+")[0], "forger")
    SignedCheckpoint.objects.update(note=str(sign_note(note, forger)), verifier_key=str(forger.verifier))

    assert "another key than that of this installation" in next(integrity.check_checkpoints()).detail


def test_the_tree_is_immutable() -> None:
    make_signed_journal()
    for change in (TreeHashes.objects.all().delete, lambda: TreeHashes.objects.update(hashes=b"")):
        with pytest.raises(IntegrityError, match=r"append-only|cannot be deleted"):
            change()


def test_a_rewritten_tree_is_not_signed(home: Path) -> None:
    make_signed_journal()
    before = (home / CHECKPOINT_FILE).read_text()
    with triggers.disabled(connection):
        TreeHashes.objects.filter(level=0).update(hashes=bytes(320))
    world.run()
    sign()

    assert (home / CHECKPOINT_FILE).read_text() == before
    assert any("differs from the one that was signed" in found.detail for found in integrity.check_recent())
