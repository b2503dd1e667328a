"""Emergency rollback of a patch: by its compensation plan, which the server's executors carry out."""

from __future__ import annotations

import time
from argparse import Namespace

from ..desk import Desk, plain
from ..exits import Exit, Stop
from .steps import Steps

COMMITTED, ROLLED_BACK = "committed", "rolled_back"
PATIENCE, LAST_WORD, TICK = 600.0, 10.0, 0.5


def run(options: Namespace, desk: Desk) -> None:
    client, steps = desk.client, Steps(options, desk, "emergency")
    patch = client.get("patches", options.id)
    steps.step(f"patch {patch.id} is {patch.state}, commit {plain(patch.get('commit_sha'))}")
    if patch.state != COMMITTED:
        raise Stop(f"only a committed patch is rolled back, and {patch.id} is {patch.state}", Exit.CONFLICT)
    compensation = client.compensation(patch.id)
    is_kept = bool(compensation["plan"])
    plan = compensation["plan"] if is_kept else compensation["default"]
    steps.step("its compensation plan:" if is_kept else "there is no compensation plan yet; this one would do:")
    for action in plan["actions"]:
        desk.say(f"   {plain(action)}")
    if options.dry_run:
        steps.step("it would be approved and carried out, each step on record")
        return
    steps.ask(f"roll {patch.id} back?")
    if not is_kept:
        compensation = client.write_compensation(patch.id, plan)
    if not compensation["approved_by"]:
        steps.step("approving the plan")
        client.approve_compensation(patch.id, digest=compensation["digest"])
    steps.step("asking for the rollback")
    before = len(client.compensation(patch.id)["steps"])
    client.request_rollback(patch.id, reason=options.reason)
    _follow(desk, patch.id, before)
    steps.step(f"{patch.id} is rolled back")


def _follow(desk: Desk, patch_id: str, seen: int) -> None:
    """Tell each step after the first `seen`, until the last is on record: the patch is rolled back a moment before."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        state = desk.client.get("patches", patch_id).state
        for step in desk.client.compensation(patch_id)["steps"][seen:]:
            seen += 1
            desk.say(f"   {plain(step['action'])}: {plain(step['error'] or 'done')}")
            if step["failed"]:
                raise Stop(f"the rollback failed, and {patch_id} is {state}: {plain(step['error'])}")
            if step["action"] == ROLLED_BACK:
                return
        if state == ROLLED_BACK:  # a worker that died now would leave no last step
            until = min(until, time.monotonic() + LAST_WORD)
        desk.progress(f"{patch_id} is {state} …")
        time.sleep(TICK)
    if state != ROLLED_BACK:
        raise Stop(f"{patch_id} is not rolled back after {PATIENCE:g} s; it goes on, and `statecore get` tells how far")
