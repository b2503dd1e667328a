"""A new machine is one new file: everything else about it is derived."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.management import create_permissions
from django.contrib.contenttypes.models import ContentType
from django.core.management import call_command
from django.db import IntegrityError, connection, transaction
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from statecore import transitions
from statecore.devtools import machine_pages, machine_versions
from statecore.kernel import checks, registry
from statecore.kernel.flow import Flow
from statecore.kernel.refusals import ConstraintViolated, GuardFailed, PermissionDenied, TerminalState
from statecore.operations import integrity
from statecore.read_models.diagrams import mermaid
from statecore.storage import trigger_check
from tests import toy
from tests.properties.support import SETTINGS
from tests.properties.walk import Walk
from tests.races.records import assert_consistent, path
from tests.support import forked, world

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def flow(django_db_setup: None, django_db_blocker: Any) -> Iterator[Flow]:
    with django_db_blocker.unblock(), toy.in_the_database() as found:
        yield found


@pytest.fixture
def turnstile(flow: Flow, db: None) -> Any:
    return world.created("Turnstile")


def manage(*arguments: str) -> str:
    """Runs manage.py in a process with the additional machine and returns its output."""
    done = forked.run([sys.executable, "-m", "tests.toy", *arguments], cwd=ROOT, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_file_in_the_folder_is_all_it_takes_to_be_listed() -> None:
    machines = json.loads(manage("machines", "--json"))["results"]

    ours = {flow.entity_type for flow in registry.flows()} - {toy.NAME}
    assert sorted(machine["entity_type"] for machine in machines) == sorted({*ours, toy.NAME})


def test_the_file_in_the_folder_is_all_it_takes_to_get_a_migration() -> None:
    output = manage("makemigrations", "statecore", "--dry-run")

    assert output.count("Create model Turnstile") == 1
    assert [line for line in output.splitlines() if line.lstrip().startswith(("+ ", "~ ", "- "))] == [
        "    + Create model Turnstile"
    ]


def test_it_is_registered_and_sound(flow: Flow) -> None:
    assert registry.flow("turnstile") is flow
    assert checks.problems(flow) == []
    assert (flow.states, flow.initial, flow.final) == (("locked", "unlocked", "scrapped"), "locked", {"scrapped"})


def test_it_is_described_like_every_machine(flow: Flow) -> None:
    described = flow.describe()

    assert described.keys() == registry.flow("run").describe().keys()
    assert [state["name"] for state in described["states"] if state["terminal"]] == ["scrapped"]
    transition = described["transitions"][0]
    assert (transition["trigger"], transition["sources"], transition["target"]) == (
        "coin_inserted",
        ["locked"],
        "unlocked",
    )
    assert (transition["guards"], transition["actors"]) == (["the_coin_is_enough"], ["agent", "system"])


def test_the_command_lists_it(flow: Flow) -> None:
    listed = io.StringIO()
    call_command("machines", stdout=listed)

    (row,) = (line for line in listed.getvalue().splitlines() if line.startswith("turnstile"))
    assert row.split() == ["turnstile", "1.0.0", "3", "3", "locked", "scrapped"]


def test_a_new_machine_needs_no_version_bump(flow: Flow) -> None:
    assert "turnstile" not in " ".join(
        machine_versions.find_unversioned_changes(
            machine_versions.read_snapshot(), machine_versions.describe_machines()
        )
    )


def test_its_page_and_its_diagram_are_written_from_the_declaration(flow: Flow) -> None:
    page, diagram = machine_pages.render_page(flow), mermaid.render_mermaid(flow)

    assert "A turnstile: a coin unlocks it" in page
    assert diagram in page
    assert "locked --> unlocked: coin_inserted" in diagram
    assert "turnstile.md" in machine_pages.render_pages()


def test_its_transitions_are_made_and_recorded(turnstile: Any) -> None:
    world.fire(turnstile, "coin_inserted", actor=world.AGENT, coin=3)
    world.fire(turnstile, "pushed", actor=world.AGENT)
    world.fire(turnstile, "scrap_ordered", actor=world.operator())
    heir = transitions.retry(type(turnstile), turnstile.pk, actor=world.operator()).entity

    assert [trigger for trigger, _state in path(turnstile)] == ["created", "coin_inserted", "pushed", "scrap_ordered"]
    assert (assert_consistent(turnstile).earned, assert_consistent(heir).retry_of_id) == (3, turnstile.pk)
    assert world.last_event(turnstile)["event_type"] == "turnstile_state_transition"


def test_its_invalid_transitions_are_refused(turnstile: Any) -> None:
    with pytest.raises(GuardFailed, match="1 of 2"):
        world.fire(turnstile, "coin_inserted", coin=1)
    with pytest.raises(PermissionDenied):
        world.fire(turnstile, "scrap_ordered", actor=world.AGENT)
    world.forced(turnstile, "scrapped")
    with pytest.raises(TerminalState):
        world.fire(turnstile, "coin_inserted", coin=2)


def test_a_batch_changes_many_of_it(flow: Flow, db: None) -> None:
    ids = [world.created("Turnstile", price=price).pk for price in (1, 2, 3)]

    items = transitions.transition_many(flow.model, ids, "coin_inserted", actor=world.AGENT, params={"coin": 2})

    assert [item.refusal and item.refusal.code for item in items] == [None, None, "guard_failed"]


def test_the_write_guard_protects_it(turnstile: Any) -> None:
    rows = type(turnstile).objects.filter(pk=turnstile.pk)
    table = turnstile._meta.db_table

    assert trigger_check.find_problems(connection) == []
    for attack in (
        lambda: rows.update(state="unlocked"),
        lambda: rows.update(version=7),
        lambda: connection.cursor().execute(f"UPDATE {table} SET state = 'unlocked'"),
        lambda: connection.cursor().execute(f"DELETE FROM {table}"),
        lambda: type(turnstile).objects.bulk_create([type(turnstile)(id="smuggled")]),
    ):
        with pytest.raises(IntegrityError), transaction.atomic():
            attack()
    world.forced(turnstile, "scrapped")
    with pytest.raises(IntegrityError), world.disable_write_guard():
        rows.update(state="locked", scrapped_at=None)


def test_its_fields_that_only_rise_never_fall(turnstile: Any) -> None:
    world.fire(turnstile, "coin_inserted", coin=5)

    with pytest.raises(ConstraintViolated):
        world.touched(turnstile, earned=0)


def test_it_has_its_own_permissions(turnstile: Any) -> None:
    create_permissions(apps.get_app_config("statecore"), verbosity=0)
    ContentType.objects.clear_cache()
    operator = world.operator_with("operate_turnstile")

    world.fire(turnstile, "scrap_ordered", actor=operator)
    with pytest.raises(PermissionDenied) as refused:
        world.forced(world.created("Turnstile"), "scrapped", actor=operator)

    assert refused.value.facts["required"] == "statecore.override_turnstile"


def test_the_integrity_check_covers_it(turnstile: Any) -> None:
    world.fire(turnstile, "coin_inserted", coin=2)

    assert integrity.check_all() == []


def test_a_random_walk_over_it_keeps_every_guarantee(flow: Flow, db: None) -> None:
    run_state_machine_as_test(
        lambda: Walk(lambda: [world.created("Turnstile")]),
        settings=settings(SETTINGS, max_examples=5, stateful_step_count=15),
    )
