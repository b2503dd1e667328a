"""`patch`, `quarantine` and `compensation`: hand in patches, analyse quarantined ones, and plan rollbacks."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from itertools import islice
from pathlib import Path
from typing import Any

from .. import Entity
from . import own_task
from .context import Context, format_age, format_line
from .errors import CommandError, Exit
from .verbs import parse_limit

QUARANTINED = "quarantined"


def add_commands(commands: Any) -> None:
    patch = commands.add_parser("patch", help="hand in a patch")
    patch.add_argument("file", help="a unified diff, - for standard input")
    patch.add_argument("--task", help=f"the task that waits for it ({own_task.TASK})")
    patch.add_argument("--attempt", type=int, metavar="N", help=f"its attempt, for agents ({own_task.ATTEMPT})")
    patch.add_argument("--workstream", help="the workstream, for a patch that belongs to no task")
    patch.add_argument(
        "--based-on", metavar="PATCH", help="the quarantined patch that this one replaces; it is dropped"
    )
    patch.add_argument("--title", default="", help="the subject of the commit")
    patch.set_defaults(run=hand_in)
    quarantine = commands.add_parser("quarantine", help="list quarantined patches, or show why one failed")
    quarantine.add_argument("id", nargs="?", help="one patch: its reason, failed test, diff and history")
    quarantine.add_argument("-n", "--limit", type=parse_limit, default=50, help="at most this many, 0 for all (50)")
    quarantine.set_defaults(run=show_quarantine)
    compensation = commands.add_parser("compensation", help="show, validate or store the plan of a rollback")
    compensation.add_argument("id", help="the committed patch")
    compensation.add_argument("--output", metavar="FILE", help="write the stored plan, or the default, into FILE")
    given = compensation.add_mutually_exclusive_group()
    given.add_argument("--validate", metavar="FILE", help="check the plan in FILE and change nothing")
    given.add_argument("--store", metavar="FILE", help="store the plan in FILE, which replaces the previous one")
    compensation.set_defaults(run=show_compensation)


def hand_in(options: Namespace, context: Context) -> None:
    if options.task or not (options.workstream or options.based_on):
        options.task, options.attempt = own_task.complete(options.task, options.attempt)
    if not (options.task or options.workstream or options.based_on):
        raise CommandError("name what the patch belongs to: --task, --workstream or --based-on", Exit.USAGE)
    diff = context.client.store_diff(_read(options.file), title=options.title)
    names = ("task", "attempt", "workstream", "based_on")
    fields = {name: value for name in names if (value := getattr(options, name)) is not None}
    entry = context.client.create("patches", patch=diff["id"], **fields)
    if context.as_json:
        context.print_json(entry)
    else:
        replaced = f"; {options.based_on} is dropped" if options.based_on else ""
        context.print_line(
            f"patch {entry.id} is {entry.state}, workstream {format_line(entry['workstream'])}{replaced}"
        )


def show_quarantine(options: Namespace, context: Context) -> None:
    if options.id:
        _analyse(context, context.client.get("patches", options.id))
        return
    found = islice(context.client.list("patches", state=QUARANTINED), options.limit or None)
    if context.as_json:
        for entry in found:
            context.print_json(entry)
        return
    rows = [
        (entry.id, format_age(entry.state_entered_at), entry["workstream"], entry["quarantine_reason"])
        for entry in found
    ]
    context.print_table(rows, ("id", "for", "workstream", "reason"))


def _analyse(context: Context, entry: Entity) -> None:
    """Prints why a patch is or was quarantined; raises CommandError for other patches."""
    if not entry.get("quarantined_at"):
        raise CommandError(f"patch {entry.id} is {entry.state} and was never quarantined", Exit.CONFLICT)
    diff = context.client.get("diffs", entry["patch"])
    events = list(context.client.list_history("patches", entry.id))
    if context.as_json:
        history = [event.fields for event in events]
        context.print_json({"patch": entry.fields, "diff": diff["diff"], "history": history})
        return
    failed = {f"failed {name}": value for name, value in (entry.get("quarantine_metadata") or {}).items()}
    context.print_fields({
        "patch": entry.id, "state": entry.state, "title": diff["title"], "workstream": entry["workstream"],
        "quarantined": entry["quarantined_at"], "reason": entry["quarantine_reason"], **failed, "diff": diff["diff"],
    })  # fmt: skip
    rows = [(event.timestamp, event.trigger, event.to_state, event.actor, event.reason) for event in events]
    context.print_table(rows, ("at", "trigger", "state", "by", "reason"))


def show_compensation(options: Namespace, context: Context) -> None:
    if options.validate:
        context.client.validate_compensation(options.id, _read_plan(options.validate))
        context.print_note(f"{options.validate} is a valid plan for {options.id}")
        return
    if options.store:
        found = context.client.store_compensation(options.id, _read_plan(options.store))
        context.print_note("the plan is stored; another operator may now approve it")
    else:
        found = context.client.get_compensation(options.id)
    plan = found["plan"] or found["default"]
    if options.output:
        Path(options.output).write_text(json.dumps(plan, indent=2) + "\n")
    if context.as_json:
        context.print_json(found)
    elif not options.output:
        context.print_line(json.dumps(plan, indent=2))


def _read_plan(name: str) -> Any:
    try:
        return json.loads(_read(name))
    except ValueError as error:
        raise CommandError(f"{name} is not JSON: {error}", Exit.INVALID) from None


def _read(name: str) -> str:
    try:
        return sys.stdin.read() if name == "-" else Path(name).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{name} cannot be read: {getattr(error, 'strerror', '') or error}", Exit.INVALID) from None
