"""A fourteenth machine is one new file: everything else about it is derived."""

from __future__ import annotations

import io
import json
import os
import subprocess
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

from statecore import door, integrity
from statecore.derive import diagrams, pages, versions
from statecore.kernel import checks, registry, triggers
from statecore.kernel.flow import Flow
from statecore.kernel.refusals import GuardFailed, PermissionDenied, TerminalState
from tests import toy
from tests.properties.support import SETTINGS
from tests.properties.walk import Walk
from tests.races.records import is_whole, path
from tests.support import world

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def flow(django_db_setup: None, django_db_blocker: Any) -> Iterator[Flow]:
    with django_db_blocker.unblock(), toy.in_the_database() as found:
        yield found


@pytest.fixture
def turnstile(flow: Flow, db: None) -> Any:
    return world.created("Turnstile")


def manage(*arguments: str) -> str:
    """manage.py of a process in which the file lies in the folder."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.toy", *arguments], cwd=ROOT, env=os.environ, capture_output=True, text=True,
        check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_file_in_the_folder_is_all_it_takes_to_be_listed() -> None:
    machines = json.loads(manage("machines", "--json"))["results"]

    assert len(machines) == 14
    assert "turnstile" in {machine["entity_type"] for machine in machines}


def test_the_file_in_the_folder_is_all_it_takes_to_get_a_migration() -> None:
    said = manage("makemigrations", "statecore", "--dry-run")

    assert said.count("Create model Turnstile") == 1
    assert [line for line in said.splitlines() if line.lstrip().startswith(("+ ", "~ ", "- "))] == [
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
    move = described["moves"][0]
    assert (move["trigger"], move["sources"], move["target"]) == ("coin_inserted", ["locked"], "unlocked")
    assert (move["guards"], move["actors"]) == (["the_coin_is_enough"], ["agent", "system"])


def test_the_command_lists_it(flow: Flow) -> None:
    listed = io.StringIO()
    call_command("machines", stdout=listed)

    (row,) = (line for line in listed.getvalue().splitlines() if line.startswith("turnstile"))
    assert row.split() == ["turnstile", "1.0.0", "3", "3", "locked", "scrapped"]


def test_a_new_machine_needs_no_version_bump(flow: Flow) -> None:
    assert "turnstile" not in " ".join(versions.unversioned_changes(versions.committed(), versions.describe()))


def test_its_page_and_its_diagram_are_written_from_the_declaration(flow: Flow) -> None:
    page, diagram = pages.page(flow), diagrams.mermaid(flow)

    assert "A turnstile: a coin unlocks it" in page
    assert diagram in page
    assert "locked --> unlocked: coin_inserted" in diagram
    assert "turnstile.md" in pages.pages()


def test_the_door_moves_it_and_records_it(turnstile: Any) -> None:
    world.fire(turnstile, "coin_inserted", actor=world.AGENT, coin=3)
    world.fire(turnstile, "pushed", actor=world.AGENT)
    world.fire(turnstile, "scrap_ordered", actor=world.operator())
    heir = door.retry(type(turnstile), turnstile.pk, actor=world.operator()).entity

    assert [trigger for trigger, _state in path(turnstile)] == ["created", "coin_inserted", "pushed", "scrap_ordered"]
    assert (is_whole(turnstile).earned, is_whole(heir).retry_of_id) == (3, turnstile.pk)
    assert world.last_event(turnstile)["event_type"] == "turnstile_state_transition"


def test_the_door_refuses_what_it_does_not_allow(turnstile: Any) -> None:
    with pytest.raises(GuardFailed, match="1 of 2"):
        world.fire(turnstile, "coin_inserted", coin=1)
    with pytest.raises(PermissionDenied):
        world.fire(turnstile, "scrap_ordered", actor=world.AGENT)
    world.forced(turnstile, "scrapped")
    with pytest.raises(TerminalState):
        world.fire(turnstile, "coin_inserted", coin=2)


def test_the_batch_door_moves_many_of_it(flow: Flow, db: None) -> None:
    ids = [world.created("Turnstile", price=price).pk for price in (1, 2, 3)]

    items = door.transition_many(flow.model, ids, "coin_inserted", actor=world.AGENT, params={"coin": 2})

    assert [item.refusal and item.refusal.code for item in items] == [None, None, "guard_failed"]


def test_the_database_guards_it(turnstile: Any) -> None:
    rows = type(turnstile).objects.filter(pk=turnstile.pk)
    table = turnstile._meta.db_table

    assert triggers.missing(connection) == []
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
    with pytest.raises(IntegrityError), world.open_gate():
        rows.update(state="locked", scrapped_at=None)


def test_its_fields_that_only_rise_never_fall(turnstile: Any) -> None:
    world.fire(turnstile, "coin_inserted", coin=5)

    with pytest.raises(IntegrityError), transaction.atomic():
        world.touched(turnstile, earned=0)


def test_operators_get_permissions_of_its_own(turnstile: Any) -> None:
    create_permissions(apps.get_app_config("statecore"), verbosity=0)
    ContentType.objects.clear_cache()
    operator = world.operator_with("operate_turnstile")

    world.fire(turnstile, "scrap_ordered", actor=operator)
    with pytest.raises(PermissionDenied) as refused:
        world.forced(world.created("Turnstile"), "scrapped", actor=operator)

    assert refused.value.facts["required"] == "statecore.override_turnstile"


def test_integrity_looks_after_it(turnstile: Any) -> None:
    world.fire(turnstile, "coin_inserted", coin=2)

    assert integrity.check_all() == []


def test_a_random_walk_over_it_keeps_every_promise(flow: Flow, db: None) -> None:
    run_state_machine_as_test(
        lambda: Walk(lambda: [world.created("Turnstile")]),
        settings=settings(SETTINGS, max_examples=5, stateful_step_count=15),
    )
