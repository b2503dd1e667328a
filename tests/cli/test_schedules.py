"""`template` and `schedule` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

from statecore.records import Phase, Schedule
from statecore.scheduling import occurrences
from tests.cli.process import Statecore

PLAN = {"phase": "PH", "workstreams": [{"id": "w", "tasks": [{"id": "t", "payload": {"of": "${name}"}}]}]}


def test_a_template_is_stored_and_run_on_a_schedule(statecore: Statecore, tmp_path: Path) -> None:
    Phase.objects.get_or_create(id="PH")
    file = tmp_path / "nightly.json"
    file.write_text(json.dumps({"plan": PLAN, "parameters": {"name": {"type": "string"}}}))
    assert statecore("template", "store", "nightly", str(file)).out == "template nightly version 1\n"
    assert "next version" in statecore("template", "store", "nightly", str(file), code=3).err
    assert statecore("template", "store", "nightly", str(file), "--next").out == "template nightly version 2\n"
    assert "nightly" in statecore("template", "list").out
    assert json.loads(statecore("template", "show", "nightly").out)["plan"] == PLAN

    given = ("--id", "s", "--timezone", "Europe/Berlin", "-p", "name=x")
    assert "schedule s: next " in statecore("schedule", "create", "nightly", "0 2 * * *", *given).out
    assert "schedule s: paused: wait" in statecore("schedule", "pause", "s", "--reason", "wait").out
    assert "next" in statecore("schedule", "resume", "s", "--reason", "go").out
    assert "next" in statecore("schedule", "change", "s", "--cron", "0 3 * * *", "--overlap", "allow").out
    assert statecore("schedule", "run", "s").out.startswith("the schedule occurs at ")
    assert occurrences.run_due() == 1
    (occurred,) = statecore("schedule", "occurrences", "s", "--json").json
    assert occurred["outcome"] == "submitted"
    assert "submitted" in statecore("schedule", "list").out
    assert "Europe/Berlin" in statecore("schedule", "show", "s").out


def test_what_means_nothing_is_refused(statecore: Statecore, tmp_path: Path) -> None:
    assert "must be NAME=VALUE" in statecore("schedule", "create", "t", "* * * * *", "-p", "x", code=2).err
    assert "template" in statecore("schedule", "create", "gone", "* * * * *", code=6).err
    assert "has no JSON object" in statecore("template", "store", "t", str(tmp_path / "gone"), code=1).err
    assert not Schedule.objects.exists()
