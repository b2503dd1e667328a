"""Rolls back a patch by its compensation plan, which the executors on the server execute."""

from __future__ import annotations

import time
from argparse import Namespace

from ..context import Context, format_line
from ..errors import CommandError, Exit
from .steps import Steps

COMMITTED, ROLLED_BACK = "committed", "rolled_back"
TIMEOUT, LAST_STEP_TIMEOUT, POLL_SECONDS = 600.0, 10.0, 0.5


def run(options: Namespace, context: Context) -> None:
    client, steps = context.client, Steps(options, context, "emergency")
    patch = client.get("patches", options.id)
    steps.print_step(f"patch {patch.id} is {patch.state}, commit {format_line(patch.get('commit_sha'))}")
    if patch.state != COMMITTED:
        raise CommandError(f"only a committed patch can be rolled back; {patch.id} is {patch.state}", Exit.CONFLICT)
    compensation = client.get_compensation(patch.id)
    is_stored = bool(compensation["plan"])
    plan = compensation["plan"] if is_stored else compensation["default"]
    steps.print_step("its compensation plan:" if is_stored else "there is no compensation plan yet; the default is:")
    for action in plan["actions"]:
        context.print_note(f"   {format_line(action)}")
    if options.dry_run:
        steps.print_step("the plan would be approved and executed")
        return
    steps.confirm(f"roll {patch.id} back?")
    if not is_stored:
        compensation = client.store_compensation(patch.id, plan)
    if not compensation["approved_by"]:
        steps.print_step("approving the plan")
        client.approve_compensation(patch.id, digest=compensation["digest"])
    steps.print_step("requesting the rollback")
    before = len(client.get_compensation(patch.id)["steps"])
    client.request_rollback(patch.id, reason=options.reason, revert_commit=options.revert_commit)
    _wait_until_rolled_back(context, patch.id, before)
    steps.print_step(f"{patch.id} is rolled back")


def _wait_until_rolled_back(context: Context, patch_id: str, seen: int) -> None:
    """Prints the steps of the rollback as they are recorded, after the first `seen`, which are of an earlier attempt.

    The last step is recorded after the state has changed. Raises CommandError if a step fails, or after a time-out.
    """
    until = time.monotonic() + TIMEOUT
    while time.monotonic() < until:
        state = context.client.get("patches", patch_id).state
        for step in context.client.get_compensation(patch_id)["steps"][seen:]:
            seen += 1
            context.print_note(f"   {format_line(step['action'])}: {format_line(step['error'] or 'done')}")
            if step["failed"]:
                raise CommandError(f"the rollback failed, and {patch_id} is {state}: {format_line(step['error'])}")
            if step["action"] == ROLLED_BACK:
                return
        if state == ROLLED_BACK:  # the executor may have died before it recorded the last step
            until = min(until, time.monotonic() + LAST_STEP_TIMEOUT)
        context.show_progress(f"{patch_id} is {state} …")
        time.sleep(POLL_SECONDS)
    if state != ROLLED_BACK:
        raise CommandError(
            f"{patch_id} is not rolled back after {TIMEOUT:g} s; the rollback continues on the server, "
            f"see `statecore get patches {patch_id}`"
        )
