"""One agent: results, retries, cancellation, signals, and server restarts."""

from __future__ import annotations

import re
import signal
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import time_machine

from statecore import scheduling, tasks, transitions
from statecore.kernel.clock import now
from statecore.machines.task import Task
from statecore.machines.worker import Worker
from tests.agent.process import AgentProcess, is_gone, state, submit, task, wait_for_state
from tests.support import world
from tests.support.site import Site
from tests.support.waiting import until

Start = Callable[..., AgentProcess]
SH = ("--", "/bin/sh", "-c")


def start_and_hold(start: Start, folder: Path, *words: str, script: str = "") -> AgentProcess:
    """Start an agent and wait for its command to begin; the command runs until the file `go` exists."""
    go = f"{script} echo $$ > {folder}/pid; while ! [ -e {folder}/go ]; do sleep 0.02; done; echo continued"
    agent = start(*words, *SH, go)
    until(lambda: (folder / "pid").exists() and (folder / "pid").read_text().strip())
    return agent


def sweep_until(condition: Callable[[], bool]) -> None:
    """Run the task sweep until the condition is true."""

    def sweep_and_check() -> bool:
        tasks.sweep_tasks()
        return condition()

    until(sweep_and_check)


def read_pid(folder: Path) -> int:
    return int((folder / "pid").read_text())


def test_a_command_receives_its_payload_and_its_output_is_stored(agents: Start) -> None:
    submit({"id": "t1", "payload": {"file": "a b.txt", "n": [1, 2]}, "required_capabilities": ["git"]})
    script = "import os,sys,json; print(os.environ['STATECORE_TASK_ID'], os.environ['STATECORE_ATTEMPT']); "
    script += "print(json.load(sys.stdin) == json.loads(os.environ['STATECORE_PAYLOAD'])); "
    script += "print('STATECORE_TOKEN' in os.environ, file=sys.stderr)"
    agent = agents("--capability", "python", "--capability", "git", "--", sys.executable, "-c", script)

    wait_for_state("t1", "completed")

    done = task("t1")
    assert sorted(done.output.splitlines()) == ["False", "True", "t1 1"]
    assert done.exit_code == 0
    until(lambda: "t1: done" in agent.read_log())
    assert {"[t1] t1 1", "[t1] True", "[t1] False"} == set(agent.read_output().splitlines())


def test_an_agent_skips_tasks_whose_capabilities_it_lacks(agents: Start) -> None:
    submit({"id": "t1", "required_capabilities": ["git"]}, {"id": "t2"})
    agents("--capability", "python", "--", "/bin/true")

    wait_for_state("t2", "completed")

    assert state("t1") == "queued"


def test_a_failure_is_reported_and_retried(agents: Start, tmp_path: Path) -> None:
    submit({"id": "t1", "max_retries": 1})
    agents(*SH, f"if [ -e {tmp_path}/again ]; then exit 0; fi; touch {tmp_path}/again; echo bad luck; exit 7")

    wait_for_state("t1", "retrying")
    assert (task("t1").last_error, task("t1").exit_code, task("t1").output) == ("exit code 7", 7, "bad luck\n")
    sweep_until(lambda: state("t1") != "retrying")
    wait_for_state("t1", "completed")
    assert task("t1").attempt == 2


def test_an_expected_exit_code_is_a_success(agents: Start) -> None:
    submit({"id": "t1", "expected_exit_codes": [0, 3]})
    agents(*SH, "exit 3")

    wait_for_state("t1", "completed")


def test_a_command_that_exceeds_its_timeout_is_killed_and_fails(agents: Start) -> None:
    submit({"id": "t1", "timeout_sec": 1, "max_retries": 0})
    agents("--", "/bin/sleep", "60")

    wait_for_state("t1", "failed")
    assert task("t1").last_error == "timed out after 1 s"


def test_a_timeout_of_many_years_is_accepted(agents: Start) -> None:
    submit({"id": "t1", "timeout_sec": 2**31 - 1})
    agents("--", "/bin/echo", "done")
    wait_for_state("t1", "completed")


def test_cancelling_a_task_kills_its_command_and_child_processes(agents: Start, tmp_path: Path) -> None:
    submit({"id": "t1"}, {"id": "t2", "depends_on": ["t1"]})
    agent = start_and_hold(agents, tmp_path, script=f"sleep 60 & echo $! > {tmp_path}/child;")
    child = int((tmp_path / "child").read_text())

    transitions.transition(Task, "t1", "user_cancelled", actor=world.operator(), reason="not needed")

    until(lambda: is_gone(read_pid(tmp_path)) and is_gone(child))
    agent.wait_for_log("t1: it was cancelled")
    assert agent.is_running()
    assert state("t1") == "cancelled"


def test_an_agent_takes_the_next_task_after_a_cancellation(agents: Start, tmp_path: Path) -> None:
    submit({"id": "t1"}, {"id": "t2"})
    start_and_hold(agents, tmp_path)
    held, other = ("t1", "t2") if state("t1") == "running" else ("t2", "t1")

    transitions.transition(Task, held, "user_cancelled", actor=world.operator(), reason="not needed")
    until(lambda: state(other) == "running")
    (tmp_path / "go").touch()

    wait_for_state(other, "completed")


def test_a_drained_agent_finishes_its_task_and_exits(agents: Start, tmp_path: Path) -> None:
    submit({"id": "t1"}, {"id": "t2"})
    agent = start_and_hold(agents, tmp_path)
    scheduling.drain_worker(Worker.objects.get().pk, actor=world.operator())
    agent.wait_for_log("the server requests a shutdown, after this task")

    (tmp_path / "go").touch()

    assert agent.wait() == 0
    assert sorted((state("t1"), state("t2"))) == ["completed", "queued"]
    assert Worker.objects.get().state == "shutdown"


def test_an_idle_agent_exits_when_drained(agents: Start) -> None:
    agent = agents("--", "/bin/true")
    agent.wait_for_log("registered")

    scheduling.drain_worker(Worker.objects.get().pk, actor=world.operator())

    assert agent.wait() == 0
    # A refused claim or the reply to a heartbeat, whichever comes first.
    assert re.search("shut down|requests a shutdown", agent.read_log())


def test_sigterm_lets_the_agent_finish_its_task(agents: Start, tmp_path: Path) -> None:
    submit({"id": "t1"}, {"id": "t2"})
    agent = start_and_hold(agents, tmp_path)
    agent.signal(signal.SIGTERM)
    agent.wait_for_log("finishing the running task")

    (tmp_path / "go").touch()

    assert agent.wait() == 0
    assert sorted((state("t1"), state("t2"))) == ["completed", "queued"]
    assert Worker.objects.get().state == "shutdown"


def test_sigterm_stops_an_idle_agent_at_once(agents: Start) -> None:
    agent = agents("--wait", "25", "--", "/bin/true")
    agent.wait_for_log("registered")
    started = time.monotonic()

    agent.signal(signal.SIGTERM)

    assert agent.wait() == 0
    assert time.monotonic() - started < 10
    assert Worker.objects.get().state == "shutdown"


def test_a_second_sigterm_kills_the_command_and_releases_the_task(agents: Start, tmp_path: Path) -> None:
    submit({"id": "t1"})
    agent = start_and_hold(agents, tmp_path)
    agent.signal(signal.SIGTERM)
    agent.wait_for_log("finishing")

    agent.signal(signal.SIGTERM)

    assert agent.wait() == 128 + signal.SIGTERM
    assert is_gone(read_pid(tmp_path))
    assert Worker.objects.get().state == "shutdown"
    assert (state("t1"), task("t1").last_error) == ("retrying", "the agent was terminated")


def test_a_killed_agent_leaves_no_process_and_another_agent_completes_its_task(agents: Start, tmp_path: Path) -> None:
    submit({"id": "t1"})
    agent = start_and_hold(agents, tmp_path)
    agent.kill()
    until(lambda: is_gone(read_pid(tmp_path)))

    for minutes in (3, 10):  # first unresponsive, then shut down
        with time_machine.travel(now() + timedelta(minutes=minutes)):
            tasks.sweep_workers()
    assert Worker.objects.get().state == "shutdown"
    agents("--", "/bin/true", name="second")
    with time_machine.travel(now() + timedelta(minutes=11)):
        tasks.sweep_tasks()

    wait_for_state("t1", "completed")
    assert task("t1").attempt == 2


def test_a_lost_lease_is_logged_and_the_result_dropped(agents: Start, tmp_path: Path) -> None:
    submit({"id": "t1"})
    agent = start_and_hold(agents, tmp_path, "--heartbeat", "30")
    transitions.override(
        Task, "t1", "pending", actor=world.operator(), reason="taken away from it by hand", category="other"
    )

    (tmp_path / "go").touch()

    agent.wait_for_log("t1: the result is dropped: lease_lost")
    assert agent.is_running()


def test_a_result_survives_a_restart_of_the_server(site: Site, agents: Start, tmp_path: Path) -> None:
    submit({"id": "t1"})
    agent = start_and_hold(agents, tmp_path)
    site.end()
    agent.wait_for_log("heartbeats fail, retrying")
    (tmp_path / "go").touch()
    until(lambda: "continued" in agent.read_output())

    site.start()

    wait_for_state("t1", "completed")
    assert task("t1").output == "continued\n"
    agent.wait_for_log("the server responds again")


def test_several_tasks_run_concurrently(agents: Start, tmp_path: Path) -> None:
    submit(*({"id": f"t{n}"} for n in range(3)))
    script = (
        f"touch {tmp_path}/$STATECORE_TASK_ID; while ! [ -e {tmp_path}/t0 -a -e {tmp_path}/t1 -a -e {tmp_path}/t2 ]"
    )
    agents("--concurrency", "3", *SH, f"{script}; do sleep 0.02; done")

    for n in range(3):
        wait_for_state(f"t{n}", "completed")
    assert Worker.objects.count() == 3


def test_stored_output_is_truncated(agents: Start) -> None:
    submit({"id": "t1"})
    agents("--", sys.executable, "-c", "print('x' * 1_000_000); print('the end')")

    wait_for_state("t1", "completed")
    output = task("t1").output
    assert len(output) < 70_000
    assert "bytes omitted" in output
    assert output.endswith("the end\n")


def test_an_invalid_token_ends_the_agent_with_an_error_message(agents: Start) -> None:
    agent = agents("--", "/bin/true", token="stc_wrong")

    assert agent.wait() == 4
    assert "not_authenticated" in agent.read_log()
    assert "Traceback" not in agent.read_log()


def test_a_missing_command_is_refused_before_registration(agents: Start) -> None:
    agent = agents("--", "no-such-program-anywhere")

    assert agent.wait() == 6
    assert agent.read_log() == "statecore: no-such-program-anywhere is not an executable program\n"
    assert not Worker.objects.exists()


def test_an_agent_registers_again_after_its_worker_was_shut_down(agents: Start) -> None:
    agent = agents("--wait", "1", "--", "/bin/true")
    agent.wait_for_log("registered")
    first = Worker.objects.get().pk
    world.forced(Worker.objects.get(), "unresponsive")
    with time_machine.travel(now() + timedelta(minutes=10)):
        tasks.sweep_workers()

    agent.wait_for_log("was shut down after missed heartbeats, registering again")
    submit({"id": "t1"})

    wait_for_state("t1", "completed")
    assert Worker.objects.get(pk=first).state == "shutdown"
    assert Worker.objects.count() == 2


def test_an_agent_says_that_its_server_does_not_respond(tmp_path: Path) -> None:
    agent = AgentProcess(tmp_path, "http://127.0.0.1:9", "stc_none", "--capability", "x", *SH, "true")
    try:
        agent.wait_for_log("trying until the server responds")
    finally:
        agent.kill()
