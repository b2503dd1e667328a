"""The look of states is derived from the declarations, and differs between the states of a machine."""

from __future__ import annotations

import pytest

from statecore.kernel import registry
from statecore.read_models.diagrams.tones import Tone, state_styles

pytestmark = pytest.mark.once_on("sqlite")  # they use no database


@pytest.mark.parametrize(
    ("machine", "state", "tone"),
    [
        ("task", "pending", Tone.WAITING),
        ("task", "running", Tone.ACTIVE),
        ("task", "blocked", Tone.HELD),
        ("task", "retrying", Tone.TROUBLED),
        ("task", "completed", Tone.DONE),
        ("task", "failed", Tone.FAILED),
        ("task", "cancelled", Tone.ENDED),
        ("circuit_breaker", "OPEN", Tone.TROUBLED),
        ("workstream", "skipped", Tone.DONE),
        ("patch_ledger", "quarantined", Tone.FAILED),
    ],
)
def test_a_state_has_the_tone_of_its_declaration(machine: str, state: str, tone: Tone) -> None:
    assert state_styles(machine)[state].tone is tone


def test_the_states_of_a_machine_look_different() -> None:
    for flow in registry.flows():
        found = state_styles(flow.entity_type)
        assert list(found) == list(flow.states)
        assert len({(look.tone, look.shade) for look in found.values()}) == len(found)
