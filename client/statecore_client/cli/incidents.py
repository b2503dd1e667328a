"""`incidents`, `incident`, `acknowledge`, `assign`, `snooze`, `note`, `silence`: take care of incidents and alerts."""

from __future__ import annotations

from argparse import Namespace
from itertools import islice
from typing import Any

from .. import Incident
from ..models import Alert
from .context import Context, format_line
from .reading import format_action
from .verbs import Columns, Verb, add_limit, add_verbs, line_of, print_list

COLUMNS: Columns = {
    "id": "id", "severity": "severity", "cause": "cause", "affected": lambda each: _describe(each), "runs": "runs",
    "since": "since", "owner": lambda each: each.owner or "",
}  # fmt: skip
SEVERITIES = ("critical", "error", "warning")
SHOWN_ENTITIES = 10
HIDES = frozenset({"expected_version"})


def add_commands(commands: Any) -> None:
    listing = commands.add_parser("incidents", help="list root causes with what hangs on them, the most severe first")
    listing.add_argument("--all", action="store_true", help="also resolved and snoozed ones, the newest first")
    listing.add_argument("--snoozed", action="store_true", help="those that are snoozed")
    listing.add_argument("--owner", help="those of this owner")
    add_limit(listing)
    listing.set_defaults(run=list_incidents)
    one = commands.add_parser("incident", help="show an incident with its suggested actions, entities and history")
    one.add_argument("id", type=int, help="the number of the incident")
    one.set_defaults(run=show)
    add_verbs(
        commands,
        Verb("acknowledge", "acknowledge_incident", "record that you are working on an incident", _print, hides=HIDES),
        Verb("assign", "assign_incident", "set the owner of an incident, or remove it", _print, defaults={"owner": ""},
             hides=HIDES),
        Verb("snooze", "snooze_incident", "keep an incident from being listed and escalated for a while", _print,
             hides=HIDES),
        Verb("note", "note_incident", "add a note to the history of an incident", _print, hides=HIDES),
        Verb("silence", "silence_alert", "keep an alert from sending notifications for a while",
             line_of(describe_silence)),
    )  # fmt: skip


def list_incidents(options: Namespace, context: Context) -> None:
    filters: dict[str, Any] = {} if options.all else {"open": "true", "snoozed": str(options.snoozed).lower()}
    if options.owner:
        filters["owner"] = options.owner
    found = list(islice(context.client.list_incidents(**filters), options.limit or None))
    if not options.all:
        found.sort(key=lambda each: (_rank(each.severity), each.since))
    print_list(context, found, COLUMNS, "no incidents" if options.all else "no open incidents")


def _rank(severity: str) -> int:
    return SEVERITIES.index(severity) if severity in SEVERITIES else len(SEVERITIES)


def _describe(incident: Incident) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(incident.counts.items()))


def show(options: Namespace, context: Context) -> None:
    incident = context.client.get_incident(options.id)
    if context.as_json:
        context.print_json(incident)
        return
    _print(context, incident)
    for action in incident.actions:
        context.print_line(f"  {format_action(action)}")
    for each in islice(context.client.list_incident_entities(options.id), SHOWN_ENTITIES):
        context.print_line(format_line(f"{each.entity_type} {each.id} {each.state}: {each.why}"))
    for entry in context.client.list_incident_history(options.id):
        text = f": {entry['text']}" if entry["text"] else ""
        context.print_line(format_line(f"{entry['at']} {entry['action']} by {entry['actor']}{text}"))


def describe_silence(alert: Alert) -> str:
    until = f"silenced until {alert['silenced_until']}" if alert.silenced_until else "not silenced"
    return f"alert {alert.id}: {until}"


def _print(context: Context, incident: Incident) -> None:
    context.print_line(format_line(f"{incident.id} {incident.severity}: {incident.cause}"))
    owner = incident.owner or "no owner"
    seen = f"acknowledged by {incident.acknowledged_by}" if incident.acknowledged_by else "not acknowledged"
    until = f", snoozed until {incident.snoozed_until:%Y-%m-%d %H:%M:%S} UTC" if incident.snoozed_until else ""
    context.print_line(format_line(f"  {_describe(incident) or 'the installation'}; {owner}; {seen}{until}"))
