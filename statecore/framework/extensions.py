"""Registers what surrounds the machines of another package: reactions, sinks, alert rules, periodic work.

Call these functions in `ready()` of the package's AppConfig. docs/how-to/extend.md has an example of each.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from .. import transitions
from ..delivery.sinks.alert_rules import CountRule, EntryRule, Violation
from ..delivery.sinks.sink import Batch, NumberedEvent, Sink
from ..kernel import extensions, registry
from ..kernel.actors import THE_SYSTEM as SYSTEM_ACTOR
from ..kernel.registry import EditReaction, Reaction
from ..kernel.transition import Severity
from ..transitions.change import Change
from ..transitions.unit_of_work import UnitOfWork


def add_reaction(entity_type: str, reaction: Reaction) -> None:
    """Calls `reaction(work, changes)` in the transaction of each transition of a machine, or of all for ""."""
    registry.reactions.append((entity_type, reaction))


def add_edit_reaction(entity_type: str, reaction: EditReaction) -> None:
    """Calls `reaction(work, entity, names)` in the transaction of each edit of an entity."""
    registry.edit_reactions.append((entity_type, reaction))


def add_sink(create: Callable[[], Sink]) -> None:
    """Delivers every event to a sink, in order and at least once, in the sequencer."""
    extensions.sinks.append(create)


def add_alert_rule(rule: CountRule | EntryRule) -> None:
    """Opens and resolves alerts by a rule; its name must be unique."""
    extensions.alert_rules.append(rule)


def add_periodic_task(task: str, *, every: timedelta, queue: str = "celery") -> None:
    """Starts a Celery task of the package's `tasks` module repeatedly; a worker of the queue executes it.

    The queues `gates` and `patches` belong to the executors, which may run long commands.
    """
    extensions.sweeps.append(extensions.Sweep(task, every, queue))


__all__ = [
    "SYSTEM_ACTOR", "Batch", "Change", "CountRule", "EntryRule", "NumberedEvent", "Severity", "Sink", "UnitOfWork",
    "Violation", "add_alert_rule", "add_edit_reaction", "add_periodic_task", "add_reaction", "add_sink", "transitions",
]  # fmt: skip
