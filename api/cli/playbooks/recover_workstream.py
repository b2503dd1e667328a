"""Recovers a stuck workstream: fails tasks that run too long, then validates it if all its tasks are final."""

from __future__ import annotations

from argparse import Namespace
from datetime import UTC, datetime, timedelta

from api.client import Client, Entity

from ..context import Context, format_age, format_line
from .steps import Steps


def run(options: Namespace, context: Context) -> None:
    client, steps = context.client, Steps(options, context, "stuck")
    workstream = client.get("workstreams", options.id)
    tasks = list(client.list("tasks", workstream=options.id, page_size=500))
    steps.print_step(f"workstream {workstream.id} is {workstream.state}; its tasks:")
    _print_tasks(context, tasks)
    hanging = [task for task in tasks if _is_hanging(task, timedelta(minutes=options.minutes))]
    if hanging:
        steps.print_step(
            f"{len(hanging)} of them have been running for more than {options.minutes:g} minutes: failing them"
        )
        steps.confirm(f"fail {', '.join(task.id for task in hanging)}?")
        for task in hanging:
            steps.confirm_and_force("tasks", task.id, "failed")
    else:
        steps.print_step(f"none of them has been running for more than {options.minutes:g} minutes")
    _validate_if_finished(steps, client, workstream.id, hanging)


def _print_tasks(context: Context, tasks: list[Entity]) -> None:
    if not context.as_json:
        rows = [
            (task.id, task.state, format_age(task.state_entered_at), format_line(task.get("worker"))) for task in tasks
        ]
        context.print_table(rows, ("task", "state", "for", "worker"))


def _is_hanging(task: Entity, limit: timedelta) -> bool:
    return task.state == "running" and datetime.now(UTC) - task.state_entered_at > limit


def _validate_if_finished(steps: Steps, client: Client, workstream_id: str, failed: list[Entity]) -> None:
    """Forces the workstream to validating if all tasks are final. Failing a critical task may have ended it already."""
    final = _final_states(client, "workstream")
    workstream = client.get("workstreams", workstream_id)
    if workstream.state in final:
        steps.print_step(f"workstream {workstream_id} has ended: it is {workstream.state}")
        return
    given_up = {task.id for task in failed}
    ended = _final_states(client, "task")
    tasks = client.list("tasks", workstream=workstream_id, page_size=500)
    left = [task for task in tasks if task.state not in ended and task.id not in given_up]
    if left:
        steps.print_step(
            f"not ended yet: {', '.join(task.id for task in left[:10])}; the workstream continues when they have ended"
        )
    elif workstream.state == "validating":
        steps.print_step("every task has ended, and the workstream is already validating")
    else:
        steps.print_step("every task has ended: validating the workstream")
        steps.confirm_and_force("workstreams", workstream_id, "validating")


def _final_states(client: Client, entity_type: str) -> set[str]:
    return {state["name"] for state in client.get_machine(entity_type).states if state["terminal"]}
