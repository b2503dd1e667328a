"""`fire`, `retry`, `heartbeat`, `drain` and `submit`: changes that need no override."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

from .. import LeaseReply, Outcome, WorkerEntity
from .context import Context, format_line
from .errors import CommandError, Exit
from .verbs import Verb, add_verbs, line_of, parse_pair


def add_commands(commands: Any) -> None:
    fire = commands.add_parser("fire", help="fire a trigger")
    fire.add_argument("collection", help="tasks, runs, workers, …")
    fire.add_argument("id", help="the entity")
    fire.add_argument("trigger", help="the trigger; `explain` lists the open ones")
    fire.add_argument(
        "field",
        nargs="*",
        type=parse_pair,
        metavar="FIELD=VALUE",
        help="a field of the trigger; the value is JSON or text",
    )
    fire.add_argument("--reason", help="recorded in the journal")
    fire.add_argument("--expected-version", type=int, metavar="N", help="refuse if the entity has another version")
    fire.add_argument("--dry-run", action="store_true", help="show what would change, and change nothing")
    fire.set_defaults(run=fire_trigger)
    retry = commands.add_parser("retry", help="create a successor of a final entity")
    retry.add_argument("collection", help="tasks, runs, workers, …")
    retry.add_argument("id", help="the final entity")
    retry.add_argument("--reason", help="recorded in the journal")
    retry.add_argument("--dry-run", action="store_true", help="show what would change, and change nothing")
    retry.set_defaults(run=create_successor)
    renewing = "renew the lease of what you hold, and report progress"
    add_verbs(commands, Verb("heartbeat", "renew", renewing, line_of(describe_lease)))
    add_verbs(
        commands, Verb("drain", "drain_worker", "let a worker finish its tasks and shut down", line_of(describe_drain))
    )
    submit = commands.add_parser("submit", help="submit a plan from a JSON file")
    submit.add_argument("plan", help="the file, or - for standard input")
    submit.add_argument("--start", action="store_true", help="start the run, whatever the plan has as `start`")
    submit.add_argument(
        "--request-id", help="idempotency key; repeating the command with the same key creates no second run"
    )
    submit.set_defaults(run=submit_plan)


def parse_value(text: str) -> Any:
    """Returns JSON if the text is valid JSON, and the text otherwise: `exit_code=0`, `error=out of memory`."""
    try:
        return parse_json(text)
    except (ValueError, RecursionError):
        return text


def parse_json(text: str) -> Any:
    """Parses JSON and refuses NaN and infinity, which Python accepts."""
    value = json.loads(text)
    json.dumps(value, allow_nan=False)
    return value


def fire_trigger(options: Namespace, context: Context) -> None:
    fields = {name: parse_value(value) for name, value in options.field}
    if clash := fields.keys() & {"reason", "metadata", "expected_version", "request_id", "trigger", "dry_run"}:
        raise CommandError(f"{', '.join(sorted(clash))} is not a field of a trigger", Exit.USAGE)
    outcome = context.client.fire(
        options.collection, options.id, options.trigger, reason=options.reason,
        expected_version=options.expected_version, dry_run=options.dry_run, **fields,
    )  # fmt: skip
    print_outcome(context, outcome, "dry run: " if options.dry_run else "")


def print_outcome(context: Context, outcome: Outcome, prefix: str = "") -> None:
    """Prints the transition and, indented, the transitions that it caused."""
    if context.as_json:
        context.print_json(outcome)
        return
    if outcome.event is None:
        context.print_line("no change was necessary")
        return
    for event in (outcome.event, *outcome.caused):
        mark = "" if event is outcome.event else "  → "
        before = format_line(event.from_state)
        context.print_line(
            f"{mark}{prefix}{event.entity_type} {event.entity_id}: {before} → {event.to_state} ({event.trigger})"
        )
    if (more := outcome.caused_count - len(outcome.caused)) > 0:
        context.print_line(f"  → and {more} more")


def create_successor(options: Namespace, context: Context) -> None:
    successor = context.client.retry(options.collection, options.id, reason=options.reason, dry_run=options.dry_run)
    if context.as_json:
        context.print_json(successor)
    elif options.dry_run:
        context.print_line(f"dry run: the successor of {options.id} would be {successor.state}")
    else:
        context.print_line(f"{successor.id}, the successor of {options.id}, is {successor.state}")


def describe_lease(reply: LeaseReply) -> str:
    ends = reply.lease_expires_at
    return f"it is {reply.state}" + (f", yours until {ends:%Y-%m-%d %H:%M:%S} UTC" if ends else "")


def describe_drain(worker: WorkerEntity) -> str:
    return f"worker {worker.id} is {worker.state} and gets no new task"


def submit_plan(options: Namespace, context: Context) -> None:
    plan = read_plan(options.plan)
    if options.start:
        plan["start"] = True
    parts = [each.get("tasks") for each in plan.get("workstreams", ()) if isinstance(each, dict)]
    tasks = sum(len(each) for each in parts if isinstance(each, list))
    context.show_progress(f"submitting {tasks} tasks …")
    try:
        submitted = context.client.submit_plan(plan, request_id=options.request_id)
    finally:
        context.clear_progress()
    if context.as_json:
        context.print_json(submitted)
    else:
        context.print_line(f"run {submitted.run}: {tasks} {'task' if tasks == 1 else 'tasks'}")


def read_plan(path: str) -> dict[str, Any]:
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
        plan = parse_json(text)
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {error.strerror}", Exit.INVALID) from None
    except (ValueError, RecursionError) as error:
        raise CommandError(f"{path} is not JSON: {error}", Exit.INVALID) from None
    if not isinstance(plan, dict) or not isinstance(plan.get("workstreams", []), list):
        raise CommandError(f"{path} is not a plan: an object with workstreams is expected", Exit.INVALID)
    return plan
