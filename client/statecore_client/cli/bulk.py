"""`bulk`: one action for many entities, each accepted or refused separately; `stop-bulk` ends one that is running."""

from __future__ import annotations

import time
from argparse import Namespace
from datetime import UTC, datetime, timedelta
from typing import Any

from ..models import BulkJob
from ..records import Json
from .context import Context
from .errors import CommandError, Exit
from .verbs import Verb, add_verbs, line_of, parse_pair

POLL_SECONDS = 0.5
ACTIONS = ("cancel", "retry", "override", "waive", "pause", "resume", "drain", "acknowledge", "assign")
TRANSITION = "transition"


def add_commands(commands: Any) -> None:
    bulk = commands.add_parser("bulk", help="apply an action to many entities")
    bulk.add_argument("collection", help="tasks, runs, workers, …")
    bulk.add_argument("action", help=f"{', '.join(ACTIONS)}, or a trigger")
    bulk.add_argument("id", nargs="*", help="the entities; or give a filter")
    bulk.add_argument(
        "-f",
        "--filter",
        type=parse_pair,
        action="append",
        default=[],
        metavar="FIELD=VALUE",
        help="the entities that match; repeatable",
    )
    bulk.add_argument("--trigger", help="with the action `transition`: a trigger that is named like an action")
    bulk.add_argument("--to-state", metavar="STATE", help="with `override`: the target state")
    bulk.add_argument("--category", help="with `override` and `waive`: stuck, crashed_worker, infrastructure, …")
    bulk.add_argument("--hours", type=float, metavar="H", help="with `waive`: the waivers end after H hours (never)")
    bulk.add_argument("--owner", help="with `assign`: the account that takes care of the incidents")
    bulk.add_argument("--reason", help="recorded in the journal")
    bulk.add_argument("--dry-run", action="store_true", help="show what would change, and change nothing")
    bulk.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    bulk.set_defaults(run=apply_to_many)

    stopping = "stop a bulk action; what it has done stays"
    add_verbs(commands, Verb("stop-bulk", "stop_bulk_job", stopping, line_of(describe_stop)))


def apply_to_many(options: Namespace, context: Context) -> Exit:
    """Applies the action to the chosen entities; returns UNSUCCESSFUL if any of them was refused."""
    if bool(options.id) == bool(options.filter):
        raise CommandError("give either ids or --filter FIELD=VALUE", Exit.USAGE)
    if context.is_interactive and not options.yes and not options.dry_run:
        _print_results(context, _request_bulk(options, context, dry_run=True), "would be")
        if not context.confirm(f"{options.action} for all of these?"):
            raise CommandError("nothing was changed")
    response = _request_bulk(options, context, dry_run=options.dry_run)
    if "job" in response:
        response = _wait_for_job(response["job"], context)
    return _print_results(context, response, "would be" if options.dry_run else "were")


def describe_stop(job: BulkJob) -> str:
    return f"{job.id} ended after {job.done} of {job.total}"


def _request_bulk(options: Namespace, context: Context, *, dry_run: bool) -> Json:
    chosen: dict[str, list[str]] = {}
    for name, value in options.filter:
        chosen.setdefault(name, []).append(value)
    action = options.action if options.action in (*ACTIONS, TRANSITION) else TRANSITION
    trigger = options.trigger if options.action in (*ACTIONS, TRANSITION) else options.action
    ends = None if options.hours is None else (datetime.now(UTC) + timedelta(hours=options.hours)).isoformat()
    fields = {
        "trigger": trigger, "to_state": options.to_state, "category": options.category, "reason": options.reason,
        "expires_at": ends, "owner": options.owner,
    }  # fmt: skip
    given = {name: value for name, value in fields.items() if value is not None}
    return context.client.apply_to_many(
        options.collection, action, ids=options.id or None, matching=chosen or None, dry_run=dry_run, **given
    )


def _wait_for_job(job: Any, context: Context) -> Json:
    """Waits for a bulk job, which continues on the server even if this command is interrupted."""
    context.print_note(
        f"{job['id']}: {job['total']} {job['entity_type']} rows; `statecore stop-bulk {job['id']}` ends it"
    )
    try:
        while not job["finished"]:
            context.show_progress(f"{job['done']} of {job['total']} …")
            time.sleep(POLL_SECONDS)
            job = context.client.get_bulk_job(job["id"])
    finally:
        context.clear_progress()
    results = [each.fields for each in context.client.list_bulk_results(job["id"])]
    counts = {name: job[name] for name in ("total", "refused", "approvals", "caused", "stopped_by")}
    return {**counts, "results": results, "job": job["id"]}


def _print_results(context: Context, response: Json, verb: str) -> Exit:
    if context.as_json:
        context.print_json(response)
    else:
        _print_table(context, response, verb)
    return Exit.UNSUCCESSFUL if response["refused"] or response.get("stopped_by") else Exit.DONE


def _print_table(context: Context, response: Json, verb: str) -> None:
    results, waiting = response["results"], response["approvals"]
    if refused := [each for each in results if each["refusal"]]:
        context.print_table([(each["id"], each["refusal"]["detail"]) for each in refused], ("refused", "why"))
    for each in response["caused"]:
        context.print_line(f"downstream: {each['count']} {each['entity_type']} → {each['to_state']}")
    if "applicable" in response:
        context.print_line(f"{response['applicable']} apply; the first {len(results)} were tried")
    if waiting:
        context.print_line(f"{waiting} {'would wait' if verb == 'would be' else 'wait'} for a second person's approval")
    done = len(results) - response["refused"] - waiting
    stopped = f"; stopped by {response['stopped_by']}" if response.get("stopped_by") else ""
    context.print_line(f"{done} of {response['total']} {verb} changed{stopped}")
