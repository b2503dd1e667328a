"""`statecore template` and `statecore schedule`: stored plans, and when they run."""

from __future__ import annotations

import json
from argparse import ArgumentTypeError, Namespace
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

from .. import Occurrence, Schedule, Template
from ..records import Record
from .context import Context, format_line
from .errors import CommandError
from .reading import parse_limit

TEMPLATE_COLUMNS = ("id", "version", "parameters", "stored by", "description")
SCHEDULE_COLUMNS = ("id", "template", "cron", "timezone", "next", "last")
OCCURRENCE_COLUMNS = ("at", "outcome", "run", "detail")
OPTIONS = {
    "timezone": "UTC or a name such as Europe/Berlin",
    "catch-up": "after an outage: all, latest or none",
    "overlap": "while an earlier run has not ended: skip or allow",
    "not-after": "no occurrence later than this time, RFC 3339",
}


def parse_parameter(text: str) -> tuple[str, Any]:
    """`NAME=VALUE`; a value that is JSON is read as such."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise ArgumentTypeError("must be NAME=VALUE")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def add_commands(commands: Any) -> None:
    _add_template_commands(commands.add_parser("template", help="store and show plan templates"))
    schedule = commands.add_parser("schedule", help="run plan templates at certain times")
    actions = schedule.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = actions.add_parser("list", help="list schedules")
    listing.add_argument("-n", "--limit", type=parse_limit, default=50, help="at most this many, 0 for all (50)")
    listing.set_defaults(run=list_schedules)
    create = actions.add_parser("create", help="create a schedule")
    create.add_argument("template", help="the template")
    create.add_argument("cron", help="minute, hour, day, month and weekday: '0 2 * * *'")
    create.add_argument("--id", help="its id (chosen by the server)")
    create.set_defaults(run=create_schedule)
    change = actions.add_parser("change", help="change a schedule")
    change.add_argument("id", help="the schedule")
    change.add_argument("--cron", help="minute, hour, day, month and weekday")
    change.set_defaults(run=change_schedule)
    for parser in (create, change):
        for name, text in OPTIONS.items():
            parser.add_argument(f"--{name}", help=text)
        parser.add_argument("--parameter", "-p", dest="parameters", type=parse_parameter, action="append",
                            metavar="NAME=VALUE", help="a parameter of the template; can be repeated")  # fmt: skip
        parser.add_argument("--template-version", type=int, help="the version of the template (the newest)")
    for name, run, text in (
        ("show", show_schedule, "show a schedule and its next times"),
        ("run", run_schedule, "let a schedule occur now"),
        ("occurrences", list_occurrences, "list what a schedule has done, newest first"),
        ("pause", pause_schedule, "pause a schedule"),
        ("resume", resume_schedule, "resume a schedule with the next time after now"),
    ):
        parser = actions.add_parser(name, help=text)
        parser.add_argument("id", help="the schedule")
        parser.set_defaults(run=run)
        if name in ("pause", "resume"):
            parser.add_argument("--reason", required=True, help="recorded in the journal")
        if name == "occurrences":
            parser.add_argument("-n", "--limit", type=parse_limit, default=50, help="at most this many, 0 for all (50)")


def _add_template_commands(template: Any) -> None:
    actions = template.add_subparsers(dest="action", required=True, metavar="ACTION")
    actions.add_parser("list", help="list templates").set_defaults(run=list_templates)
    show = actions.add_parser("show", help="show a template as JSON")
    show.add_argument("id", help="the template")
    show.add_argument("--template-version", type=int, help="the version (the newest)")
    show.set_defaults(run=show_template)
    store = actions.add_parser("store", help="store a template, or its next version")
    store.add_argument("id", help="the template")
    store.add_argument("file", type=Path, help='a file with {"plan": …, "parameters": …, "description": …}')
    store.add_argument("--next", dest="is_next", action="store_true", help="store the next version")
    store.set_defaults(run=store_template)


# Templates


def list_templates(options: Namespace, context: Context) -> None:
    found = context.client.list_templates()
    rows = ((each.id, each.version, ", ".join(each.parameters), each.created_by, each.description) for each in found)
    _print_list(context, context.client.list_templates() if context.as_json else rows, TEMPLATE_COLUMNS, "templates")


def show_template(options: Namespace, context: Context) -> None:
    context.print_line(json.dumps(context.client.get_template(options.id, version=options.template_version).fields))


def store_template(options: Namespace, context: Context) -> None:
    try:
        given = json.loads(options.file.read_text())
        plan, parameters, text = given["plan"], given.get("parameters", {}), given.get("description", "")
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise CommandError(f"{options.file} has no JSON object with a plan: {error}") from error
    made = context.client.store_template(
        options.id, plan, parameters=parameters, description=text, is_new=not options.is_next
    )
    _print_one(context, made, f"template {made.id} version {made.version}")


# Schedules


def list_schedules(options: Namespace, context: Context) -> None:
    found = islice(context.client.list_schedules(), options.limit or None)
    _print_list(context, found if context.as_json else map(_row, found), SCHEDULE_COLUMNS, "schedules")


def _row(each: Schedule) -> tuple[Any, ...]:
    following = "paused" if each.paused else each.next[0] if each.next else "ended"
    return each.id, each.template, each.cron, each.timezone, following, each.last.outcome if each.last else ""


def create_schedule(options: Namespace, context: Context) -> None:
    fields = _read_fields(options) | ({"id": options.id} if options.id else {})
    _print_schedule(context, context.client.create_schedule(options.template, options.cron, **fields))


def change_schedule(options: Namespace, context: Context) -> None:
    fields = _read_fields(options) | ({"cron": options.cron} if options.cron else {})
    _print_schedule(context, context.client.edit_schedule(options.id, **fields))


def _read_fields(options: Namespace) -> dict[str, Any]:
    names = (*(name.replace("-", "_") for name in OPTIONS), "template_version")
    fields = {name: value for name in names if (value := getattr(options, name)) is not None}
    return fields | ({"parameters": dict(options.parameters)} if options.parameters else {})


def show_schedule(options: Namespace, context: Context) -> None:
    found = context.client.get_schedule(options.id)
    context.print_fields(found.fields)


def pause_schedule(options: Namespace, context: Context) -> None:
    _print_schedule(context, context.client.pause_schedule(options.id, reason=options.reason))


def resume_schedule(options: Namespace, context: Context) -> None:
    _print_schedule(context, context.client.resume_schedule(options.id, reason=options.reason))


def run_schedule(options: Namespace, context: Context) -> None:
    made = context.client.run_schedule(options.id)
    _print_one(context, made, f"schedule {options.id} occurs at {made.at:%Y-%m-%d %H:%M:%S} UTC")


def list_occurrences(options: Namespace, context: Context) -> None:
    found = islice(context.client.list_occurrences(options.id), options.limit or None)
    rows = found if context.as_json else map(_occurrence_row, found)
    _print_list(context, rows, OCCURRENCE_COLUMNS, "occurrences")


def _occurrence_row(each: Occurrence) -> tuple[Any, ...]:
    return each.at, each.outcome, each.run or "", each.detail or ""


# Output


def _print_list(context: Context, found: Iterable[Any], columns: tuple[str, ...], noun: str) -> None:
    if context.as_json:
        for each in found:
            context.print_json(each.fields)
    elif rows := list(found):
        context.print_table(rows, columns)
    else:
        context.print_line(f"no {noun}")


def _print_schedule(context: Context, schedule: Schedule) -> None:
    following = f"next {schedule.next[0]:%Y-%m-%d %H:%M:%S} UTC" if schedule.next else "no next occurrence"
    state = f"paused: {schedule.pause_reason}" if schedule.paused else following
    _print_one(context, schedule, f"schedule {schedule.id}: {state}")


def _print_one(context: Context, record: Schedule | Template | Occurrence | Record, line: str) -> None:
    if context.as_json:
        context.print_json(record.fields)
    else:
        context.print_line(format_line(line))
