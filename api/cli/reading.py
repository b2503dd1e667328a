"""get, explain and stuck: what there is, why it is where it is, and what needs attention."""

from __future__ import annotations

from argparse import ArgumentTypeError, Namespace
from itertools import islice
from typing import Any

from api.client import Entity

from .desk import Desk, age, duration, plain

COLUMNS = ("id", "state", "for", "version")
PAGE = 500


def pair(text: str) -> tuple[str, str]:
    name, found, value = text.partition("=")
    if not found or not name:
        raise ArgumentTypeError(f"{text!r} is not FIELD=VALUE")
    return name, value


def limit(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise ArgumentTypeError("must be a whole number, 0 for all")
    return int(text)


def add(commands: Any) -> None:
    get = commands.add_parser("get", help="an entity, or a list of them")
    get.add_argument("collection", help="tasks, runs, workers, …")
    get.add_argument("id", nargs="?", help="of one; without it a list is shown")
    get.add_argument(
        "-f", "--filter", type=pair, action="append", default=[], metavar="FIELD=VALUE", help="of the list; repeatable"
    )
    get.add_argument("-c", "--columns", default="", help="further columns, separated by commas")
    get.add_argument("-n", "--limit", type=limit, default=50, help="how many at most, 0 for all (50)")
    get.add_argument("--history", action="store_true", help="what happened to it, oldest first")
    get.set_defaults(run=show)
    explain = commands.add_parser("explain", help="why something is where it is, and what is in its way")
    explain.add_argument("collection", help="tasks, runs, workers, …")
    explain.add_argument("id", help="which of them")
    explain.set_defaults(run=say_why)
    stuck = commands.add_parser("stuck", help="what is past its deadline or needs a decision")
    stuck.add_argument("-n", "--limit", type=limit, default=50, help="how many at most, 0 for all (50)")
    stuck.set_defaults(run=list_stuck)


def show(options: Namespace, desk: Desk) -> None:
    if options.history:
        _show_history(options, desk)
    elif options.id:
        found = desk.client.get(options.collection, options.id)
        desk.put(found.fields) if desk.as_json else desk.facts(found.fields)
    else:
        _show_list(options, desk)


def _show_list(options: Namespace, desk: Desk) -> None:
    filters: dict[str, list[str]] = {}
    for name, value in options.filter:
        filters.setdefault(name, []).append(value)
    filters.setdefault("page_size", [str(min(options.limit or PAGE, PAGE))])
    found = islice(desk.client.list(options.collection, **filters), options.limit or None)
    if desk.as_json:
        for entity in found:
            desk.put(entity.fields)
        return
    further = [name for name in options.columns.split(",") if name]
    desk.table([_row(entity, further) for entity in found], [*COLUMNS, *further])


def _row(entity: Entity, further: list[str]) -> list[Any]:
    return [entity.id, entity.state, age(entity.state_entered_at), entity.version, *map(entity.get, further)]


def _show_history(options: Namespace, desk: Desk) -> None:
    events = desk.client.history(options.collection, options.id or "")
    if desk.as_json:
        for event in events:
            desk.put(event.fields)
        return
    rows = [
        (event.version, event.timestamp, event.trigger, event.to_state, event.actor, event.reason) for event in events
    ]
    desk.table(rows, ("version", "at", "trigger", "state", "by", "reason"))


def say_why(options: Namespace, desk: Desk) -> None:
    why = desk.client.explain(options.collection, options.id)
    if desk.as_json:
        desk.put(why.fields)
        return
    desk.line(plain(why.sentence) or f"{options.id} is {plain(why.state)}")
    for number, link in enumerate(why.waiting_on):
        desk.line(f"{'  ' * number}└ {plain(link.get('detail'))}")
    for move in why.moves:
        desk.line(f"{'✓' if move.allowed else '✗'} {plain(move.trigger)} → {plain(move.to_state)}")
        for unmet in move.unmet:
            desk.line(f"    {plain(unmet.detail)}")


def list_stuck(options: Namespace, desk: Desk) -> None:
    found = islice(desk.client.stuck(), options.limit or None)
    if desk.as_json:
        for each in found:
            desk.put(each.fields)
        return
    rows = [(each.entity_type, each.id, each.state, duration(each.overdue_seconds), each.why) for each in found]
    if rows:
        desk.table(rows, ("machine", "id", "state", "overdue", "why"))
    else:
        desk.line("nothing is stuck")
