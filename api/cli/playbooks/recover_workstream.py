"""Recover a stuck workstream: fail the tasks that hang, then validate it if nothing is left to do."""

from __future__ import annotations

from argparse import Namespace
from datetime import UTC, datetime, timedelta

from api.client import Client, Entity

from ..desk import Desk, age, plain
from .steps import Steps


def run(options: Namespace, desk: Desk) -> None:
    client, steps = desk.client, Steps(options, desk, "stuck")
    workstream = client.get("workstreams", options.id)
    tasks = list(client.list("tasks", workstream=options.id, page_size=500))
    steps.step(f"workstream {workstream.id} is {workstream.state}; its tasks:")
    _show(desk, tasks)
    hanging = [task for task in tasks if _hangs(task, timedelta(minutes=options.minutes))]
    if hanging:
        steps.step(f"{len(hanging)} of them have been running for more than {options.minutes:g} minutes: failing them")
        steps.ask(f"fail {', '.join(task.id for task in hanging)}?")
        for task in hanging:
            steps.ask_to_force("tasks", task.id, "failed")
    else:
        steps.step(f"none of them has been running for more than {options.minutes:g} minutes")
    _conclude(steps, client, workstream.id, hanging)


def _show(desk: Desk, tasks: list[Entity]) -> None:
    if not desk.as_json:
        rows = [(task.id, task.state, age(task.state_entered_at), plain(task.get("worker"))) for task in tasks]
        desk.table(rows, ("task", "state", "for", "worker"))


def _hangs(task: Entity, limit: timedelta) -> bool:
    return task.state == "running" and datetime.now(UTC) - task.state_entered_at > limit


def _conclude(steps: Steps, client: Client, workstream_id: str, failed: list[Entity]) -> None:
    """As it is now: failing a critical task has ended the workstream already."""
    final = _final_states(client, "workstream")
    workstream = client.get("workstreams", workstream_id)
    if workstream.state in final:
        steps.step(f"workstream {workstream_id} has ended: it is {workstream.state}")
        return
    given_up = {task.id for task in failed}
    ended = _final_states(client, "task")
    tasks = client.list("tasks", workstream=workstream_id, page_size=500)
    left = [task for task in tasks if task.state not in ended and task.id not in given_up]
    if left:
        steps.step(f"not ended yet: {', '.join(task.id for task in left[:10])}; the workstream goes on by itself")
    elif workstream.state == "validating":
        steps.step("every task has ended, and the workstream is validating already")
    else:
        steps.step("every task has ended: validating the workstream")
        steps.ask_to_force("workstreams", workstream_id, "validating")


def _final_states(client: Client, entity_type: str) -> set[str]:
    return {state["name"] for state in client.machine(entity_type).states if state["terminal"]}
