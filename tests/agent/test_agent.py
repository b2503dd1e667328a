"""One agent and what can happen to it."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import time_machine

from statecore import door, scheduling, tasks
from statecore.kernel.clock import now
from statecore.machines.task import Task
from statecore.machines.worker import Worker
from tests.agent.process import AgentProcess, is_gone, reaches, state, submit, task
from tests.support import world
from tests.support.site import Site
from tests.support.waiting import until

Start = Callable[..., AgentProcess]
SH = ("--", "/bin/sh", "-c")


def holding(start: Start, folder: Path, *words: str, script: str = "") -> AgentProcess:
    """An agent whose command has begun, and goes on until there is a file `go`."""
    go = f"{script} echo $$ > {folder}/pid; while ! [ -e {folder}/go ]; do sleep 0.02; done; echo went on"
    agent = start(*words, *SH, go)
    until(lambda: (folder / "pid").exists() and (folder / "pid").read_text().strip())
    return agent


def sweeping(condition: Callable[[], bool]) -> None:
    """Wait while retries come due."""

    def swept() -> bool:
        tasks.sweep_tasks()
        return condition()

    until(swept)


def pid_in(folder: Path) -> int:
    return int((folder / "pid").read_text())


def test_a_task_is_done_with_its_payload_and_its_output_is_kept(agents: Start) -> None:
    submit({"id": "t1", "payload": {"file": "a b.txt", "n": [1, 2]}, "required_capabilities": ["git"]})
    script = "import os,sys,json; print(os.environ['STATECORE_TASK_ID'], os.environ['STATECORE_ATTEMPT']); "
    script += "print(json.load(sys.stdin) == json.loads(os.environ['STATECORE_PAYLOAD'])); "
    script += "print('STATECORE_TOKEN' in os.environ, file=sys.stderr)"
    agent = agents("--capability", "python", "--capability", "git", "--", sys.executable, "-c", script)

    reaches("t1", "completed")

    done = task("t1")
    assert sorted(done.output.splitlines()) == ["False", "True", "t1 1"]
    assert done.exit_code == 0
    until(lambda: "t1: done" in agent.said())
    assert {"[t1] t1 1", "[t1] True", "[t1] False"} == set(agent.showed().splitlines())


def test_it_leaves_alone_what_it_cannot_do(agents: Start) -> None:
    submit({"id": "t1", "required_capabilities": ["git"]}, {"id": "t2"})
    agents("--capability", "python", "--", "/bin/true")

    reaches("t2", "completed")

    assert state("t1") == "queued"


def test_a_failure_is_reported_and_tried_again(agents: Start, tmp_path: Path) -> None:
    submit({"id": "t1", "max_retries": 1})
    agents(*SH, f"if [ -e {tmp_path}/again ]; then exit 0; fi; touch {tmp_path}/again; echo bad luck; exit 7")

    reaches("t1", "retrying")
    assert (task("t1").last_error, task("t1").exit_code, task("t1").output) == ("exit code 7", 7, "bad luck\n")
    sweeping(lambda: state("t1") != "retrying")
    reaches("t1", "completed")
    assert task("t1").attempt == 2


def test_an_exit_code_that_is_expected_is_a_success(agents: Start) -> None:
    submit({"id": "t1", "expected_exit_codes": [0, 3]})
    agents(*SH, "exit 3")

    reaches("t1", "completed")


def test_a_command_that_takes_too_long_is_ended_and_has_failed(agents: Start) -> None:
    submit({"id": "t1", "timeout_sec": 1, "max_retries": 0})
    agents("--", "/bin/sleep", "60")

    reaches("t1", "failed")
    assert task("t1").last_error == "timed out after 1 s"


def test_a_task_may_take_years(agents: Start) -> None:
    submit({"id": "t1", "timeout_sec": 2**31 - 1})
    agents("--", "/bin/echo", "done")
    reaches("t1", "completed")


def test_a_cancelled_task_is_ended_with_all_it_started(agents: Start, tmp_path: Path) -> None:
    submit({"id": "t1"}, {"id": "t2", "depends_on": ["t1"]})
    agent = holding(agents, tmp_path, script=f"sleep 60 & echo $! > {tmp_path}/child;")
    child = int((tmp_path / "child").read_text())

    door.transition(Task, "t1", "user_cancelled", actor=world.operator(), reason="not needed")

    until(lambda: is_gone(pid_in(tmp_path)) and is_gone(child))
    agent.says("t1: it was cancelled")
    assert agent.lives()
    assert state("t1") == "cancelled"


def test_after_a_cancelled_task_it_takes_the_next(agents: Start, tmp_path: Path) -> None:
    submit({"id": "t1"}, {"id": "t2"})
    holding(agents, tmp_path)
    held, other = ("t1", "t2") if state("t1") == "running" else ("t2", "t1")

    door.transition(Task, held, "user_cancelled", actor=world.operator(), reason="not needed")
    until(lambda: state(other) == "running")
    (tmp_path / "go").touch()

    reaches(other, "completed")


def test_a_drained_agent_finishes_its_task_and_leaves(agents: Start, tmp_path: Path) -> None:
    submit({"id": "t1"}, {"id": "t2"})
    agent = holding(agents, tmp_path)
    scheduling.drain(Worker.objects.get().pk, actor=world.operator())
    agent.says("asked to shut down, after this task")

    (tmp_path / "go").touch()

    assert agent.wait() == 0
    assert sorted((state("t1"), state("t2"))) == ["completed", "queued"]
    assert Worker.objects.get().state == "shutdown"


def test_a_worker_that_is_drained_while_it_waits_leaves(agents: Start) -> None:
    agent = agents("--", "/bin/true")
    agent.says("registered")

    scheduling.drain(Worker.objects.get().pk, actor=world.operator())

    assert agent.wait() == 0
    assert "shut down" in agent.said()


def test_term_lets_it_finish_its_task(agents: Start, tmp_path: Path) -> None:
    submit({"id": "t1"}, {"id": "t2"})
    agent = holding(agents, tmp_path)
    agent.signal(signal.SIGTERM)
    agent.says("finishing the running task")

    (tmp_path / "go").touch()

    assert agent.wait() == 0
    assert sorted((state("t1"), state("t2"))) == ["completed", "queued"]
    assert Worker.objects.get().state == "shutdown"


def test_term_while_it_waits_for_a_task_is_heard_at_once(agents: Start) -> None:
    agent = agents("--wait", "25", "--", "/bin/true")
    agent.says("registered")
    started = time.monotonic()

    agent.signal(signal.SIGTERM)

    assert agent.wait() == 0
    assert time.monotonic() - started < 10
    assert Worker.objects.get().state == "shutdown"


def test_a_second_term_ends_the_command_and_hands_the_task_on(agents: Start, tmp_path: Path) -> None:
    submit({"id": "t1"})
    agent = holding(agents, tmp_path)
    agent.signal(signal.SIGTERM)
    agent.says("finishing")

    agent.signal(signal.SIGTERM)

    assert agent.wait() == 128 + signal.SIGTERM
    assert is_gone(pid_in(tmp_path))
    assert Worker.objects.get().state == "shutdown"
    assert (state("t1"), task("t1").last_error) == ("retrying", "the agent was ended")


def test_a_killed_agent_leaves_nothing_running_and_its_task_is_done_by_another(agents: Start, tmp_path: Path) -> None:
    submit({"id": "t1"})
    agent = holding(agents, tmp_path)
    agent.kill()
    until(lambda: is_gone(pid_in(tmp_path)))

    for minutes in (3, 10):  # silent, and then silent for too long
        with time_machine.travel(now() + timedelta(minutes=minutes)):
            tasks.sweep_workers()
    assert Worker.objects.get().state == "shutdown"
    agents("--", "/bin/true", name="second")
    with time_machine.travel(now() + timedelta(minutes=11)):
        tasks.sweep_tasks()

    reaches("t1", "completed")
    assert task("t1").attempt == 2


def test_a_lost_lease_is_said_and_the_result_dropped(agents: Start, tmp_path: Path) -> None:
    submit({"id": "t1"})
    agent = holding(agents, tmp_path, "--heartbeat", "30")
    door.override(Task, "t1", "pending", actor=world.operator(), reason="taken away from it by hand", category="other")

    (tmp_path / "go").touch()

    agent.says("t1: the result is dropped: lease_lost")
    assert agent.lives()


def test_a_result_outlives_a_restart_of_the_server(site: Site, agents: Start, tmp_path: Path) -> None:
    submit({"id": "t1"})
    agent = holding(agents, tmp_path)
    site.end()
    agent.says("no heartbeat got through")
    (tmp_path / "go").touch()
    until(lambda: "went on" in agent.showed())

    site.start()

    reaches("t1", "completed")
    assert task("t1").output == "went on\n"
    agent.says("the server is back")


def test_several_tasks_run_at_once(agents: Start, tmp_path: Path) -> None:
    submit(*({"id": f"t{n}"} for n in range(3)))
    script = (
        f"touch {tmp_path}/$STATECORE_TASK_ID; while ! [ -e {tmp_path}/t0 -a -e {tmp_path}/t1 -a -e {tmp_path}/t2 ]"
    )
    agents("--concurrency", "3", *SH, f"{script}; do sleep 0.02; done")

    for n in range(3):
        reaches(f"t{n}", "completed")
    assert Worker.objects.count() == 3


def test_output_without_end_is_bounded(agents: Start) -> None:
    submit({"id": "t1"})
    agents("--", sys.executable, "-c", "print('x' * 1_000_000); print('the end')")

    reaches("t1", "completed")
    kept = task("t1").output
    assert len(kept) < 70_000
    assert "bytes left out" in kept
    assert kept.endswith("the end\n")


def test_a_token_that_is_no_good_ends_it_with_a_sentence(agents: Start) -> None:
    agent = agents("--", "/bin/true", token="stc_wrong")

    assert agent.wait() == 4
    assert "not_authenticated" in agent.said()
    assert "Traceback" not in agent.said()


def test_a_command_that_is_not_there_is_refused_before_anything_else(agents: Start) -> None:
    agent = agents("--", "no-such-program-anywhere")

    assert agent.wait() == 6
    assert agent.said() == "statecore: no-such-program-anywhere is not a program that can be run\n"
    assert not Worker.objects.exists()


def test_a_worker_that_was_given_up_registers_again(agents: Start) -> None:
    agent = agents("--wait", "1", "--", "/bin/true")
    agent.says("registered")
    first = Worker.objects.get().pk
    world.forced(Worker.objects.get(), "unresponsive")
    with time_machine.travel(now() + timedelta(minutes=10)):
        tasks.sweep_workers()

    agent.says("was given up after a long silence, registering again")
    submit({"id": "t1"})

    reaches("t1", "completed")
    assert Worker.objects.get(pk=first).state == "shutdown"
    assert Worker.objects.count() == 2
