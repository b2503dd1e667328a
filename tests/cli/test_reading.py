"""get, explain, stuck: for people and for programs."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta

import time_machine

from statecore.kernel.clock import now
from tests.agent.process import submit
from tests.cli.process import Statecore
from tests.support import world
from tests.support.plans import copied
from tests.support.sequencer import ROOT
from tests.support.waiting import line_of


def test_a_list_is_a_table_for_people(statecore: Statecore) -> None:
    submit({"id": "t1"}, {"id": "t2", "depends_on": ["t1"]})

    heading, *rows = statecore("get", "tasks", "-c", "workstream").out.splitlines()

    assert heading.split() == ["ID", "STATE", "FOR", "VERSION", "WORKSTREAM"]
    assert {tuple(row.split()[:2]) for row in rows} == {("t1", "queued"), ("t2", "blocked")}


def test_a_list_is_json_lines_for_programs(statecore: Statecore) -> None:
    submit({"id": "t1"}, {"id": "t2"}, {"id": "t3", "depends_on": ["t1"]})

    found = statecore("get", "tasks", "-f", "state=queued", "--json").json

    assert {each["id"] for each in found} == {"t1", "t2"}
    assert len(statecore("--json", "get", "tasks", "--limit", "1").json) == 1


def test_pages_are_followed(statecore: Statecore) -> None:
    submit(*({"id": f"t{n}"} for n in range(7)))

    found = statecore("get", "tasks", "-f", "page_size=2", "--limit", "0", "--json").json

    assert {each["id"] for each in found} == {f"t{n}" for n in range(7)}


def test_one_entity_and_its_history(statecore: Statecore) -> None:
    submit({"id": "t1", "payload": {"a": "\x1b[31mred"}})

    assert statecore("get", "tasks", "t1", "--json").json[0]["state"] == "queued"
    shown = statecore("get", "tasks", "t1").out
    assert "state" in shown
    assert "\x1b" not in shown
    assert "scheduler_assigned" in statecore("get", "tasks", "t1", "--history").out


def test_why_something_waits_is_told_down_to_the_root(statecore: Statecore) -> None:
    submit({"id": "t1", "required_capabilities": ["git"]}, {"id": "t2", "depends_on": ["t1"]})

    told = statecore("explain", "tasks", "t2").out

    assert "t1" in told
    assert "✗ dependency_satisfied → pending" in told
    assert statecore("explain", "tasks", "t2", "--json").json[0]["waiting_on"]


def test_what_is_stuck_is_listed(statecore: Statecore) -> None:
    with time_machine.travel(now() - timedelta(hours=2)):
        submit({"id": "t1"})

    assert "t1" in statecore("stuck").out
    assert "t1" in {each["id"] for each in statecore("stuck", "--json").json}


def test_all_that_is_stuck_is_listed_where_all_is_asked_for(statecore: Statecore) -> None:
    with time_machine.travel(now() - timedelta(days=2)):
        copied(world.run(), 149)

    assert [len(statecore("stuck", "-n", most, "--json").json) for most in ("0", "120", "7")] == [150, 120, 7]


def test_a_closed_pipe_is_no_error(statecore: Statecore) -> None:
    submit(*({"id": f"t{n}", "payload": {"text": "x" * 2000}} for n in range(200)))
    words = [sys.executable, "-m", "api.cli", "get", "tasks", "--limit", "0", "--json"]
    listing = subprocess.Popen(words, cwd=ROOT, env=statecore.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert listing.stdout
    assert listing.stderr
    line_of(listing.stdout)
    listing.stdout.close()

    assert listing.wait(30) == 141
    assert listing.stderr.read() == b""
    listing.stderr.close()
