"""`prove` and `verify`: get proofs from the server, and check them without it."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

from .context import Context
from .errors import CommandError, Exit
from .extras import import_verifying


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
    code: Exit = import_verifying("verification").verify_files(options, context)
    return code
