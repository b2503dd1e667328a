"""fire, retry and submit: what needs no force."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

from api.client import Outcome

from .desk import Desk, plain
from .exits import Exit, Stop
from .reading import pair


def add(commands: Any) -> None:
    fire = commands.add_parser("fire", help="make a move")
    fire.add_argument("collection", help="tasks, runs, workers, …")
    fire.add_argument("id", help="which of them")
    fire.add_argument("trigger", help="which move; `explain` lists those that are open")
    fire.add_argument("field", nargs="*", type=pair, metavar="FIELD=VALUE", help="the trigger's own; JSON or text")
    fire.add_argument("--reason", help="goes on record")
    fire.add_argument("--expected-version", type=int, metavar="N", help="refuse if it has changed since")
    fire.add_argument("--dry-run", action="store_true", help="show what would follow, and change nothing")
    fire.set_defaults(run=make_move)
    retry = commands.add_parser("retry", help="a successor for something final")
    retry.add_argument("collection", help="tasks, runs, workers, …")
    retry.add_argument("id", help="what has ended")
    retry.add_argument("--reason", help="goes on record")
    retry.add_argument("--dry-run", action="store_true", help="show what would follow, and change nothing")
    retry.set_defaults(run=try_again)
    drain = commands.add_parser("drain", help="let a worker finish what it holds, and leave")
    drain.add_argument("id", help="the worker")
    drain.set_defaults(run=drain_worker)
    submit = commands.add_parser("submit", help="a whole plan from a JSON file")
    submit.add_argument("plan", help="the file, or - for standard input")
    submit.add_argument("--start", action="store_true", help="start it at once, whatever the plan says")
    submit.add_argument("--request-id", help="a second plan with the same is the same plan")
    submit.set_defaults(run=submit_plan)


def value_of(text: str) -> Any:
    """JSON where it is JSON that can be sent, and text where it is not: `exit_code=0`, `error=out of memory`."""
    try:
        return from_json(text)
    except (ValueError, RecursionError):
        return text


def from_json(text: str) -> Any:
    """Without what Python reads and JSON has no word for: NaN, 1e999."""
    value = json.loads(text)
    json.dumps(value, allow_nan=False)
    return value


def make_move(options: Namespace, desk: Desk) -> None:
    fields = {name: value_of(value) for name, value in options.field}
    if clash := fields.keys() & {"reason", "metadata", "expected_version", "request_id", "trigger", "dry_run"}:
        raise Stop(f"{', '.join(sorted(clash))} is not a field of a trigger", Exit.USAGE)
    outcome = desk.client.fire(
        options.collection, options.id, options.trigger, reason=options.reason,
        expected_version=options.expected_version, dry_run=options.dry_run, **fields,
    )  # fmt: skip
    tell(desk, outcome, "would: " if options.dry_run else "")


def tell(desk: Desk, outcome: Outcome, verb: str = "") -> None:
    """What a move changed, and what followed from it."""
    if desk.as_json:
        desk.put(outcome.fields)
        return
    if outcome.event is None:
        desk.line("nothing had to be changed")
        return
    for event in (outcome.event, *outcome.caused):
        mark = "" if event is outcome.event else "  → "
        before = plain(event.from_state)
        desk.line(f"{mark}{verb}{event.entity_type} {event.entity_id}: {before} → {event.to_state} ({event.trigger})")


def try_again(options: Namespace, desk: Desk) -> None:
    successor = desk.client.retry(options.collection, options.id, reason=options.reason, dry_run=options.dry_run)
    if desk.as_json:
        desk.put(successor.fields)
    elif options.dry_run:
        desk.line(f"would: a successor is {successor.state}, in place of {options.id}")
    else:
        desk.line(f"{successor.id} is {successor.state}, in place of {options.id}")


def drain_worker(options: Namespace, desk: Desk) -> None:
    worker = desk.client.drain(options.id)
    if desk.as_json:
        desk.put(worker.fields)
    else:
        desk.line(f"worker {worker.id} is {worker.state} and gets no new task")


def submit_plan(options: Namespace, desk: Desk) -> None:
    plan = read_plan(options.plan)
    if options.start:
        plan["start"] = True
    parts = [each.get("tasks") for each in plan.get("workstreams", ()) if isinstance(each, dict)]
    tasks = sum(len(each) for each in parts if isinstance(each, list))
    desk.progress(f"submitting {tasks} tasks …")
    try:
        submitted = desk.client.submit(plan, request_id=options.request_id)
    finally:
        desk.end_progress()
    if desk.as_json:
        desk.put(submitted.fields)
    else:
        desk.line(f"run {submitted.run}: {tasks} {'task' if tasks == 1 else 'tasks'}")


def read_plan(place: str) -> dict[str, Any]:
    try:
        text = sys.stdin.read() if place == "-" else Path(place).read_text(encoding="utf-8")
        plan = from_json(text)
    except OSError as error:
        raise Stop(f"{place} cannot be read: {error.strerror}", Exit.INVALID) from None
    except (ValueError, RecursionError) as error:
        raise Stop(f"{place} is not JSON: {error}", Exit.INVALID) from None
    if not isinstance(plan, dict) or not isinstance(plan.get("workstreams", []), list):
        raise Stop(f"{place} is not a plan: an object with workstreams is expected", Exit.INVALID)
    return plan
