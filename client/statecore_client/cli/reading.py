"""`get`, `explain` and `stuck`: read entities, why they are in their state, and which are overdue."""

from __future__ import annotations

from argparse import Namespace
from itertools import islice
from typing import Any

from .. import Entity
from .context import Context, format_age, format_duration, format_line, format_time
from .verbs import Columns, Verb, add_limit, add_verbs, parse_pair

COLUMNS = ("id", "state", "for", "version")
PAGE = 500
NEEDS_DECISION = "needs a decision"


ATTEMPTS: Columns = {
    "task": "task", "attempt": "attempt", "worker": "worker",
    "started_at": lambda each: format_time(each["started_at"]),
    "ended_at": lambda each: format_time(each["ended_at"]),
    "ended_by": "ended_by", "exit_code": "exit_code", "error": "error",
}  # fmt: skip


def add_commands(commands: Any) -> None:
    get = commands.add_parser("get", help="show an entity or a list")
    get.add_argument("collection", help="tasks, runs, workers, …")
    get.add_argument("id", nargs="?", help="one entity; without it, a list")
    get.add_argument(
        "-f",
        "--filter",
        type=parse_pair,
        action="append",
        default=[],
        metavar="FIELD=VALUE",
        help="list only entities with this value; repeatable",
    )
    get.add_argument("-c", "--columns", default="", help="more columns, separated by commas")
    add_limit(get)
    get.add_argument("--history", action="store_true", help="show the events of the entity, oldest first")
    get.set_defaults(run=show_entities)
    attempts = "list the attempts at a task, oldest first"
    add_verbs(commands, Verb("attempts", "list_attempts", attempts, columns=ATTEMPTS, noun="attempts"))
    explain = commands.add_parser("explain", help="show which transitions are open and what blocks the others")
    explain.add_argument("collection", help="tasks, runs, workers, …")
    explain.add_argument("id", help="the entity")
    explain.set_defaults(run=explain_entity)
    stuck = commands.add_parser("stuck", help="list entities that are overdue or need a decision")
    add_limit(stuck)
    stuck.set_defaults(run=list_stuck)


def show_entities(options: Namespace, context: Context) -> None:
    if options.history:
        _show_history(options, context)
    elif options.id:
        found = context.client.get(options.collection, options.id)
        context.print_json(found) if context.as_json else context.print_fields(found.fields)
    else:
        _show_list(options, context)


def _show_list(options: Namespace, context: Context) -> None:
    filters: dict[str, Any] = {}
    for name, value in options.filter:
        filters.setdefault(name, []).append(value)
    filters.setdefault("page_size", [str(min(options.limit or PAGE, PAGE))])
    found = islice(context.client.list(options.collection, **filters), options.limit or None)
    if context.as_json:
        for entity in found:
            context.print_json(entity)
        return
    further = [name for name in options.columns.split(",") if name]
    context.print_table([_row(entity, further) for entity in found], [*COLUMNS, *further])


def _row(entity: Entity, further: list[str]) -> list[Any]:
    return [entity.id, entity.state, format_age(entity.state_entered_at), entity.version, *map(entity.get, further)]


def _show_history(options: Namespace, context: Context) -> None:
    events = context.client.list_history(options.collection, options.id or "")
    if context.as_json:
        for event in events:
            context.print_json(event)
        return
    rows = [
        (event.version, event.timestamp, event.trigger, event.to_state, event.actor, event.reason) for event in events
    ]
    context.print_table(rows, ("version", "at", "trigger", "state", "by", "reason"))


def explain_entity(options: Namespace, context: Context) -> None:
    why = context.client.explain(options.collection, options.id)
    if context.as_json:
        context.print_json(why)
        return
    context.print_line(format_line(why.sentence) or f"{options.id} is {format_line(why.state)}")
    links = [] if [link.get("detail") for link in why.waiting_on] == [why.sentence] else why.waiting_on
    for number, link in enumerate(links):
        context.print_line(f"{'  ' * number}└ {format_line(link.get('detail'))}")
    for check in why.transitions:
        context.print_line(
            f"{'✓' if check.allowed else '✗'} {format_line(check.trigger)} → {format_line(check.to_state)}"
        )
        for unmet in check.unmet:
            context.print_line(f"    {format_line(unmet.detail)}")


def list_stuck(options: Namespace, context: Context) -> None:
    found = islice(context.client.list_stuck(), options.limit or None)
    if context.as_json:
        for each in found:
            context.print_json(each)
        return
    items = list(found)
    rows = [(each.entity_type, each.id, each.state, format_duration(each.overdue_seconds), each.why) for each in items]
    if rows:
        context.print_table(rows, ("machine", "id", "state", "overdue", "why"))
    else:
        context.print_line("nothing is stuck")
    for each in items:
        if each.kind == NEEDS_DECISION:
            context.print_line(f"{each.entity_type} {each.id} needs a decision:")
            for action in each.actions:
                context.print_line(f"  {format_action(action)}")


def format_action(action: dict[str, Any]) -> str:
    """Returns the command that takes an offered action."""
    collection, id_ = format_line(action["collection"]), format_line(action["id"])
    match action["action"]:
        case "retry":
            return f"statecore retry {collection} {id_}"
        case "transition":
            return f"statecore fire {collection} {id_} {format_line(action['trigger'])}"
        case "waive":
            return f"statecore waive-gate {id_} --category stuck --reason …"
        case _:
            forced = format_line(action.get("to_state") or "STATE")
            return f"statecore override {collection} {id_} {forced} --category stuck --reason …"
