"""A witness: it cosigns what extends everything that it has seen, and nothing else."""

from __future__ import annotations

import stat
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from statecore_client.transparency.checkpoint import Checkpoint, sign_checkpoint, verify_cosignature
from statecore_client.transparency.merkle import compute_root, hash_leaf, prove_consistency
from statecore_client.transparency.notes import COSIGNATURE, InvalidNote, Note, SignerKey
from statecore_client.transparency.witness import (
    MAX_EVIDENCE,
    Contradiction,
    UnusableFolder,
    Witness,
    create_witness_key,
    read_witness_key,
)

pytestmark = pytest.mark.once_on("sqlite")

AT = datetime(2026, 1, 1, tzinfo=UTC)
JOURNAL = SignerKey.generate("journal.example/one")


class History:
    """A journal of numbered events; `other` ones begin to differ after a position."""

    def __init__(self, size: int, *, differs_after: int | None = None) -> None:
        same = size if differs_after is None else differs_after
        names = [f"event {at}" if at < same else f"forged {at}" for at in range(size)]
        self.leaves = b"".join(hash_leaf(name.encode()) for name in names)

    def root(self, first: int, last: int) -> bytes:
        return compute_root(self.leaves[32 * first : 32 * last])

    def prove(self, first: int, second: int) -> Sequence[bytes]:
        return prove_consistency(first, second, self.root) if second * 32 <= len(self.leaves) else ()

    def checkpoint(self, size: int, *, epoch: int = 1, key: SignerKey = JOURNAL) -> str:
        return str(sign_checkpoint(Checkpoint(key.name, size, self.root(0, size), epoch), key))


HONEST = History(20)


@pytest.fixture
def witness(tmp_path: Path) -> Witness:
    return Witness(tmp_path, create_witness_key(tmp_path, "witness.example/w"), JOURNAL.verifier)


def test_it_cosigns_a_journal_that_grows(witness: Witness) -> None:
    for size in (0, 1, 1, 5, 8, 20):
        text = HONEST.checkpoint(size)
        cosignature = witness.examine(text, HONEST.prove, AT)
        assert cosignature is not None
        assert verify_cosignature(Note.parse(text).text, cosignature, witness.key.verifier).at == AT
        assert (witness.folder / "seen").read_text() == text


def test_an_older_checkpoint_of_the_same_history_is_neither_cosigned_nor_an_alarm(witness: Witness) -> None:
    witness.examine(HONEST.checkpoint(20), HONEST.prove, AT)
    assert witness.examine(HONEST.checkpoint(7), HONEST.prove, AT) is None
    assert witness.examine(HONEST.checkpoint(20), HONEST.prove, AT) is not None


LIES = {
    "another history of the same size": (History(12, differs_after=3), 12, 2),
    "another history that is longer": (History(20, differs_after=11), 20, 2),
    "another history that is shorter": (History(9, differs_after=8), 9, 2),
    "a journal that was cut off": (History(9), 9, 2),
    "a journal that was emptied": (History(0), 0, 2),
    "an earlier epoch": (HONEST, 20, 1),
    "a later epoch with another history": (History(20, differs_after=5), 20, 3),
}


@pytest.mark.parametrize("name", LIES)
def test_it_refuses_what_contradicts_the_last_checkpoint(witness: Witness, name: str) -> None:
    known = HONEST.checkpoint(12, epoch=2)
    witness.examine(known, HONEST.prove, AT)
    history, size, epoch = LIES[name]
    lie = history.checkpoint(size, epoch=epoch)
    with pytest.raises(Contradiction):
        witness.examine(lie, history.prove, AT)
    assert (witness.folder / "seen").read_text() == known
    (evidence,) = witness.folder.glob("contradiction-*")
    assert evidence.read_text() == f"{known}\n{lie}", "both signed checkpoints are kept"


def test_a_repeated_alarm_keeps_a_limited_number_of_files(witness: Witness) -> None:
    witness.examine(HONEST.checkpoint(12), HONEST.prove, AT)
    lie = History(20, differs_after=3)
    for minute in range(30):
        with pytest.raises(Contradiction):
            witness.examine(lie.checkpoint(20), lie.prove, AT + timedelta(minutes=minute))

    assert len(list(witness.folder.glob("contradiction-*"))) == MAX_EVIDENCE


def test_it_refuses_what_the_journal_has_not_signed(witness: Witness) -> None:
    for text in (HONEST.checkpoint(5, key=SignerKey.generate("journal.example/one")), "nonsense", ""):
        with pytest.raises(InvalidNote):
            witness.examine(text, HONEST.prove, AT)
    assert not (witness.folder / "seen").exists()


def test_a_damaged_memory_is_not_replaced(witness: Witness) -> None:
    witness.examine(HONEST.checkpoint(12), HONEST.prove, AT)
    (witness.folder / "seen").write_text("damaged")
    with pytest.raises(UnusableFolder, match="unreadable"):
        witness.examine(HONEST.checkpoint(20), HONEST.prove, AT)


def test_the_key_is_private_and_never_replaced(tmp_path: Path) -> None:
    key = create_witness_key(tmp_path / "new", "witness.example/w")
    path = tmp_path / "new" / "witness.key"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_witness_key(tmp_path / "new") == key
    assert key.algorithm == COSIGNATURE
    with pytest.raises(FileExistsError):
        create_witness_key(tmp_path / "new", "witness.example/w")
    with pytest.raises(InvalidNote):
        create_witness_key(tmp_path / "other", "two words")
    path.chmod(0o644)
    with pytest.raises(UnusableFolder, match="read by others"):
        read_witness_key(tmp_path / "new")
    with pytest.raises(UnusableFolder, match="--new-key"):
        read_witness_key(tmp_path)
    (tmp_path / "witness.key").write_text(JOURNAL.export())
    (tmp_path / "witness.key").chmod(0o600)
    with pytest.raises(UnusableFolder, match="not the key of a witness"):
        read_witness_key(tmp_path)
