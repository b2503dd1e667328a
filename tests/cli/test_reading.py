"""get, explain and stuck, as tables and as JSON lines."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta

import time_machine

from statecore.kernel.clock import now
from tests.agent.process import submit
from tests.cli.process import Statecore
from tests.support import forked, world
from tests.support.plans import insert_copies
from tests.support.sequencer import ROOT
from tests.support.waiting import read_line


def test_a_list_is_printed_as_a_table(statecore: Statecore) -> None:
    submit({"id": "t1"}, {"id": "t2", "depends_on": ["t1"]})

    heading, *rows = statecore("get", "tasks", "-c", "workstream").out.splitlines()

    assert heading.split() == ["ID", "STATE", "FOR", "VERSION", "WORKSTREAM"]
    assert {tuple(row.split()[:2]) for row in rows} == {("t1", "queued"), ("t2", "blocked")}


def test_a_list_is_printed_as_json_lines(statecore: Statecore) -> None:
    submit({"id": "t1"}, {"id": "t2"}, {"id": "t3", "depends_on": ["t1"]})

    found = statecore("get", "tasks", "-f", "state=queued", "--json").json

    assert {each["id"] for each in found} == {"t1", "t2"}
    assert len(statecore("--json", "get", "tasks", "--limit", "1").json) == 1


def test_pages_are_followed(statecore: Statecore) -> None:
    submit(*({"id": f"t{n}"} for n in range(7)))

    found = statecore("get", "tasks", "-f", "page_size=2", "--limit", "0", "--json").json

    assert {each["id"] for each in found} == {f"t{n}" for n in range(7)}


def test_get_prints_one_entity_and_its_history(statecore: Statecore) -> None:
    submit({"id": "t1", "payload": {"a": "\x1b[31mred"}})

    assert statecore("get", "tasks", "t1", "--json").json[0]["state"] == "queued"
    shown = statecore("get", "tasks", "t1").out
    assert "state" in shown
    assert "\x1b" not in shown
    assert "scheduler_assigned" in statecore("get", "tasks", "t1", "--history").out


def test_text_of_several_lines_is_printed_as_lines(statecore: Statecore) -> None:
    output = "first\r\n\tsecond\n\nlast \x1b[31mred\x07\x9b2J\rover\n"
    task = world.running_task()
    world.fire(task, "execution_completed", exit_code=0, output=output, attempt=1)

    shown = statecore("get", "tasks", task.pk).out

    assert "output:\n  first\n          second\n\n  last �[31mred��2J�over\n" in shown
    assert not {"\x1b", "\x07", "\x9b", "\r"} & set(shown)
    assert statecore("get", "tasks", task.pk, "--json").json[0]["output"] == output
    table = statecore("get", "tasks", "-c", "output").out
    assert len(table.splitlines()) == 2
    assert "first         second  last �[31mred" in table


def test_the_streams_of_a_gate_are_printed_as_lines(statecore: Statecore) -> None:
    streams = {"stdout": "1 passed\n1 failed\n", "stderr": "Traceback\n  File\n"}
    running_gate = world.fire(world.gate(), "gate_started")
    gate = world.fire(running_gate, "gate_failed", exit_code=1, duration_sec=1.0, **streams)

    shown = statecore("get", "gates", gate.pk).out

    assert "stdout:\n  1 passed\n  1 failed\n" in shown
    assert "stderr:\n  Traceback\n    File\n" in shown
    assert "�" not in shown


def test_explain_follows_the_cause_to_its_root(statecore: Statecore) -> None:
    submit({"id": "t1", "required_capabilities": ["git"]}, {"id": "t2", "depends_on": ["t1"]})

    output = statecore("explain", "tasks", "t2").out

    assert "t1" in output
    assert "✗ dependency_satisfied → pending" in output
    assert statecore("explain", "tasks", "t2", "--json").json[0]["waiting_on"]


def test_explain_prints_a_cause_without_a_chain_once(statecore: Statecore) -> None:
    submit({"id": "t1", "required_capabilities": ["git"]})

    assert statecore("explain", "tasks", "t1").out.count("there is no live worker") == 1


def test_stuck_lists_stuck_rows(statecore: Statecore) -> None:
    with time_machine.travel(now() - timedelta(hours=2)):
        submit({"id": "t1"})

    assert "t1" in statecore("stuck").out
    assert "t1" in {each["id"] for each in statecore("stuck", "--json").json}


def test_stuck_respects_its_limit(statecore: Statecore) -> None:
    with time_machine.travel(now() - timedelta(days=2)):
        insert_copies(world.run(), 149)

    assert [len(statecore("stuck", "-n", most, "--json").json) for most in ("0", "120", "7")] == [150, 120, 7]


def test_a_closed_pipe_is_not_an_error(statecore: Statecore) -> None:
    submit(*({"id": f"t{n}", "payload": {"text": "x" * 2000}} for n in range(200)))
    words = [sys.executable, "-m", "statecore_client.cli", "get", "tasks", "--limit", "0", "--json"]
    listing = forked.Popen(words, cwd=ROOT, env=statecore.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert listing.stdout
    assert listing.stderr
    read_line(listing.stdout)
    listing.stdout.close()

    assert listing.wait(30) == 141
    assert listing.stderr.read() == b""
    listing.stderr.close()
