"""Whatever an agent job's log holds, its fold is one state and its judges say a sentence or nothing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from statecore import agent_events
from statecore.agent_events.fold import INVARIANTS, OPENINGS, Logged, derive, steps
from statecore.agent_events.proof import DRIVING
from statecore.journal import OVERRIDDEN
from statecore.kernel.refusals import Refusal
from statecore.machines.agent_job import AgentJob
from tests.properties.parsing import TEXT, few, many, refusal_of
from tests.properties.support import rolled_back
from tests.properties.values import ACTORS, fields_of
from tests.support import world

FLOW = AgentJob.flow
NOTES = st.builds(Logged, TEXT.filter(lambda text: text not in DRIVING))
STATES = st.sampled_from(["", *FLOW.states]) | TEXT
EVENTS = st.builds(Logged, st.sampled_from(DRIVING), STATES) | NOTES
LOGS = st.lists(EVENTS, max_size=8)


def verdicts(state: str, log: list[Logged]) -> list[str | None]:
    return [judge(state, log) for judge in INVARIANTS]


@many
@given(LOGS)
@example([Logged(OPENINGS[0]), Logged(OVERRIDDEN, "")])
def test_the_state_is_where_the_last_step_led(log: list[Logged]) -> None:
    taken = list(steps(log))

    assert derive(log) == (taken[-1].after if taken else "")
    assert [step.before for step in taken[1:]] == [step.after for step in taken[:-1]]


@many
@given(LOGS, LOGS)
def test_what_comes_last_decides(earlier: list[Logged], later: list[Logged]) -> None:
    assert derive([*earlier, *later]) == (derive(later) or derive(earlier))


@many
@given(LOGS, st.data())
def test_a_note_changes_nothing(log: list[Logged], data: Any) -> None:
    place, state = data.draw(st.integers(0, len(log))), data.draw(STATES)
    noted = [*log[:place], data.draw(NOTES), *log[place:]]

    assert (derive(noted), verdicts(state, noted)) == (derive(log), verdicts(state, log))


@many
@given(STATES, LOGS)
def test_a_judge_says_a_sentence_or_nothing(state: str, log: list[Logged]) -> None:
    assert all(verdict is None or verdict for verdict in verdicts(state, log))


APPENDED = st.sampled_from([*DRIVING, "progress"]).flatmap(
    lambda type_: st.tuples(st.just(type_), fields_of(FLOW, type_), ACTORS)
)


@pytest.mark.django_db
@few
@given(st.lists(APPENDED | st.tuples(TEXT, st.just({}), ACTORS), max_size=8))
def test_what_is_appended_to_a_log_keeps_it_whole_and_the_rest_is_refused(told: list[Any]) -> None:
    with rolled_back():
        job = world.created("AgentJob")
        for type_, payload, actor in told:
            refusal = refusal_of(Refusal, lambda: agent_events.append(job.pk, type_, payload=payload, actor=actor))  # noqa: B023
            assert refusal is None or refusal.detail
        assert list(agent_events.disagreements()) == list(agent_events.violations()) == []
