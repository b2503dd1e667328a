"""Whether executors do a work is a fact that all processes share, whatever their settings."""

from typing import Any

import pytest
from django.core.management import call_command

from statecore.executors import compensation
from statecore.kernel.refusals import PermissionDenied
from statecore.operations.doctor import services
from statecore.project import startup
from statecore.records import ExecutorWork, executor_work
from statecore.storage.roles import EXECUTOR, READER, WEB, list_rights
from tests.support import world

pytestmark = pytest.mark.django_db


@pytest.fixture
def declared(settings: Any) -> None:
    """An executor has started elsewhere; this process has none of its settings."""
    settings.STATECORE_GATE_COMMANDS = ("true",)
    executor_work.declare()
    executor_work.declare()
    settings.STATECORE_GATE_COMMANDS = ()


def start_gate() -> Any:
    return world.fire(world.gate(), "gate_started", actor=world.INTEGRATOR)


def test_an_integrator_runs_gates_where_no_executors_are() -> None:
    executor_work.declare()
    assert start_gate().state == "RUNNING"


@pytest.mark.usefixtures("declared")
def test_a_process_without_the_settings_of_the_executors_refuses_integrators() -> None:
    with pytest.raises(PermissionDenied, match="executors only"):
        start_gate()


@pytest.mark.usefixtures("declared")
def test_the_default_plan_of_a_rollback_has_the_checks_of_executors_elsewhere() -> None:
    patch = world.forced(world.patch(), "committed")
    world.gate(workstream=patch.workstream)
    expected = {"required_gates": ["UNIT"], "verify_clean_state": False}
    assert compensation.default_plan(patch)["validation"] == expected


@pytest.mark.usefixtures("declared")
def test_only_declared_work_is_refused() -> None:
    patch = world.patch()
    assert world.fire(patch, "validation_failed", actor=world.INTEGRATOR, error="no").state == "quarantined"


@pytest.mark.usefixtures("declared")
def test_integrators_continue_when_the_owner_has_taken_the_declarations_back(capsys) -> None:
    call_command("executors")
    assert capsys.readouterr().out.startswith("STATECORE_GATE_COMMANDS\t")
    call_command("executors", "--off")
    assert capsys.readouterr().out == "1 declarations taken back\n"
    assert start_gate().state == "RUNNING"


@pytest.mark.usefixtures("declared")
def test_the_doctor_and_the_start_report_settings_that_differ(settings: Any, caplog) -> None:
    (found,) = services.check_executor_work()
    assert (found.level, "STATECORE_GATE_COMMANDS is not set here" in found.message) == ("error", True)
    startup.check_executor_work()
    assert "executors_unknown" in caplog.text
    settings.STATECORE_GATE_COMMANDS = ("true",)
    assert [each.level for each in services.check_executor_work()] == ["ok"]


def test_no_process_can_take_a_declaration_back() -> None:
    table = ExecutorWork._meta.db_table
    rights = [list_rights(role)[table] for role in (WEB, EXECUTOR, READER)]
    assert rights == ["SELECT", "SELECT, INSERT", "SELECT"]
