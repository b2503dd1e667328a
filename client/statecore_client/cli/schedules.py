"""`statecore template` and `statecore schedule`: stored plans, and when they run."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path
from typing import Any

from .. import Schedule
from .context import Context, format_line
from .errors import CommandError
from .verbs import Columns, Verb, add_group, add_verbs, line_of

TEMPLATES: Columns = {
    "id": "id", "version": "version", "parameters": lambda each: ", ".join(each.parameters), "stored by": "created_by",
    "description": "description",
}  # fmt: skip
SCHEDULES: Columns = {
    "id": "id", "template": "template", "cron": "cron", "timezone": "timezone",
    "next": lambda each: "paused" if each.paused else each.next[0] if each.next else "ended",
    "last": lambda each: each.last.outcome if each.last else "",
}  # fmt: skip
OCCURRENCES: Columns = {
    "at": "at", "outcome": "outcome", "run": lambda each: each.run or "", "detail": lambda each: each.detail or "",
}  # fmt: skip


def add_commands(commands: Any) -> None:
    template = add_group(commands, "template", "store and show plan templates")
    add_verbs(
        template,
        Verb("list", "list_templates", "list templates", columns=TEMPLATES, noun="templates"),
        Verb("show", "get_template", "show a template as JSON", Context.print_json),
    )
    store = template.add_parser("store", help="store a template, or its next version")
    store.add_argument("id", help="the template")
    store.add_argument("file", type=Path, help='a file with {"plan": …, "parameters": …, "description": …}')
    store.add_argument("--next", dest="is_next", action="store_true", help="store the next version")
    store.set_defaults(run=store_template)

    show = line_of(describe_schedule)
    add_verbs(
        add_group(commands, "schedule", "run plan templates at certain times"),
        Verb("list", "list_schedules", "list schedules", columns=SCHEDULES, noun="schedules"),
        Verb("create", "create_schedule", "create a schedule", show),
        Verb("change", "edit_schedule", "change a schedule", show),
        Verb("show", "get_schedule", "show a schedule and its next times"),
        Verb("run", "run_schedule", "let a schedule occur now",
             line_of(lambda made: f"the schedule occurs at {made.at:%Y-%m-%d %H:%M:%S} UTC")),
        Verb("occurrences", "list_occurrences", "list what a schedule has done, newest first", columns=OCCURRENCES,
             noun="occurrences"),
        Verb("pause", "pause_schedule", "pause a schedule", show),
        Verb("resume", "resume_schedule", "resume a schedule with the next time after now", show),
    )  # fmt: skip


def store_template(options: Namespace, context: Context) -> None:
    try:
        given = json.loads(options.file.read_text())
        plan, parameters, text = given["plan"], given.get("parameters", {}), given.get("description", "")
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise CommandError(f"{options.file} has no JSON object with a plan: {error}") from error
    made = context.client.store_template(
        options.id, plan, parameters=parameters, description=text, is_new=not options.is_next
    )
    if context.as_json:
        context.print_json(made)
    else:
        context.print_line(format_line(f"template {made.id} version {made.version}"))


def describe_schedule(schedule: Schedule) -> str:
    following = f"next {schedule.next[0]:%Y-%m-%d %H:%M:%S} UTC" if schedule.next else "no next occurrence"
    return f"schedule {schedule.id}: {f'paused: {schedule.pause_reason}' if schedule.paused else following}"
