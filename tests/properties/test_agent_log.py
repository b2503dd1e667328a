"""Any log of an agent job folds to one state, and each invariant returns a sentence or nothing."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from statecore.journal import OVERRIDDEN
from statecore.kernel.refusals import Refusal
from statecore.machines.agent_job import AgentJob
from statecore.scheduling import agent_job_log, agent_job_replay
from statecore.scheduling.agent_job_replay import (
    INVARIANTS,
    OPENINGS,
    STATE_EVENTS,
    LoggedEvent,
    list_state_changes,
    replay,
)
from tests.properties.parsing import TEXT, few, many, refusal_of
from tests.properties.support import rolled_back
from tests.properties.values import ACTORS, fields_of
from tests.support import world

FLOW = AgentJob.flow
NOTES = st.builds(LoggedEvent, TEXT.filter(lambda text: text not in STATE_EVENTS))
STATES = st.sampled_from(["", *FLOW.states]) | TEXT
EVENTS = st.builds(LoggedEvent, st.sampled_from(STATE_EVENTS), STATES) | NOTES
LOGS = st.lists(EVENTS, max_size=8)


def verdicts(state: str, log: list[LoggedEvent]) -> list[str | None]:
    return [judge(state, log) for judge in INVARIANTS]


@many
@given(LOGS)
@example([LoggedEvent(OPENINGS[0]), LoggedEvent(OVERRIDDEN, "")])
def test_the_state_is_where_the_last_step_led(log: list[LoggedEvent]) -> None:
    taken = list(list_state_changes(log))

    assert replay(log) == (taken[-1].after if taken else "")
    assert [step.before for step in taken[1:]] == [step.after for step in taken[:-1]]


@many
@given(LOGS, LOGS)
def test_what_comes_last_decides(earlier: list[LoggedEvent], later: list[LoggedEvent]) -> None:
    assert replay([*earlier, *later]) == (replay(later) or replay(earlier))


@many
@given(LOGS, st.data())
def test_a_note_changes_nothing(log: list[LoggedEvent], data: Any) -> None:
    place, state = data.draw(st.integers(0, len(log))), data.draw(STATES)
    noted = [*log[:place], data.draw(NOTES), *log[place:]]

    assert (replay(noted), verdicts(state, noted)) == (replay(log), verdicts(state, log))


@many
@given(STATES, LOGS)
def test_an_invariant_returns_a_sentence_or_nothing(state: str, log: list[LoggedEvent]) -> None:
    assert all(verdict is None or verdict for verdict in verdicts(state, log))


APPENDED = st.sampled_from([*STATE_EVENTS, "progress"]).flatmap(
    lambda type_: st.tuples(st.just(type_), fields_of(FLOW, type_), ACTORS)
)


@pytest.mark.django_db
@few
@given(st.lists(APPENDED | st.tuples(TEXT, st.just({}), ACTORS), max_size=8))
def test_what_is_appended_to_a_log_keeps_it_whole_and_the_rest_is_refused(answer: list[Any]) -> None:
    with rolled_back():
        job = world.created("AgentJob")
        for type_, payload, actor in answer:
            append = partial(agent_job_log.append_event, job.pk, type_, payload=payload, actor=actor)
            refusal = refusal_of(Refusal, append)
            assert refusal is None or refusal.detail
        assert list(agent_job_replay.find_mismatches()) == list(agent_job_replay.find_violations()) == []
