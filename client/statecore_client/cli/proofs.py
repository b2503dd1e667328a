"""`prove` and `verify`: get proofs from the server, and check them without it."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path
from typing import Any

from ..transparency.checkpoint import Checkpoint, open_checkpoint
from ..transparency.evidence import InvalidEvidence, read_evidence, read_lines
from ..transparency.merkle import compute_root
from ..transparency.notes import InvalidNote, VerifierKey
from ..transparency.proofs import InvalidProof, verify_proof
from .context import Context, format_line
from .errors import CommandError, Exit

MAX_PROOF_SIZE = 1_000_000


def add_commands(commands: Any) -> None:
    prove = commands.add_parser("prove", help="print the proof that an event is in the journal")
    prove.add_argument("event", nargs="?", help="the id of the event")
    what = prove.add_mutually_exclusive_group()
    what.add_argument("--key", action="store_true", help="print the public key of the journal instead")
    what.add_argument("--checkpoint", action="store_true", help="print the newest checkpoint instead")
    prove.set_defaults(run=print_proof)
    verify = commands.add_parser(
        "verify",
        help="check proofs or copies of the journal, without a server",
        description="Checks a proof, or with --checkpoint copies of the journal: transitions.jsonl, archive files and "
        "the events of exports, in the order of their positions. Only the public key is needed.",
    )
    verify.add_argument("--key", required=True, metavar="VERIFIER_KEY", help="the public key of the journal")
    verify.add_argument("--checkpoint", type=Path, metavar="FILE", help="the checkpoint that the files must match")
    verify.add_argument("file", type=Path, nargs="+", help="a proof, or with --checkpoint copies of the journal")
    verify.set_defaults(run=verify_files)


def print_proof(options: Namespace, context: Context) -> None:
    if options.key:
        context.print_line(str(context.client.get_audit_key()["verifier_key"]))
    elif options.checkpoint:
        context.print_line(context.client.get_audit_checkpoint().removesuffix("\n"))
    elif options.event:
        context.print_json(context.client.prove_event(options.event))
    else:
        raise CommandError("which event? `statecore prove EVENT`", Exit.USAGE)


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
