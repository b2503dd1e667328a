"""bulk: one trigger for many, each moved or refused by itself."""

from __future__ import annotations

import time
from argparse import Namespace
from typing import Any

from api.client.records import Json

from .desk import Desk
from .exits import Exit, Stop
from .reading import pair

EVERY = 0.5  # seconds between two looks at a job


def add(commands: Any) -> None:
    bulk = commands.add_parser("bulk", help="make a move for many")
    bulk.add_argument("collection", help="tasks, runs, workers, …")
    bulk.add_argument("trigger", help="which move")
    bulk.add_argument("id", nargs="*", help="for these; or give a filter")
    bulk.add_argument(
        "-f", "--filter", type=pair, action="append", default=[], metavar="FIELD=VALUE", help="as for `get`"
    )
    bulk.add_argument("--reason", help="goes on record")
    bulk.add_argument("--dry-run", action="store_true", help="show what would become of each, and change nothing")
    bulk.add_argument("--yes", action="store_true", help="do not ask")
    bulk.set_defaults(run=move_many)


def move_many(options: Namespace, desk: Desk) -> Exit:
    """Where some were refused the exit code says that it went otherwise than hoped."""
    if bool(options.id) == bool(options.filter):
        raise Stop("give either ids or --filter FIELD=VALUE", Exit.USAGE)
    if desk.somebody_is_there and not options.yes and not options.dry_run:
        _tell(desk, _asked(options, desk, dry_run=True), "would be")
        if not desk.confirmed(f"{options.trigger} for all of these?"):
            raise Stop("nothing was changed")
    told = _asked(options, desk, dry_run=options.dry_run)
    if "job" in told:
        told = _worked_off(told["job"], desk)
    return _tell(desk, told, "would be" if options.dry_run else "are")


def _asked(options: Namespace, desk: Desk, *, dry_run: bool) -> Json:
    chosen: dict[str, list[str]] = {}
    for name, value in options.filter:
        chosen.setdefault(name, []).append(value)
    return desk.client.bulk(
        options.collection, options.trigger, ids=options.id or None, matching=chosen or None,
        reason=options.reason, dry_run=dry_run,
    )  # fmt: skip


def _worked_off(job: Json, desk: Desk) -> Json:
    """A job goes on by itself, also when nobody waits for it."""
    try:
        while not job["finished"]:
            desk.progress(f"{job['done']} of {job['total']} …")
            time.sleep(EVERY)
            job = desk.client.bulk_job(job["id"])
    finally:
        desk.end_progress()
    results = list(desk.client.bulk_results(job["id"]))
    return {"total": job["total"], "refused": job["refused"], "results": results, "job": job["id"]}


def _tell(desk: Desk, told: Json, verb: str) -> Exit:
    if desk.as_json:
        desk.put(told)
    else:
        refused = [each for each in told["results"] if each["refusal"]]
        if refused:
            desk.table([(each["id"], each["refusal"]["detail"]) for each in refused], ("refused", "why"))
        desk.line(f"{told['total'] - told['refused']} of {told['total']} {verb} moved")
    return Exit.NOT_AS_HOPED if told["refused"] else Exit.DONE
