"""watch: events as they happen, or one entity until it is where it is wanted or cannot get there any more."""

from __future__ import annotations

from argparse import Namespace
from collections import Counter
from typing import Any

from api.client import Event

from .desk import Desk, plain
from .exits import Exit, Stop


def add(commands: Any) -> None:
    watch = commands.add_parser("watch", help="events as they happen, or one entity until it has ended")
    watch.add_argument("collection", nargs="?", help="of these alone")
    watch.add_argument("id", nargs="?", help="of this one alone")
    watch.add_argument(
        "--after", type=int, metavar="POSITION", help="from this position of the journal on; else from now on"
    )
    watch.add_argument("--until", metavar="STATE", help="exit 0 in this state, 1 if it ends in another")
    watch.set_defaults(run=follow)


def follow(options: Namespace, desk: Desk) -> int:
    if options.id:
        return _follow_one(options, desk)
    if options.until:
        raise Stop("--until needs one entity to wait for", Exit.USAGE)
    chosen = {"entity_type": _type_of(desk, options.collection)} if options.collection else {}
    for told in desk.client.stream(after=options.after, **chosen):
        _show(desk, told.position, told.event)
    return Exit.DONE


def _type_of(desk: Desk, collection: str) -> str:
    for machine in desk.client.machines():
        if collection in (machine.get("collection"), machine.entity_type):
            return machine.entity_type
    raise Stop(f"there is no machine {collection}", Exit.NOT_FOUND)


def _show(desk: Desk, position: int, event: Event) -> None:
    if desk.as_json:
        desk.put({"position": position, "event": event.fields})
        return
    at = event.timestamp.strftime("%H:%M:%S")
    moved = f"{plain(event.from_state)} → {plain(event.to_state)}"
    said = f" — {plain(event.reason)}" if event.reason else ""
    what = f"{event.entity_type} {event.entity_id}"
    desk.line(f"{at}  {position}  {what}  {moved}  {event.trigger} by {plain(event.actor)}{said}")


def _follow_one(options: Namespace, desk: Desk) -> int:
    """The position first, then the entity: what happens in between is seen twice rather than never."""
    entity_type = _type_of(desk, options.collection)
    final = {state["name"] for state in desk.client.machine(entity_type).states if state["terminal"]}
    chosen = {"run": options.id} if entity_type == "run" else {"entity_type": entity_type}
    position = options.after if options.after is not None else desk.client.stats()["position"]
    entity = desk.client.get(options.collection, options.id)
    if (code := _verdict(desk, options, entity.state, final)) is not None:
        return code
    counts: Counter[str] = Counter()
    for told in desk.client.stream(after=position, **chosen):
        event = told.event
        if (event.entity_type, event.entity_id) == (entity_type, options.id):
            desk.end_progress()
            _show(desk, told.position, event)
            if (code := _verdict(desk, options, event.to_state, final)) is not None:
                return code
        else:
            counts[f"{event.entity_type} {event.to_state}"] += 1
            desk.progress(", ".join(f"{what}: {number}" for what, number in counts.most_common(6)))
    return Exit.DONE


def _verdict(desk: Desk, options: Namespace, state: str, final: set[str]) -> int | None:
    """How to leave in this state; None to go on."""
    if options.until is None:
        return Exit.DONE if state in final else None
    if state == options.until:
        return Exit.DONE
    if state in final:
        raise Stop(f"{options.id} has ended in {state}, not in {options.until}")
    return None
