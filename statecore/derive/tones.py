"""How a state is shown, read off its declaration: one tone for each state, with a shape of its own.

Nothing here names a state: a new machine has its colours the moment it is declared.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from itertools import count

from ..kernel import registry
from ..kernel.flow import Flow, Rest
from ..kernel.moves import Severity

LOUD = {Severity.WARNING, Severity.ERROR, Severity.CRITICAL}
FAILURES = {Severity.ERROR, Severity.CRITICAL}
SHADES = 4


class Tone(StrEnum):
    WAITING = "waiting"  # where it starts
    ACTIVE = "active"  # it should go on before a deadline
    HELD = "held"  # it may stay for ever
    TROUBLED = "troubled"  # only a warning or worse leads here
    DONE = "done"
    FAILED = "failed"
    ENDED = "ended"  # final, neither done nor failed


@dataclass(frozen=True, slots=True)
class Look:
    """`shade` tells apart the states of one machine that have the same tone."""

    state: str
    tone: Tone
    shade: int

    @property
    def word(self) -> str:
        return self.state.lower().replace("_", " ")


@cache
def looks(entity_type: str) -> dict[str, Look]:
    """Every state of a machine and how it looks, in the order of the declaration."""
    flow = registry.flow(entity_type)
    shades = {tone: count() for tone in Tone}
    tones = {state: tone_of(flow, state) for state in flow.states}
    return {state: Look(state, tone, next(shades[tone]) % SHADES) for state, tone in tones.items()}


def tone_of(flow: Flow, state: str) -> Tone:
    entered = {move.severity for move in flow.moves if move.target == state}
    if flow.is_final(state):
        return _final_tone(state in flow.done, entered)
    if state == flow.initial:
        return Tone.WAITING
    if isinstance(flow.timing.get(state), Rest):
        return Tone.HELD
    return Tone.TROUBLED if entered <= LOUD else Tone.ACTIVE


def _final_tone(is_done: bool, entered: set[Severity]) -> Tone:
    if is_done:
        return Tone.DONE
    return Tone.FAILED if entered <= FAILURES else Tone.ENDED
