"""Start-up checks refuse a declaration that cannot work, with a stable id."""

from copy import copy
from dataclasses import replace
from datetime import timedelta

import pytest
from django.core.checks import run_checks

from statecore.kernel import registry
from statecore.kernel.checks import problems
from statecore.kernel.flow import Flow

# Checks of Django 6.1 itself read the database.
pytestmark = pytest.mark.django_db


def changed(entity_type: str, **attributes) -> Flow:
    flow = copy(registry.flow(entity_type))
    vars(flow).update(attributes)
    return flow


def ids(flow: Flow) -> set[str]:
    return {problem.id for problem in problems(flow)}


def test_the_machines_as_declared_have_no_problem() -> None:
    assert [problem for flow in registry.flows() for problem in problems(flow)] == []


def test_the_checks_run_with_django() -> None:
    assert [message for message in run_checks() if message.id.startswith("statecore.")] == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("STATECORE_DEADLINES", {"task.sleeping": 5}),
        ("STATECORE_DEADLINES", {"tusk.running": 5}),
        ("STATECORE_SECOND_PERSON", {"task.running->complete"}),
        ("STATECORE_SECOND_PERSON", {"task.running"}),
        ("STATECORE_SECOND_PERSON", {"task->complete"}),
        ("STATECORE_SECOND_PERSON", {"tusk->completed"}),
        ("STATECORE_SECOND_PERSON", {"task->completed supervisor"}),
    ],
)
def test_a_setting_that_names_what_does_not_exist_is_refused(settings, name: str, value) -> None:
    setattr(settings, name, value)
    assert [message.id for message in run_checks()] == ["statecore.E009"]


@pytest.mark.parametrize("machine", ["nothing", "task"])
def test_approving_an_unknown_transition_is_refused(settings, machine: str) -> None:
    settings.STATECORE_RECOVERY = {machine: "approval"}
    assert [message.id for message in run_checks()] == ["statecore.E010"]


def test_settings_that_name_what_exists_are_taken(settings) -> None:
    settings.STATECORE_DEADLINES = {"task.running": 5}
    settings.STATECORE_SECOND_PERSON = {
        "patch_ledger.committed->rolled_back",
        "run->succeeded",
        "task->completed by night shift",
    }
    settings.STATECORE_RECOVERY = {"ingestion_job": "approval"}
    assert run_checks() == []


def test_a_deadline_in_the_settings_counts_and_does_not_change_the_declaration(settings) -> None:
    before = registry.flow("task").describe()
    settings.STATECORE_DEADLINES = {"task.running": 5}
    assert registry.flow("task").deadline("running") == timedelta(seconds=5)
    assert registry.flow("task").describe() == before


def test_an_unreachable_state_is_refused() -> None:
    run = registry.flow("run")
    flow = changed("run", states=(*run.states, "limbo"), timing={**run.timing, "limbo": timedelta(hours=1)})
    assert "statecore.E001" in ids(flow)


def test_a_final_state_with_an_exit_that_no_decision_allows_is_refused() -> None:
    run = registry.flow("run")
    restart = replace(run.transitions[0], sources=("failed",), target="running")
    assert "statecore.E002" in ids(changed("run", transitions=(*run.transitions, restart)))


def test_a_claim_to_leave_a_final_state_that_is_not_one_is_refused() -> None:
    run = registry.flow("run")
    assert "statecore.E002" in ids(
        changed("run", transitions=(replace(run.transitions[0], leaves_final="why"), *run.transitions[1:]))
    )


@pytest.mark.parametrize("timing", [{}, {"failed": timedelta(hours=1)}])
def test_a_state_needs_a_deadline_or_rest_exactly_when_it_is_not_final(timing) -> None:
    assert "statecore.E003" in ids(changed("run", timing=timing))


def test_a_live_state_without_a_way_out_is_refused() -> None:
    run = registry.flow("run")
    stuck = [move for move in run.transitions if "running" not in move.sources]
    assert "statecore.E004" in ids(changed("run", transitions=tuple(stuck)))


def test_a_name_that_is_no_state_is_refused() -> None:
    assert "statecore.E005" in ids(changed("run", final=frozenset({"succeeded", "failed", "canceled", "lost"})))


@pytest.mark.parametrize("version", ["1", "1.0", "one", "1.0.0-beta"])
def test_a_version_that_is_not_semantic_is_refused(version: str) -> None:
    assert ids(changed("run", version=version)) == {"statecore.E006"}


def test_a_name_that_would_need_escaping_is_refused() -> None:
    run = registry.flow("run")
    assert "statecore.E007" in ids(
        changed("run", transitions=(replace(run.transitions[0], trigger='a"b'), *run.transitions[1:]))
    )


def test_transitions_of_a_trigger_with_different_fields_are_refused() -> None:
    task = registry.flow("task")
    moves = tuple(replace(move, params=()) if move.name == "fail" else move for move in task.transitions)
    assert "statecore.E008" in ids(changed("task", transitions=moves))
