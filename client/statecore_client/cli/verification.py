"""Checks proofs and copies of the journal without a server."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path

from ..transparency.checkpoint import Checkpoint, open_checkpoint
from ..transparency.evidence import InvalidEvidence, read_evidence, read_lines
from ..transparency.merkle import compute_root
from ..transparency.notes import InvalidNote, VerifierKey
from ..transparency.proofs import InvalidProof, verify_proof
from .context import Context, format_line
from .errors import CommandError, Exit

MAX_PROOF_SIZE = 1_000_000


def verify_files(options: Namespace, context: Context) -> Exit:
    """Returns UNSUCCESSFUL if a file does not verify."""
    try:
        key = VerifierKey.parse(options.key)
    except InvalidNote as error:
        raise CommandError(f"--key: {error}", Exit.USAGE) from None
    try:
        if options.checkpoint is None:
            for path in options.file:
                _verify_proof(path, key, context)
        else:
            _verify_copies(options.file, _read_checkpoint(options.checkpoint, key), context)
    except (InvalidProof, InvalidEvidence, InvalidNote) as error:
        context.print_note(f"statecore: {format_line(str(error))}")
        return Exit.UNSUCCESSFUL
    return Exit.DONE


def _read_text(path: Path) -> str:
    try:
        with path.open(encoding="utf-8") as file:
            return file.read(MAX_PROOF_SIZE)
    except UnicodeError:
        raise InvalidProof(f"{path} is not a text.") from None
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {error.strerror}", Exit.INVALID) from None


def _verify_proof(path: Path, key: VerifierKey, context: Context) -> None:
    try:
        document = json.loads(_read_text(path))
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise InvalidProof(f"{path} is not a proof. To check a copy of the journal, give its --checkpoint.")
    proven = verify_proof(document, key)
    if context.as_json:
        context.print_json({"position": proven.position, "epoch": proven.checkpoint.epoch, "event": proven.event})
        return
    context.print_line(f"position {proven.position} of {format_line(key.name)}, epoch {proven.checkpoint.epoch}")
    context.print_fields({name: value for name, value in proven.event.items() if name != "details"})


def _read_checkpoint(path: Path, key: VerifierKey) -> Checkpoint:
    return open_checkpoint(_read_text(path), key)


def _verify_copies(paths: list[Path], checkpoint: Checkpoint, context: Context) -> None:
    copy = read_evidence(line for path in paths for line in read_lines(path))
    if copy.first != 1:
        raise InvalidEvidence(f"the files begin at position {copy.first}: add the archive files before them")
    if copy.last < checkpoint.size:
        raise InvalidEvidence(f"the files end at position {copy.last}, but {checkpoint.size} positions were signed")
    if compute_root(copy.leaves[: 32 * checkpoint.size]) != checkpoint.root:
        raise InvalidEvidence(f"the events up to position {checkpoint.size} are not those that were signed")
    beyond = f"; {copy.last - checkpoint.size} newer ones are not signed yet" if copy.last > checkpoint.size else ""
    context.print_line(f"positions 1 to {checkpoint.size} are those that were signed{beyond}")
