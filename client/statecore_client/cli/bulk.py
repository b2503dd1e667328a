"""`bulk`: one trigger for many entities, each accepted or refused separately."""

from __future__ import annotations

import time
from argparse import Namespace
from typing import Any

from ..records import Json
from .context import Context
from .errors import CommandError, Exit
from .reading import parse_pair

POLL_SECONDS = 0.5


def add_commands(commands: Any) -> None:
    bulk = commands.add_parser("bulk", help="fire a trigger for many entities")
    bulk.add_argument("collection", help="tasks, runs, workers, …")
    bulk.add_argument("trigger", help="the trigger")
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
    bulk.add_argument("--reason", help="recorded in the journal")
    bulk.add_argument("--dry-run", action="store_true", help="show the result for each entity, and change nothing")
    bulk.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    bulk.set_defaults(run=fire_for_many)


def fire_for_many(options: Namespace, context: Context) -> Exit:
    """Fires the trigger for the chosen entities; returns UNSUCCESSFUL if any of them was refused."""
    if bool(options.id) == bool(options.filter):
        raise CommandError("give either ids or --filter FIELD=VALUE", Exit.USAGE)
    if context.is_interactive and not options.yes and not options.dry_run:
        _print_results(context, _request_bulk(options, context, dry_run=True), "would be")
        if not context.confirm(f"{options.trigger} for all of these?"):
            raise CommandError("nothing was changed")
    response = _request_bulk(options, context, dry_run=options.dry_run)
    if "job" in response:
        response = _wait_for_job(response["job"], context)
    return _print_results(context, response, "would be" if options.dry_run else "were")


def _request_bulk(options: Namespace, context: Context, *, dry_run: bool) -> Json:
    chosen: dict[str, list[str]] = {}
    for name, value in options.filter:
        chosen.setdefault(name, []).append(value)
    return context.client.fire_for_many(
        options.collection, options.trigger, ids=options.id or None, matching=chosen or None,
        reason=options.reason, dry_run=dry_run,
    )  # fmt: skip


def _wait_for_job(job: Json, context: Context) -> Json:
    """Waits for a bulk job, which continues on the server even if this command is interrupted."""
    try:
        while not job["finished"]:
            context.show_progress(f"{job['done']} of {job['total']} …")
            time.sleep(POLL_SECONDS)
            job = context.client.get_bulk_job(job["id"])
    finally:
        context.clear_progress()
    results = list(context.client.list_bulk_results(job["id"]))
    return {"total": job["total"], "refused": job["refused"], "results": results, "job": job["id"]}


def _print_results(context: Context, response: Json, verb: str) -> Exit:
    if context.as_json:
        context.print_json(response)
    else:
        refused = [each for each in response["results"] if each["refusal"]]
        if refused:
            context.print_table([(each["id"], each["refusal"]["detail"]) for each in refused], ("refused", "why"))
        context.print_line(f"{response['total'] - response['refused']} of {response['total']} {verb} changed")
    return Exit.UNSUCCESSFUL if response["refused"] else Exit.DONE
