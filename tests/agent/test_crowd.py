"""Twenty agents finish a plan of five hundred tasks, while the server is killed under them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from statecore import integrity
from statecore.journal import Event
from statecore.machines.run import Run
from statecore.machines.task import Task
from statecore.machines.worker import Worker
from tests.agent.process import AgentProcess, submit
from tests.support.site import Site
from tests.support.waiting import until

AGENTS, TASKS = 20, 500


def done() -> int:
    return Task.objects.filter(state="completed").count()


def test_every_task_is_done_exactly_once_though_the_server_is_killed(
    site: Site, agents: Callable[..., AgentProcess], tmp_path: Path
) -> None:
    submit(*({"id": f"t{n}", "depends_on": [f"t{n - 1}"] if n % 5 else []} for n in range(TASKS)))
    # Each run of a command leaves a line: what was done twice would show, whatever the server believes.
    ledger = tmp_path / "ledger"
    script = f'echo "$STATECORE_TASK_ID" >> {ledger}'
    crowd = [agents("--heartbeat", "5", "--", "/bin/sh", "-c", script, name=f"agent{n}") for n in range(AGENTS)]
    until(lambda: Worker.objects.count() == AGENTS and done() > TASKS // 10, 180)

    site.end()
    site.start()
    until(lambda: done() > TASKS // 2, 180)
    site.end()
    site.start()
    until(lambda: Run.objects.get().state == "succeeded", 180)

    assert done() == TASKS
    assert Counter(ledger.read_text().split()) == {f"t{n}": 1 for n in range(TASKS)}
    reported = Event.objects.filter(trigger="execution_completed").values_list("entity_id", flat=True)
    assert Counter(reported) == {f"t{n}": 1 for n in range(TASKS)}
    assert all(agent.lives() for agent in crowd)
    assert list(integrity.check_all()) == []
