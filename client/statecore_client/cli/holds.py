"""`hold`, `holds`, `release`, `pause` and `resume`: keep new work from being claimed, and end that."""

from __future__ import annotations

from typing import Any

from .. import Hold
from ..models import PausedRun
from .context import Context, format_line
from .verbs import Columns, Verb, add_verbs, line_of

COLUMNS: Columns = {
    "id": "id", "status": "status", "scope": "scope", "placed by": "created_by",
    "expires": lambda each: each.expires_at or "when released", "reason": "reason",
}  # fmt: skip


def add_commands(commands: Any) -> None:
    show = line_of(describe_hold)
    add_verbs(
        commands,
        Verb("hold", "place_hold", "keep tasks from being claimed; running tasks continue", show),
        Verb("holds", "list_holds", "list holds", columns=COLUMNS, noun="holds", defaults={"status": "active"}),
        Verb("pause", "pause_run", "pause the workstreams of a run; running tasks continue", print_workstreams),
        Verb("resume", "resume_run", "resume the paused workstreams of a run", print_workstreams),
        Verb("release", "release_hold", "end a hold", show),
    )


def describe_hold(hold: Hold) -> str:
    until = f", until {hold.expires_at:%Y-%m-%d %H:%M:%S} UTC" if hold.expires_at and hold.status == "active" else ""
    return f"{hold.id} {hold.status}: {hold.scope}{until}"


def print_workstreams(context: Context, response: PausedRun) -> None:
    for each in response["workstreams"]:
        event, refusal = each["event"], each["refusal"]
        outcome = f"{event['from_state']} → {event['to_state']}" if event else refusal["detail"]
        context.print_line(format_line(f"workstream {each['id']}: {outcome}"))
