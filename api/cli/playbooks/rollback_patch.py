"""Emergency rollback of a patch: by its compensation plan, which the server's executors carry out."""

from __future__ import annotations

import time
from argparse import Namespace

from ..desk import Desk, plain
from ..exits import Exit, Stop
from .steps import Steps

COMMITTED, ROLLED_BACK = "committed", "rolled_back"
PATIENCE, TICK = 600.0, 0.5


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
    client.request_rollback(patch.id, reason=options.reason)
    _wait(desk, steps, patch.id)


def _wait(desk: Desk, steps: Steps, patch_id: str) -> None:
    until, seen = time.monotonic() + PATIENCE, 0
    while time.monotonic() < until:
        found = desk.client.compensation(patch_id)["steps"]
        for step in found[seen:]:
            desk.say(f"   {plain(step['action'])}: {plain(step['error'] or 'done')}")
        seen = len(found)
        patch = desk.client.get("patches", patch_id)
        if patch.state == ROLLED_BACK:
            steps.step(f"{patch_id} is rolled back")
            return
        if found and found[-1]["failed"]:
            raise Stop(f"the rollback failed, and {patch_id} is {patch.state}: {plain(found[-1]['error'])}")
        desk.progress(f"{patch_id} is {patch.state} …")
        time.sleep(TICK)
    raise Stop(f"{patch_id} is not rolled back after {PATIENCE:g} s; it goes on, and `statecore get` tells how far")
