"""`hold`, `holds`, `release`, `pause` and `resume`: keep new work from being claimed, and end that."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError, Namespace
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

from .. import Hold
from ..records import Json
from .context import Context, format_line
from .reading import parse_limit

STATUSES = ("active", "released", "expired", "all")
COLUMNS = ("id", "status", "scope", "placed by", "expires", "reason")
SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


def parse_duration(text: str) -> timedelta:
    """`45s`, `30m`, `2h` or `1d`."""
    found = re.fullmatch(r"([1-9][0-9]{0,6})([smhd])", text)
    if found is None:
        raise ArgumentTypeError("must be a duration such as 45s, 30m, 2h or 1d")
    return timedelta(seconds=int(found[1]) * SECONDS[found[2]])


def add_commands(commands: Any) -> None:
    hold = commands.add_parser("hold", help="keep tasks from being claimed; running tasks continue")
    hold.add_argument("scope", help="everything, phase:ID, run:ID, capability:NAME or tool:NAME")
    hold.add_argument("--reason", required=True, help="recorded in the journal")
    hold.add_argument("--for", dest="duration", type=parse_duration, metavar="DURATION",
                      help="when the hold expires: 45s, 30m, 2h, 1d (until it is released)")  # fmt: skip
    hold.set_defaults(run=place)
    listing = commands.add_parser("holds", help="list holds")
    listing.add_argument("--status", choices=STATUSES, default="active", help="which holds (active)")
    listing.add_argument("-n", "--limit", type=parse_limit, default=50, help="at most this many, 0 for all (50)")
    listing.set_defaults(run=list_holds)
    pause = commands.add_parser("pause", help="pause the workstreams of a run; running tasks continue")
    pause.add_argument("run_id", metavar="RUN", help="the run")
    pause.add_argument("--reason", required=True, help="recorded in the journal")
    pause.add_argument("--for", dest="duration", type=parse_duration, metavar="DURATION",
                       help="when they resume automatically: 45s, 30m, 2h, 1d")  # fmt: skip
    pause.set_defaults(run=pause_run)
    resume = commands.add_parser("resume", help="resume the paused workstreams of a run")
    resume.add_argument("run_id", metavar="RUN", help="the run")
    resume.add_argument("--reason", required=True, help="recorded in the journal")
    resume.set_defaults(run=resume_run)
    release = commands.add_parser("release", help="end a hold")
    release.add_argument("id", help="the hold, hold_…")
    release.add_argument("--reason", required=True, help="recorded in the journal")
    release.set_defaults(run=end)


def place(options: Namespace, context: Context) -> None:
    expires_at = datetime.now(UTC) + options.duration if options.duration else None
    _print(context, context.client.place_hold(options.scope, reason=options.reason, expires_at=expires_at))


def list_holds(options: Namespace, context: Context) -> None:
    filters = {} if options.status == "all" else {"status": options.status}
    found = islice(context.client.list_holds(**filters), options.limit or None)
    if context.as_json:
        for each in found:
            context.print_json(each.fields)
        return
    if rows := [_row(each) for each in found]:
        context.print_table(rows, COLUMNS)
    else:
        context.print_line("no holds" if options.status == "all" else f"no {options.status} holds")


def _row(each: Hold) -> tuple[Any, ...]:
    return each.id, each.status, each.scope, each.created_by, each.expires_at or "when released", each.reason


def end(options: Namespace, context: Context) -> None:
    _print(context, context.client.release_hold(options.id, reason=options.reason))


def _print(context: Context, hold: Hold) -> None:
    if context.as_json:
        context.print_json(hold.fields)
        return
    until = f", until {hold.expires_at:%Y-%m-%d %H:%M:%S} UTC" if hold.expires_at and hold.status == "active" else ""
    context.print_line(format_line(f"{hold.id} {hold.status}: {hold.scope}{until}"))


def pause_run(options: Namespace, context: Context) -> None:
    until = datetime.now(UTC) + options.duration if options.duration else None
    _print_workstreams(context, context.client.pause_run(options.run_id, reason=options.reason, until=until))


def resume_run(options: Namespace, context: Context) -> None:
    _print_workstreams(context, context.client.resume_run(options.run_id, reason=options.reason))


def _print_workstreams(context: Context, response: Json) -> None:
    if context.as_json:
        context.print_json(response)
        return
    for each in response["workstreams"]:
        event, refusal = each["event"], each["refusal"]
        outcome = f"{event['from_state']} → {event['to_state']}" if event else refusal["detail"]
        context.print_line(format_line(f"workstream {each['id']}: {outcome}"))
