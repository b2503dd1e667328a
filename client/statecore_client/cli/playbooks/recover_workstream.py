"""Recovers a stuck workstream: fails tasks that run too long, then retries them or fails the workstream."""

from __future__ import annotations

from argparse import Namespace
from datetime import UTC, datetime, timedelta

from ... import Client, Entity
from ..context import Context, format_age, format_line
from ..transitions import create_successor
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
    _decide(steps, client, workstream.id, hanging, options.then)


def _print_tasks(context: Context, tasks: list[Entity]) -> None:
    if not context.as_json:
        rows = [
            (task.id, task.state, format_age(task.state_entered_at), format_line(task.get("worker"))) for task in tasks
        ]
        context.print_table(rows, ("task", "state", "for", "worker"))


def _is_hanging(task: Entity, limit: timedelta) -> bool:
    return task.state == "running" and datetime.now(UTC) - task.state_entered_at > limit


def _decide(steps: Steps, client: Client, workstream_id: str, failed: list[Entity], decision: str | None) -> None:
    """Carries out the decision about a workstream with lost tasks, or prints the commands among which to decide.

    Failing a critical task may have ended the workstream already. If all tasks are completed, it continues alone.
    """
    workstream = client.get("workstreams", workstream_id)
    if workstream.state in _final_states(client, "workstream"):
        steps.print_step(f"workstream {workstream_id} has ended: it is {workstream.state}")
        return
    tasks, given_up = list(client.list("tasks", workstream=workstream_id, page_size=500)), {task.id for task in failed}
    retried, ended = {task.get("retry_of") for task in tasks}, _final_states(client, "task")
    current = [task for task in tasks if task.id not in retried]
    if left := [task for task in current if task.state not in ended and task.id not in given_up]:
        names = ", ".join(task.id for task in left[:10])
        steps.print_step(f"not ended yet: {names}; the workstream continues when they have ended")
    elif lost := [task for task in current if task.state != COMPLETED]:
        DECISIONS[decision](steps, workstream, lost)
    else:
        steps.print_step(f"every task is completed; the workstream is {workstream.state} and continues automatically")


def _retry_tasks(steps: Steps, workstream: Entity, lost: list[Entity]) -> None:
    steps.print_step(f"retrying {', '.join(task.id for task in lost)}")
    for task in lost if not steps.options.dry_run else ():
        options = Namespace(collection="tasks", id=task.id, reason=steps.options.reason, dry_run=False)
        create_successor(options, steps.context)


def _fail_workstream(steps: Steps, workstream: Entity, lost: list[Entity]) -> None:
    steps.print_step("failing the workstream")
    steps.confirm_and_force("workstreams", workstream.id, "failed")


def _print_choices(steps: Steps, workstream: Entity, lost: list[Entity]) -> None:
    steps.print_step(f"{len(lost)} of its tasks will not complete: the workstream needs a decision")
    for task in lost[:10] if workstream.state != VALIDATING else ():
        steps.context.print_note(f"   statecore retry tasks {task.id}")
    steps.context.print_note(f"   statecore fail-workstream {workstream.id} --category stuck --reason …")


# A workstream that validates takes no more tasks, so it is never forced there with a task that will not complete.
COMPLETED, VALIDATING = "completed", "validating"
DECISIONS = {"retry": _retry_tasks, "fail": _fail_workstream, None: _print_choices}


def _final_states(client: Client, entity_type: str) -> set[str]:
    return {state["name"] for state in client.get_machine(entity_type).states if state["terminal"]}
