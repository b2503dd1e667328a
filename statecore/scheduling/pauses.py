"""Pausing and resuming a run: its workstreams are paused and resumed together."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from .. import transitions
from ..kernel.actors import Actor
from ..kernel.refusals import GuardFailed, Unmet
from ..machines.run import Run
from ..machines.workstream import PAUSABLE, State, Workstream
from ..transitions import rights
from ..transitions.unit_of_work import UnitOfWork, run_in_transaction


def pause_run(
    run_id: str, *, actor: Actor, reason: str, until: str | None, within: UnitOfWork | None = None
) -> list[transitions.Item]:
    """Pause every workstream of a run that can be paused; raises GuardFailed if there is none.

    Workstreams in validation end: their tasks are completed.
    """
    params = {"until": until} if until else {}
    return _fire(run_id, PAUSABLE, "workstream_paused", actor, reason, params, within)


def resume_run(run_id: str, *, actor: Actor, reason: str, within: UnitOfWork | None = None) -> list[transitions.Item]:
    """Resume every paused workstream of a run; raises GuardFailed if there is none."""
    return _fire(run_id, {State.PAUSED}, "workstream_resumed", actor, reason, {}, within)


def _fire(
    run_id: str,
    states: Collection[str],
    trigger: str,
    actor: Actor,
    reason: str,
    params: dict[str, Any],
    within: UnitOfWork | None,
) -> list[transitions.Item]:
    def fire(work: UnitOfWork) -> list[transitions.Item]:
        run = work.lock(Run, run_id)
        chosen = Workstream.objects.filter(run=run_id, state__in=sorted(states)).order_by("pk")
        ids = list(chosen.values_list("pk", flat=True))
        if not ids:
            unmet = Unmet("no_workstream", f"none of its workstreams is {' or '.join(sorted(states))}")
            raise GuardFailed(trigger, [unmet], **run.current_facts())
        return transitions.transition_many(
            Workstream, ids, trigger, actor=actor, reason=reason, params=params, within=work
        )

    rights.require(actor, Workstream.flow, "operate")
    return run_in_transaction(fire, within=within)
