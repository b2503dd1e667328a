"""The documentation of a machine, written from its declaration."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from inspect import getdoc
from sys import modules

from django.db.models import CheckConstraint

from ..kernel import registry
from ..kernel.flow import Flow
from ..kernel.moves import Guard, Move
from .diagrams import mermaid
from .tables import section, table
from .versions import SNAPSHOT, snapshot_text


def pages() -> dict[str, str]:
    """Every file of the machines' folder by its name."""
    made = {f"{flow.entity_type}.md": page(flow) for flow in registry.flows()}
    return {"README.md": _index(), SNAPSHOT: snapshot_text(), **made}


def page(flow: Flow) -> str:
    return "\n".join(
        [
            f"# {flow.entity_type}",
            "",
            (modules[flow.model.__module__].__doc__ or "").strip(),
            "",
            f"Version {flow.version}. Collection `{flow.collection}`. Written by `manage.py machines --docs`.",
            "",
            f"```mermaid\n{mermaid(flow)}```",
            "",
            *section("States", ("state", "final", "may stay"), [_state_row(flow, state) for state in flow.states]),
            *section("Moves", ("trigger", "from", "to", "who", "severity", "fields"), map(_move_row, flow.moves)),
            *_guards(flow),
            *_exits(flow),
            *_rules(flow),
        ]
    )


def _index() -> str:
    rows = [
        (f"[{flow.entity_type}]({flow.entity_type}.md)", flow.version, len(flow.states), len(flow.moves))
        for flow in registry.flows()
    ]
    return "\n".join(
        ["# The machines", "", *table(("machine", "version", "states", "moves"), rows), "", _HOW_TO_CHANGE]
    )


_HOW_TO_CHANGE = """\
These pages and `machines.json` are written by `manage.py machines --docs`; a test fails when they are out of date.
`manage.py machines --check` refuses a change of a declaration without the version bump it calls for:
major for a state added, removed or made final, or a move or field removed; minor for a move or a field added; patch
for the rest.
"""


def _state_row(flow: Flow, state: str) -> tuple[str, str, str]:
    timing = flow.timing.get(state)
    if timing is None:
        return f"`{state}`", "yes", "for ever"
    stay = f"{timing}" if isinstance(timing, timedelta) else f"it may rest: {timing.because}"
    return f"`{state}`" + (" (initial)" if state == flow.initial else ""), "", stay


def _move_row(move: Move) -> tuple[str, ...]:
    fields = ", ".join(f"`{param.name}`" + ("" if param.required else "?") for param in move.params)
    return (
        f"`{move.trigger}`",
        ", ".join(move.sources),
        move.target,
        ", ".join(sorted(move.actors)),
        str(move.severity),
        fields,
    )


def _guards(flow: Flow) -> list[str]:
    guarded = [(f"`{move.trigger}` → {move.target}", guard) for move in flow.moves for guard in move.guards]
    return section("Guards", ("move", "holds when"), [(name, _sentence(guard)) for name, guard in guarded])


def _sentence(guard: Guard) -> str:
    explained = getdoc(guard)
    name = guard.__name__.replace("_", " ")
    return f"{name} ({explained.splitlines()[0]})" if explained else name


def _exits(flow: Flow) -> list[str]:
    exits = [
        (f"`{move.trigger}`", ", ".join(move.sources), move.target, move.leaves_final)
        for move in flow.moves
        if move.leaves_final
    ]
    return section("Ways out of a final state", ("trigger", "from", "to", "because"), exits)


def _rules(flow: Flow) -> list[str]:
    named = [(f"`{each.name}`",) for each in flow.model._meta.constraints if isinstance(each, CheckConstraint)]
    frozen = [(f"`{name}` is frozen" + _until(states),) for name, states in flow.frozen.items()]
    rising = [(f"`{name}` never goes down",) for name in flow.rising]
    rules = section("Held by the database", ("rule",), [*named, *frozen, *rising])
    broken = [(f"`{each.name}`", each.sentence) for each in flow.model.invariants()]
    return rules + section("Looked for by `manage.py integrity`", ("invariant", "is broken when"), broken)


def _until(states: Iterable[str]) -> str:
    return f", except in {', '.join(sorted(map(str, states)))}" if states else " from its creation"
