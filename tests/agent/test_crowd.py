"""Twenty agents finish a plan of five hundred tasks although the server is killed twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from statecore.journal import Event
from statecore.machines.run import Run
from statecore.machines.task import Task
from statecore.machines.worker import Worker
from statecore.operations import integrity
from tests.agent.process import AgentProcess, submit
from tests.support.site import Site
from tests.support.waiting import until

pytestmark = pytest.mark.slow

AGENTS, TASKS = 20, 500


def count_completed() -> int:
    return Task.objects.filter(state="completed").count()


def test_every_task_runs_exactly_once_although_the_server_is_killed(
    site: Site, agents: Callable[..., AgentProcess], tmp_path: Path
) -> None:
    submit(*({"id": f"t{n}", "depends_on": [f"t{n - 1}"] if n % 5 else []} for n in range(TASKS)))
    # Each run of the command appends a line, so a task that ran twice shows up independently of the database.
    ledger = tmp_path / "ledger"
    script = f'echo "$STATECORE_TASK_ID" >> {ledger}'
    crowd = [agents("--heartbeat", "5", "--", "/bin/sh", "-c", script, name=f"agent{n}") for n in range(AGENTS)]
    until(lambda: Worker.objects.count() == AGENTS and count_completed() > TASKS // 10, 180)

    site.end()
    site.start()
    until(lambda: count_completed() > TASKS // 2, 180)
    site.end()
    site.start()
    until(lambda: Run.objects.get().state == "succeeded", 180)

    assert count_completed() == TASKS
    assert Counter(ledger.read_text().split()) == {f"t{n}": 1 for n in range(TASKS)}
    reported = Event.objects.filter(trigger="execution_completed").values_list("entity_id", flat=True)
    assert Counter(reported) == {f"t{n}": 1 for n in range(TASKS)}
    assert all(agent.is_running() for agent in crowd)
    assert list(integrity.check_all()) == []
