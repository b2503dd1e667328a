"""`witness`: checks on another host that the journal only grows, and cosigns its checkpoints."""

from __future__ import annotations

import fcntl
import json
import shlex
import subprocess
import threading
from argparse import ArgumentTypeError, Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx

from .. import Invalid, StatecoreError
from ..transparency.notes import InvalidNote, VerifierKey, decode
from ..transparency.witness import Contradiction, UnusableFolder, Witness, create_witness_key, read_witness_key
from .context import Context, format_line
from .errors import CommandError, Exit, get_exit_code

NOTIFY_SECONDS = 30.0


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
    try:
        if options.new_key:
            context.print_line(str(create_witness_key(options.folder, options.new_key).verifier))
            return Exit.DONE
        if not options.key:
            raise CommandError("which journal? Give its public key with --key", Exit.USAGE)
        witness = Witness(options.folder, read_witness_key(options.folder), VerifierKey.parse(options.key))
        with _hold_folder(options.folder):
            return _watch(witness, options, context) if options.every else _examine(witness, options, context)
    except FileExistsError:
        raise CommandError(f"{options.folder} has a key already", Exit.CONFLICT) from None
    except UnusableFolder as error:
        raise CommandError(str(error), Exit.INVALID) from None
    except InvalidNote as error:
        raise CommandError(f"a key is unusable: {error}", Exit.USAGE) from None


@contextmanager
def _hold_folder(folder: Path) -> Iterator[None]:
    """Lets only one process use the folder, because two could cosign different histories."""
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CommandError(f"another witness uses {folder}", Exit.CONFLICT) from None
        yield


def _watch(witness: Witness, options: Namespace, context: Context) -> Exit:
    """Examines the journal again and again. An unreachable server or a contradiction does not end the witness."""
    waiting = threading.Event()
    while True:
        try:
            _examine(witness, options, context)
        except StatecoreError as error:
            context.print_note(f"statecore: {format_line(str(error))} (exit code {get_exit_code(error)})")
        waiting.wait(options.every)


def _examine(witness: Witness, options: Namespace, context: Context) -> Exit:
    def prove(first: int, second: int) -> Sequence[bytes]:
        try:
            return [decode(node) for node in context.client.prove_consistency(first, second)["proof"]]
        except Invalid:  # the tree of the server is smaller
            return ()

    text = context.client.get_audit_checkpoint()
    try:
        cosignature = witness.examine(text, prove, datetime.now(UTC))
    except (Contradiction, InvalidNote) as error:
        sentence = str(error) if isinstance(error, Contradiction) else f"The checkpoint does not verify: {error}."
        _raise_alarm(sentence, text, witness, options, context)
        return Exit.UNSUCCESSFUL
    if cosignature is not None:
        size = context.client.cosign_checkpoint(text, str(cosignature))["size"]
        context.print_line(f"cosigned position {size} of {format_line(witness.journal.name)}")
    return Exit.DONE


def _raise_alarm(sentence: str, text: str, witness: Witness, options: Namespace, context: Context) -> None:
    """Reports on standard error, to the command and to the URL; a failing channel does not stop the others."""
    context.print_note(f"statecore: ALARM: {format_line(sentence)}")
    document = {"alarm": sentence, "journal": witness.journal.name, "witness": witness.key.name, "checkpoint": text}
    if options.notify:
        try:
            subprocess.run(
                shlex.split(options.notify), input=json.dumps(document) + "\n", text=True, timeout=NOTIFY_SECONDS,
                check=True,
            )  # fmt: skip
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            context.print_note(f"statecore: --notify failed: {format_line(str(error))}")
    if options.notify_url:
        try:
            httpx.post(options.notify_url, json=document, timeout=NOTIFY_SECONDS).raise_for_status()
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            context.print_note(f"statecore: --notify-url failed: {format_line(str(error))}")
