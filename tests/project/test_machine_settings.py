"""The settings of the machines that come from the environment."""

import pytest

from statecore.project import environment
from statecore.project.refusal import Refused


def test_deadlines_are_read_by_machine_and_state() -> None:
    read = environment.read({"STATECORE_DEADLINES": "task.running=3600, run.pending = 60"})
    assert read.deadlines == {"task.running": 3600, "run.pending": 60}


@pytest.mark.parametrize("given", ["task=5", "task.running", "task.running=soon", "task.running=-1"])
def test_a_deadline_that_cannot_be_read_is_refused_by_name(given: str) -> None:
    with pytest.raises(Refused, match="STATECORE_DEADLINES"):
        environment.read({"STATECORE_DEADLINES": given})


def test_transitions_for_a_second_person_are_a_list() -> None:
    read = environment.read({"STATECORE_SECOND_PERSON": "patch_ledger.committed->rolled_back, task.running->completed"})
    assert read.second_person == {"patch_ledger.committed->rolled_back", "task.running->completed"}


def test_without_variables_nothing_is_changed() -> None:
    read = environment.read({})
    assert (read.deadlines, read.second_person, read.start_anyway) == ({}, frozenset(), False)


def test_recovery_is_read_by_machine() -> None:
    read = environment.read({"STATECORE_RECOVERY": "ingestion_job=auto, pipeline_job = approval"})
    assert read.recovery == {"ingestion_job": "auto", "pipeline_job": "approval"}


def test_a_token_that_is_refused_is_not_repeated() -> None:
    with pytest.raises(Refused) as refusal:
        environment.read({"STATECORE_METRICS_TOKEN": "s3cr3t"})
    assert "s3cr3t" not in refusal.value.sentence
