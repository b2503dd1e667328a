"""`watch`: events as they happen, or one entity until it reaches a state or can no longer reach it."""

from __future__ import annotations

from argparse import ArgumentTypeError, Namespace
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

from .. import EpochEnded, Event, Outage
from ..records import PositionedEvent
from ..stream import CURSOR, OnEpoch
from .context import Context, format_line
from .errors import CommandError, Exit

UNDECIDED = "needs a decision"  # the end of the sentence that explains such a run
LOST = {"failed", "cancelled"}
# States of tasks that may change without a decision.
PROGRESSING = ["pending", "queued", "running", "validating", "retrying"]


def parse_start(text: str) -> str:
    if not CURSOR.fullmatch(text):
        raise ArgumentTypeError("must be a position or EPOCH-POSITION")
    return text


def add_commands(commands: Any) -> None:
    watch = commands.add_parser("watch", help="show events as they happen, or one entity until it is final")
    watch.add_argument("collection", nargs="?", help="only events of this collection")
    watch.add_argument("id", nargs="?", help="only events of this entity")
    start = "start after this position of the journal, or EPOCH-POSITION (now)"
    watch.add_argument("--after", type=parse_start, metavar="POSITION", help=start)
    watch.add_argument("--until", metavar="STATE", help="exit with 0 in this state, with 1 in another final state")
    watch.set_defaults(run=watch_events)


def watch_events(options: Namespace, context: Context) -> int:
    if options.id:
        return _watch_entity(options, context)
    if options.until:
        raise CommandError("--until needs one entity to wait for", Exit.USAGE)
    chosen = {"entity_type": _find_entity_type(context, options.collection)} if options.collection else {}
    note = partial(_print_end_of_epoch, context)
    for each in _stream(context, options.after, chosen, on_epoch=note):
        _print_event(context, each.position, each.event)
    return Exit.DONE


def _print_end_of_epoch(context: Context, ended: EpochEnded) -> None:
    context.clear_progress()
    context.print_note(f"statecore: {format_line(str(ended))}")


def _stream(
    context: Context, after: str | None, chosen: dict[str, Any], on_epoch: OnEpoch | None = None
) -> Iterator[PositionedEvent]:
    """Yields events and prints a note at the start of each outage; raises Unreachable after --patience, if given."""

    def report(outage: Outage) -> None:
        if outage.attempt == 1:
            context.clear_progress()
            context.print_note(f"statecore: connection lost, reconnecting ({format_line(outage.error)})")

    return context.client.stream_events(
        after, give_up_after=context.patience, on_outage=report, on_epoch=on_epoch, **chosen
    )


def _find_entity_type(context: Context, collection: str) -> str:
    for machine in context.client.list_machines():
        if collection in (machine.get("collection"), machine.entity_type):
            return machine.entity_type
    raise CommandError(f"there is no machine {collection}", Exit.NOT_FOUND)


def _print_event(context: Context, position: int, event: Event) -> None:
    if context.as_json:
        context.print_json({"position": position, "event": event.fields})
        return
    at = event.timestamp.strftime("%H:%M:%S")
    change = f"{format_line(event.from_state)} → {format_line(event.to_state)}"
    reason = f" — {format_line(event.reason)}" if event.reason else ""
    what = f"{event.entity_type} {event.entity_id}"
    context.print_line(f"{at}  {position}  {what}  {change}  {event.trigger} by {format_line(event.actor)}{reason}")


def _watch_entity(options: Namespace, context: Context) -> int:
    """Watches one entity until it is final or in the state of --until; also counts the other events of a run."""
    entity_type = _find_entity_type(context, options.collection)
    while True:
        try:
            return _follow_entity(options, context, entity_type)
        except EpochEnded as ended:  # the entity may have another state than the one that was printed
            _print_end_of_epoch(context, ended)
            options.after = None


def _follow_entity(options: Namespace, context: Context, entity_type: str) -> int:
    """Follows the entity within an epoch. The position is read before it, so that no event in between is missed."""
    final = {state["name"] for state in context.client.get_machine(entity_type).states if state["terminal"]}
    chosen = {"run": options.id} if entity_type == "run" else {"entity_type": entity_type}
    stats = context.client.get_stats()
    position = options.after if options.after is not None else f"{stats['epoch']}-{stats['position']}"
    entity = context.client.get(options.collection, options.id)
    if (code := _find_exit_code(context, options, entity.state, final)) is not None:
        return code
    is_run = entity_type == "run"
    is_waiting = is_run and _is_waiting_for_decision(context, options.id)
    counts: Counter[str] = Counter()
    for each in _stream(context, position, chosen):
        event = each.event
        if (event.entity_type, event.entity_id) == (entity_type, options.id):
            context.clear_progress()
            _print_event(context, each.position, event)
            if (code := _find_exit_code(context, options, event.to_state, final)) is not None:
                return code
        else:
            counts[f"{event.entity_type} {event.to_state}"] += 1
            context.show_progress(", ".join(f"{what}: {number}" for what, number in counts.most_common(6)))
        if is_run and (is_waiting or event.to_state in LOST):
            is_waiting = _is_waiting_for_decision(context, options.id)
    return Exit.DONE


def _is_waiting_for_decision(context: Context, run_id: str) -> bool:
    """Whether the run waits for a decision; raises CommandError if, besides, none of its tasks can progress."""
    sentence = context.client.explain("runs", run_id).sentence
    if not sentence.endswith(UNDECIDED):
        return False
    if next(iter(context.client.list("tasks", run=run_id, state=PROGRESSING, page_size=1)), None) is None:
        context.clear_progress()
        raise CommandError(format_line(sentence), Exit.UNDECIDED)
    return True


def _find_exit_code(context: Context, options: Namespace, state: str, final: set[str]) -> int | None:
    """Returns the exit code for this state, or None to keep watching."""
    if options.until is None:
        return Exit.DONE if state in final else None
    if state == options.until:
        return Exit.DONE
    if state in final:
        raise CommandError(f"{options.id} is {state}, a final state, and cannot become {options.until}")
    return None
