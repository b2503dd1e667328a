"""Derives the tone and shade in which a state is shown from its declaration.

No state is named here, so a new machine has its colours as soon as it is declared.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from itertools import count

from ...kernel import registry
from ...kernel.flow import Flow, Rest
from ...kernel.transition import Severity

NOTABLE = {Severity.WARNING, Severity.ERROR, Severity.CRITICAL}
SHADES = 4


class Tone(StrEnum):
    WAITING = "waiting"  # initial
    ACTIVE = "active"  # has a deadline
    HELD = "held"  # may rest
    TROUBLED = "troubled"  # entered only with a warning or worse
    DONE = "done"
    FAILED = "failed"
    ENDED = "ended"  # final, neither done nor failed


@dataclass(frozen=True, slots=True)
class StateStyle:
    """`shade` distinguishes states of one machine with the same tone."""

    state: str
    tone: Tone
    shade: int

    @property
    def word(self) -> str:
        return self.state.lower().replace("_", " ")


@cache
def state_styles(entity_type: str) -> dict[str, StateStyle]:
    """Returns the style of every state of a machine, in the order of declaration."""
    flow = registry.flow(entity_type)
    shades = {tone: count() for tone in Tone}
    tones = {state: choose_tone(flow, state) for state in flow.states}
    return {state: StateStyle(state, tone, next(shades[tone]) % SHADES) for state, tone in tones.items()}


def choose_tone(flow: Flow, state: str) -> Tone:
    entered = {transition.severity for transition in flow.transitions if transition.target == state}
    if flow.is_final(state):
        return _choose_final_tone(flow, state)
    if state == flow.initial:
        return Tone.WAITING
    if isinstance(flow.timing.get(state), Rest):
        return Tone.HELD
    return Tone.TROUBLED if entered <= NOTABLE else Tone.ACTIVE


def _choose_final_tone(flow: Flow, state: str) -> Tone:
    if state in flow.done:
        return Tone.DONE
    return Tone.FAILED if state in flow.failures else Tone.ENDED
