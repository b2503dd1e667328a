"""Commands that force a common state, such as `complete-task`, and `override` for any state.

At a terminal each shows a preview first.
"""

from __future__ import annotations

import hashlib
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from .. import Conflict, Outcome
from .approvals import print_request
from .context import Context
from .errors import CommandError, Exit
from .transitions import create_successor, print_outcome


@dataclass(frozen=True, slots=True)
class Verb:
    name: str
    collection: str
    to_state: str
    help: str


VERBS = (
    Verb("complete-task", "tasks", "completed", "a task that is done but was not reported"),
    Verb("fail-task", "tasks", "failed", "a task that will not be completed"),
    Verb("reset-task", "tasks", "pending", "a task that is to start again; a final task gets a successor"),
    # A task forced to pending would be blocked again by the same dependency.
    Verb("unblock-task", "tasks", "queued", "a blocked task, after you checked its dependency"),
    Verb("fail-workstream", "workstreams", "failed", "a workstream that cannot succeed"),
    Verb("validate-workstream", "workstreams", "validating", "a workstream with final tasks only"),
    Verb("reset-breaker", "breakers", "CLOSED", "the breaker of a tool that works again"),
)
RESET, UNBLOCK = "reset-task", "unblock-task"


def add_commands(commands: Any) -> None:
    for verb in VERBS:
        parser = commands.add_parser(verb.name, help=f"force to {verb.to_state}: {verb.help}")
        parser.add_argument("id", help="the entity")
        _add_options(parser)
        parser.set_defaults(run=run_verb, verb=verb)
        if verb.name == "complete-task":
            parser.add_argument("--verify-output", metavar="FILE", help="refuse unless FILE exists and is not empty")
        if verb.name == RESET:
            parser.add_argument("--clear-retry-count", action="store_true", help="give the task all its retries back")
    override = commands.add_parser("override", help="force any entity into any state")
    override.add_argument("collection", help="tasks, runs, workers, …")
    override.add_argument("id", help="the entity")
    override.add_argument("to_state", help="the target state")
    _add_options(override)
    override.set_defaults(run=override_any)

    waiver = commands.add_parser(
        "waive-gate", help="let what waits for a gate treat it as passed; the gate keeps its state"
    )
    waiver.add_argument("id", help="the gate")
    _add_options(waiver)
    waiver.add_argument("--hours", type=float, metavar="H", help="the waiver ends after H hours (never)")
    waiver.set_defaults(run=waive_gate)


def _add_options(parser: ArgumentParser) -> None:
    parser.add_argument("--reason", required=True, help="10 characters or more; recorded in the journal")
    parser.add_argument("--category", required=True, help="stuck, crashed_worker, infrastructure, …")
    parser.add_argument("--expected-version", type=int, metavar="N", help="refuse if the entity has another version")
    parser.add_argument("--dry-run", action="store_true", help="show what would change, and change nothing")
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")


def run_verb(options: Namespace, context: Context) -> None:
    verb: Verb = options.verb
    if verb.name == UNBLOCK:
        _check_unblocks(options, context)
    file, clears = getattr(options, "verify_output", None), getattr(options, "clear_retry_count", False)
    extra = {"verified_output": _hash_output(file) if file else None, "clear_retry_count": clears}
    try:
        confirm_and_force(context, options, verb.collection, options.id, verb.to_state, **extra)
    except Conflict as refusal:
        if verb.name != RESET or refusal.code != "terminal_state":
            raise
        retry_options = Namespace(
            collection=verb.collection, id=options.id, reason=options.reason, dry_run=options.dry_run
        )
        create_successor(retry_options, context)


def _check_unblocks(options: Namespace, context: Context) -> None:
    """Raises CommandError if the task is not blocked, or would be blocked again at once; sets the expected version."""
    task = context.client.get("tasks", options.id)
    if task.state != "blocked":
        raise CommandError(f"nothing was changed: task {task.id} is {task.state}, not blocked", Exit.CONFLICT)
    preview = context.client.override(
        "tasks", task.id, "queued", reason=options.reason, category=options.category, dry_run=True
    )
    if preview.entity is not None and preview.entity.state == "blocked":
        blockers = [str(each) for each in preview.entity.get("blocked_by") or ()]
        gate = blockers[0] if blockers else "ID"
        raise CommandError(
            f"nothing was changed: task {task.id} would be blocked again by the failed gate {', '.join(blockers)}; "
            f"run it again: statecore retry gates {gate}, or waive it: statecore waive-gate {gate}",
            Exit.CONFLICT,
        )
    if options.expected_version is None:
        options.expected_version = task.version


def override_any(options: Namespace, context: Context) -> None:
    confirm_and_force(context, options, options.collection, options.id, options.to_state)


def waive_gate(options: Namespace, context: Context) -> None:
    until = None if options.hours is None else datetime.now(UTC) + timedelta(hours=options.hours)

    def send(*, dry_run: bool, expected_version: int | None) -> Outcome:
        return context.client.waive_gate(
            options.id, reason=options.reason, category=options.category, expires_at=until, dry_run=dry_run,
            expected_version=expected_version,
        )  # fmt: skip

    _confirm_and_send(context, options, "gates", options.id, f"waive {options.id}?", send)


def confirm_and_force(
    context: Context,
    options: Namespace,
    collection: str,
    id_: str,
    to_state: str,
    **extra: Any,
) -> Outcome:
    """Overrides the version that `options` names, or the current one; at a terminal only after a confirmed preview.

    Raises CommandError if the operator declines or the override waits for the approval of another person, and Conflict
    if the entity changes in the meantime.
    """

    def send(*, dry_run: bool, expected_version: int | None) -> Outcome:
        return context.client.override(
            collection, id_, to_state, reason=options.reason, category=options.category, dry_run=dry_run,
            expected_version=expected_version, **extra,
        )  # fmt: skip

    return _confirm_and_send(context, options, collection, id_, f"force {id_} to {to_state}?", send)


def _confirm_and_send(
    context: Context, options: Namespace, collection: str, id_: str, question: str, send: Callable[..., Outcome]
) -> Outcome:
    version = options.expected_version
    if options.dry_run:
        shown = send(dry_run=True, expected_version=version)
        print_outcome(context, shown, "dry run: ")
        return shown
    if version is None:
        version = context.client.get(collection, id_).version
    if context.is_interactive and not options.yes:
        print_outcome(context, send(dry_run=True, expected_version=version), "dry run: ")
        if not context.confirm(question):
            raise CommandError("nothing was changed")
    done = send(dry_run=False, expected_version=version)
    if done.approval is not None:
        print_request(context, done.approval)
        raise CommandError(f"another person decides: statecore approve {done.approval.id}", Exit.WAITING)
    print_outcome(context, done)
    return done


def _hash_output(name: str) -> dict[str, Any]:
    """Returns the name, hash and size of a file, which the event records; raises CommandError if it is empty."""
    path = Path(name)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise CommandError(f"{name} cannot be read: {error.strerror}", Exit.UNSUCCESSFUL) from None
    if not content:
        raise CommandError(f"{name} is empty", Exit.UNSUCCESSFUL)
    return {"name": path.name, "sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
