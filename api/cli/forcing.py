"""The verbs that force a state, and `override` for every other one. Each shows first what would follow from it."""

from __future__ import annotations

import hashlib
import os
from argparse import ArgumentParser, Namespace
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from api.client import Conflict, Outcome

from .desk import Desk
from .exits import Exit, Stop
from .moving import tell, try_again


@dataclass(frozen=True, slots=True)
class Verb:
    name: str
    collection: str
    to_state: str
    help: str


VERBS = (
    Verb("complete-task", "tasks", "completed", "a task that was done although nobody reported it"),
    Verb("fail-task", "tasks", "failed", "a task that will not get done"),
    Verb("reset-task", "tasks", "pending", "a task from the start again; a final one gets a successor"),
    # Not to pending: what blocked it is still there, and would block it again at once.
    Verb("unblock-task", "tasks", "queued", "a blocked task whose dependency was checked by hand"),
    Verb("fail-workstream", "workstreams", "failed", "a workstream that cannot be saved"),
    Verb("validate-workstream", "workstreams", "validating", "a workstream whose tasks have all ended"),
    Verb("rollback-patch", "patches", "rolled_back", "a committed patch that was taken back by its approved plan"),
    Verb("reset-breaker", "breakers", "CLOSED", "a tool that works again"),
)
RESET = "reset-task"
# The token of a second person, where the policy demands one: never an argument, which everybody on the machine can see.
APPROVER = "STATECORE_APPROVER_TOKEN"


def add(commands: Any) -> None:
    for verb in VERBS:
        parser = commands.add_parser(verb.name, help=f"force: {verb.help}")
        parser.add_argument("id", help="which one")
        _common(parser)
        parser.set_defaults(run=force_verb, verb=verb)
        if verb.name == "complete-task":
            parser.add_argument("--verify-output", metavar="FILE", help="refuse unless FILE is there and not empty")
    override = commands.add_parser("override", help="force any entity into any state")
    override.add_argument("collection", help="tasks, runs, workers, …")
    override.add_argument("id", help="which of them")
    override.add_argument("to_state", help="where it is to go")
    _common(override)
    override.set_defaults(run=force_any)


def _common(parser: ArgumentParser) -> None:
    parser.add_argument("--reason", required=True, help="10 characters or more; stays on record for ever")
    parser.add_argument("--category", required=True, help="stuck, crashed_worker, infrastructure, …")
    parser.add_argument("--expected-version", type=int, metavar="N", help="refuse if it has changed since")
    parser.add_argument("--dry-run", action="store_true", help="show what would follow, and change nothing")
    parser.add_argument("--yes", action="store_true", help="do not ask")


def force_verb(options: Namespace, desk: Desk) -> None:
    verb: Verb = options.verb
    metadata = _proof(options.verify_output) if getattr(options, "verify_output", None) else None
    try:
        ask_to_force(desk, options, verb.collection, options.id, verb.to_state, metadata)
    except Conflict as refusal:
        if verb.name != RESET or refusal.code != "terminal_state":
            raise
        again = Namespace(collection=verb.collection, id=options.id, reason=options.reason, dry_run=options.dry_run)
        try_again(again, desk)


def force_any(options: Namespace, desk: Desk) -> None:
    ask_to_force(desk, options, options.collection, options.id, options.to_state)


def ask_to_force(
    desk: Desk, options: Namespace, collection: str, id_: str, to_state: str, metadata: dict[str, Any] | None = None
) -> Outcome:
    """A preview, a question to whoever sits there, and then exactly what was shown: the version must still be it."""

    approver = os.environ.get(APPROVER)

    def ask(*, dry_run: bool, expected_version: int | None) -> Outcome:
        return desk.client.override(
            collection, id_, to_state, reason=options.reason, category=options.category, dry_run=dry_run,
            expected_version=expected_version, metadata=metadata, approver_token=None if dry_run else approver,
        )  # fmt: skip

    version = options.expected_version
    if options.dry_run:
        shown = ask(dry_run=True, expected_version=version)
        tell(desk, shown, "would: ")
        return shown
    if version is None:
        version = desk.client.get(collection, id_).version
    if desk.somebody_is_there and not options.yes:
        tell(desk, ask(dry_run=True, expected_version=version), "would: ")
        if not desk.confirmed(f"force {id_} to {to_state}?"):
            raise Stop("nothing was changed")
    done = ask(dry_run=False, expected_version=version)
    tell(desk, done)
    return done


def _proof(place: str) -> dict[str, Any]:
    """What was looked at before somebody said that a task is done."""
    path = Path(place)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise Stop(f"{place} cannot be read: {error.strerror}", Exit.NOT_AS_HOPED) from None
    if not content:
        raise Stop(f"{place} is empty: that is no output", Exit.NOT_AS_HOPED)
    return {"verified_output": path.name, "sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
