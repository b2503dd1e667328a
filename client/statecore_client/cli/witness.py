"""`witness`: checks on another host that the journal only grows, and cosigns its checkpoints."""

from __future__ import annotations

from argparse import ArgumentTypeError, Namespace
from pathlib import Path
from typing import Any

from .context import Context
from .errors import Exit
from .extras import import_verifying


def parse_interval(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 1 <= seconds <= 86_400:
        raise ArgumentTypeError("must be seconds from 1 to 86400")
    return seconds


def add_commands(commands: Any) -> None:
    witness = commands.add_parser(
        "witness",
        help="check that the journal only grows, and cosign its checkpoints",
        description="Reads the newest checkpoint, checks that it extends the last one that it has seen, stores it, and "
        "sends its cosignature to the server. Exits with 1 if the journal contradicts what it has shown before. Runs "
        "on another host than the server, once or every few seconds; a token of scope read is enough.",
    )
    witness.add_argument("--folder", type=Path, required=True, help="where the key and the last checkpoint are kept")
    witness.add_argument(
        "--new-key", metavar="NAME", help="create the key of the witness, print its public key and end"
    )
    witness.add_argument("--key", metavar="VERIFIER_KEY", help="the public key of the journal")
    witness.add_argument("--every", type=parse_interval, metavar="SECONDS", help="repeat until it is stopped")
    witness.add_argument("--notify", metavar="COMMAND", help="run on a contradiction; standard input describes it")
    witness.add_argument("--notify-url", metavar="URL", help="receives a contradiction as a JSON document (POST)")
    witness.set_defaults(run=run_witness)


def run_witness(options: Namespace, context: Context) -> Exit:
    code: Exit = import_verifying("witnessing").run_witness(options, context)
    return code
