"""`incidents`, `incident`, `acknowledge`, `assign`, `snooze`, `note`, `silence`: take care of incidents and alerts."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from .. import Incident
from .context import Context, format_line
from .holds import parse_duration
from .reading import format_action, parse_limit

COLUMNS = ("id", "severity", "cause", "affected", "runs", "since", "owner")
SEVERITIES = ("critical", "error", "warning")
SHOWN_ENTITIES = 10


def add_commands(commands: Any) -> None:
    listing = commands.add_parser("incidents", help="list root causes with what hangs on them, the most severe first")
    listing.add_argument("--all", action="store_true", help="also resolved and snoozed ones, the newest first")
    listing.add_argument("--snoozed", action="store_true", help="those that are snoozed")
    listing.add_argument("--owner", help="those of this owner")
    listing.add_argument("-n", "--limit", type=parse_limit, default=50, help="at most this many, 0 for all (50)")
    listing.set_defaults(run=list_incidents)
    _add(commands, "incident", show, "show an incident with its suggested actions, entities and history")
    _add_note(_add(commands, "acknowledge", acknowledge, "record that you are working on an incident"))
    assigning = _add(commands, "assign", assign, "set the owner of an incident, or remove it")
    assigning.add_argument("owner", nargs="?", default="", help="an account of the server; without one, none")
    _add_note(assigning)
    snoozing = _add(commands, "snooze", snooze, "keep an incident from being listed and escalated for a while")
    _add_end(snoozing)
    _add_note(snoozing)
    noting = _add(commands, "note", note, "add a note to the history of an incident")
    noting.add_argument("note", help="the text")
    _add_end(_add(commands, "silence", silence, "keep an alert from sending notifications for a while", "alert"))


def _add(commands: Any, name: str, run: Any, summary: str, target: str = "incident") -> ArgumentParser:
    parser: ArgumentParser = commands.add_parser(name, help=summary)
    parser.add_argument("id", type=int, help=f"the number of the {target}")
    parser.set_defaults(run=run)
    return parser


def _add_note(parser: ArgumentParser) -> None:
    parser.add_argument("--note", default="", help="kept in the history")


def _add_end(parser: ArgumentParser) -> None:
    end = parser.add_mutually_exclusive_group(required=True)
    end.add_argument("--for", dest="duration", type=parse_duration, metavar="DURATION", help="45s, 30m, 2h, 1d")
    end.add_argument("--end", action="store_true", help="end it now")


def _read_end(options: Namespace) -> datetime | None:
    return datetime.now(UTC) + options.duration if options.duration else None


def list_incidents(options: Namespace, context: Context) -> None:
    filters: dict[str, Any] = {} if options.all else {"open": "true", "snoozed": str(options.snoozed).lower()}
    if options.owner:
        filters["owner"] = options.owner
    found = list(islice(context.client.list_incidents(**filters), options.limit or None))
    if not options.all:
        found.sort(key=lambda each: (_rank(each.severity), each.since))
    if context.as_json:
        for each in found:
            context.print_json(each.fields)
    elif found:
        context.print_table([_row(each) for each in found], COLUMNS)
    else:
        context.print_line("no incidents" if options.all else "no open incidents")


def _rank(severity: str) -> int:
    return SEVERITIES.index(severity) if severity in SEVERITIES else len(SEVERITIES)


def _row(each: Incident) -> tuple[Any, ...]:
    return each.id, each.severity, each.cause, _describe(each), each.runs, each.since, each.owner or ""


def _describe(incident: Incident) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(incident.counts.items()))


def show(options: Namespace, context: Context) -> None:
    incident = context.client.get_incident(options.id)
    if context.as_json:
        context.print_json(incident.fields)
        return
    _print(context, incident)
    for action in incident.actions:
        context.print_line(f"  {format_action(action)}")
    for each in islice(context.client.list_incident_entities(options.id), SHOWN_ENTITIES):
        context.print_line(format_line(f"{each.entity_type} {each.id} {each.state}: {each.why}"))
    for entry in context.client.list_incident_history(options.id):
        text = f": {entry['text']}" if entry["text"] else ""
        context.print_line(format_line(f"{entry['at']} {entry['action']} by {entry['actor']}{text}"))


def acknowledge(options: Namespace, context: Context) -> None:
    _print(context, context.client.acknowledge_incident(options.id, note=options.note))


def assign(options: Namespace, context: Context) -> None:
    _print(context, context.client.assign_incident(options.id, options.owner, note=options.note))


def snooze(options: Namespace, context: Context) -> None:
    _print(context, context.client.snooze_incident(options.id, _read_end(options), note=options.note))


def note(options: Namespace, context: Context) -> None:
    _print(context, context.client.note_incident(options.id, options.note))


def silence(options: Namespace, context: Context) -> None:
    alert = context.client.silence_alert(options.id, _read_end(options))
    if context.as_json:
        context.print_json(alert)
        return
    until = alert["silenced_until"]
    context.print_line(format_line(f"alert {alert['id']}: {f'silenced until {until}' if until else 'not silenced'}"))


def _print(context: Context, incident: Incident) -> None:
    if context.as_json:
        context.print_json(incident.fields)
        return
    context.print_line(format_line(f"{incident.id} {incident.severity}: {incident.cause}"))
    owner = incident.owner or "no owner"
    seen = f"acknowledged by {incident.acknowledged_by}" if incident.acknowledged_by else "not acknowledged"
    until = f", snoozed until {incident.snoozed_until:%Y-%m-%d %H:%M:%S} UTC" if incident.snoozed_until else ""
    context.print_line(format_line(f"  {_describe(incident) or 'the installation'}; {owner}; {seen}{until}"))
