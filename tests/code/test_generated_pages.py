"""The files generated from the declarations are committed and up to date."""

import json
from copy import deepcopy
from io import StringIO

import pytest
from django.core.management import call_command

from statecore.devtools import documents, machine_versions
from statecore.kernel import registry


def test_generated_files_are_up_to_date() -> None:
    assert documents.find_outdated() == [], "run manage.py machines --docs"


def test_every_machine_has_a_page_with_its_diagram() -> None:
    for flow in registry.flows():
        page = (machine_versions.FOLDER / f"{flow.entity_type}.md").read_text()
        assert "stateDiagram-v2" in page
        assert all(f"`{trigger}`" in page for trigger in flow.triggers)


def test_checking_the_committed_versions_does_not_raise() -> None:
    call_command("machines", check=True, stdout=StringIO())


def test_the_json_has_the_shape_of_the_api() -> None:
    out = StringIO()
    call_command("machines", json=True, stdout=out)
    results = json.loads(out.getvalue())["results"]
    assert {machine["entity_type"] for machine in results} == {flow.entity_type for flow in registry.flows()}
    for machine in results:
        assert {"entity_type", "version", "initial", "states", "transitions"} <= machine.keys()
        assert all({"name", "terminal", "deadline_seconds"} <= state.keys() for state in machine["states"])
        members = {"trigger", "sources", "target", "kind", "guards", "actors"}
        assert all(members <= each.keys() for each in machine["transitions"])


def test_the_table_names_every_machine() -> None:
    out = StringIO()
    call_command("machines", stdout=out)
    assert [line.split()[0] for line in out.getvalue().splitlines()[1:]] == list(machine_versions.describe_machines())


def changed_run(change) -> list[str]:
    old = {"run": {**machine_versions.describe_machines()["run"], "version": "1.0.0"}}
    new = deepcopy(old)
    change(new["run"])
    return list(machine_versions.find_unversioned_changes(old, new))


def drop_a_transition(run: dict) -> None:
    run["transitions"].pop()


def add_a_transition(run: dict) -> None:
    run["transitions"].append({**run["transitions"][0], "trigger": "run_paused"})


def add_a_state(run: dict) -> None:
    run["states"].append({"name": "paused", "terminal": False, "deadline_seconds": 60, "may_rest": None})


def change_a_guard(run: dict) -> None:
    run["transitions"][0]["guards"] = ["something_else"]


@pytest.mark.parametrize(
    ("change", "needed", "enough", "too_little"),
    [
        (drop_a_transition, "major", "2.0.0", "1.9.0"),
        (add_a_state, "minor", "1.1.0", "1.0.1"),
        (add_a_transition, "minor", "1.1.0", "1.0.9"),
        (change_a_guard, "patch", "1.0.1", "1.0.0"),
    ],
)
def test_a_change_requires_a_matching_version_bump(change, needed: str, enough: str, too_little: str) -> None:
    def with_version(version: str):
        return lambda run: (change(run), run.update(version=version))

    assert needed in changed_run(with_version(too_little))[0]
    assert changed_run(with_version(enough)) == []


def test_a_removed_machine_is_reported() -> None:
    old = machine_versions.describe_machines()
    assert list(machine_versions.find_unversioned_changes(old, {k: v for k, v in old.items() if k != "run"}))
