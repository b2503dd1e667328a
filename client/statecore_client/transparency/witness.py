"""A witness (C2SP `tlog-witness`): cosigns a checkpoint only if it extends every checkpoint that the witness has seen.

A journal that shows different histories to different readers cannot get cosignatures for both.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from .checkpoint import Checkpoint, cosign, open_checkpoint
from .merkle import HASH_SIZE, verify_consistency
from .notes import COSIGNATURE, InvalidNote, Note, Signature, SignerKey, VerifierKey

KEY_FILE, SEEN_FILE = "witness.key", "seen"
EVIDENCE, MAX_EVIDENCE = "contradiction", 10
# Returns the proof that the tree of the first size is a prefix of the tree of the second size.
ProveConsistency = Callable[[int, int], Sequence[bytes]]


class Contradiction(Exception):
    """The journal shows a history that does not extend the one that the witness has seen. The message is a sentence."""


class UnusableFolder(Exception):
    """The folder of the witness has no key, or a file in it is unreadable. The message is a sentence."""


@dataclass(frozen=True)
class Witness:
    """Keeps its key and the last checkpoint that it has cosigned in a folder."""

    folder: Path
    key: SignerKey
    journal: VerifierKey

    def examine(self, text: str, prove: ProveConsistency, at: datetime) -> Signature | None:
        """Returns the cosignature of a checkpoint, or None if a newer one is known and extends it.

        Raises InvalidNote if the journal has not signed the checkpoint, and Contradiction.
        """
        shown, known = open_checkpoint(text, self.journal), self._read_known()
        if known is not None:
            if problem := _find_contradiction(known, shown, prove):
                self._keep_evidence(text, at)
                raise Contradiction(problem)
            if shown.size < known.size:
                return None
        # Stored before it is signed: a crash in between must not let the witness forget what it has vouched for.
        write_file(self.folder / SEEN_FILE, text)
        return cosign(Note.parse(text), self.key, at)

    def _read_known(self) -> Checkpoint | None:
        try:
            return open_checkpoint((self.folder / SEEN_FILE).read_text("utf-8"), self.journal)
        except FileNotFoundError:
            return None
        except (OSError, UnicodeError, InvalidNote) as error:
            raise UnusableFolder(f"{self.folder / SEEN_FILE} is unreadable: {error}.") from None

    def _keep_evidence(self, text: str, at: datetime) -> None:
        """Keeps both signed checkpoints: together they prove that the journal has shown two histories.

        A few are enough; a witness that repeats every minute must not fill the disk.
        """
        if len(list(self.folder.glob(f"{EVIDENCE}-*"))) >= MAX_EVIDENCE:
            return
        known = (self.folder / SEEN_FILE).read_text("utf-8")
        write_file(self.folder / f"{EVIDENCE}-{at:%Y%m%dT%H%M%S%fZ}", f"{known}\n{text}")


def _find_contradiction(known: Checkpoint, shown: Checkpoint, prove: ProveConsistency) -> str | None:
    if shown.epoch < known.epoch:
        return f"The journal went back from epoch {known.epoch} to epoch {shown.epoch}."
    old, new = sorted((known, shown), key=lambda checkpoint: checkpoint.size)
    path = prove(old.size, new.size) if 0 < old.size < new.size else ()
    is_well_formed = all(len(node) == HASH_SIZE for node in path)
    # An empty tree is a prefix of every tree, so an empty journal has nothing to prove.
    is_emptied = shown.size == 0 < known.size
    if is_well_formed and not is_emptied and verify_consistency(old.size, new.size, old.root, new.root, path):
        return None
    return (
        f"The journal shows a history of {shown.size} positions that contradicts the one of {known.size} positions "
        "that was seen before."
    )


def create_witness_key(folder: Path, name: str) -> SignerKey:
    """Creates the key of a witness in its folder. Raises FileExistsError, and InvalidNote for an unusable name."""
    key = SignerKey.generate(name, COSIGNATURE)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_file(folder / KEY_FILE, key.export() + "\n", exclusive=True)
    return key


def read_witness_key(folder: Path) -> SignerKey:
    path = folder / KEY_FILE
    try:
        key = SignerKey.parse(path.read_text("utf-8"))
        is_private = not path.stat().st_mode & 0o077
    except FileNotFoundError:
        raise UnusableFolder(f"{path} does not exist: create it with --new-key NAME.") from None
    except (OSError, UnicodeError, InvalidNote) as error:
        raise UnusableFolder(f"{path} is unreadable: {error}.") from None
    if not is_private:
        raise UnusableFolder(f"{path} can be read by others: run `chmod 600 {path}`.")
    if key.algorithm != COSIGNATURE:
        raise UnusableFolder(f"{path} is not the key of a witness.")
    return key


def write_file(path: Path, text: str, *, exclusive: bool = False) -> None:
    """Writes a file in one step that is on the disk before this returns; only its owner can read it."""
    fresh = path.with_name(f"{path.name}.new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    if exclusive:
        os.link(fresh, path)
        fresh.unlink()
    else:
        fresh.replace(path)
