"""An operator cancels a task in any state that is not final; what its agent reports afterwards is refused."""

from __future__ import annotations

import pytest

from statecore import scheduling
from statecore.kernel.refusals import LeaseLost, PermissionDenied
from statecore.machines import task
from tests.support import world

pytestmark = pytest.mark.django_db


@pytest.mark.usefixtures("machines_in_isolation")
@pytest.mark.parametrize("state", sorted(task.LIVE))
def test_an_operator_cancels_a_task_in_any_state_that_is_not_final(state: str) -> None:
    found = world.running_task() if state == "running" else world.task()
    found = found if found.state == state else world.forced(found, state)
    world.fire(found, "user_cancelled", actor=world.operator())
    found.refresh_from_db()
    assert (found.state, found.worker_id, found.retry_at, found.blocked_by) == ("cancelled", None, None, [])


@pytest.mark.parametrize(
    "report", [{"trigger": "execution_completed", "exit_code": 0}, {"trigger": "execution_failed", "error": "x"}]
)
def test_reports_after_a_cancellation_are_lease_lost_and_the_heartbeat_carries_the_command(
    report: dict[str, object],
) -> None:
    worker = world.idle_worker()
    found = world.running_task(by=worker)
    world.fire(found, "user_cancelled", actor=world.operator())
    with pytest.raises(LeaseLost):
        world.fire(
            found,
            str(report["trigger"]),
            actor=world.AGENT,
            attempt=1,
            **{k: v for k, v in report.items() if k != "trigger"},
        )
    reply = scheduling.record_heartbeat(worker.pk, actor=world.AGENT)
    assert reply["commands"] == [{"cancel": found.pk, "attempt": 1}]


def test_an_agent_does_not_cancel_a_queued_task() -> None:
    with pytest.raises(PermissionDenied):
        world.fire(world.queued_task(), "user_cancelled", actor=world.AGENT)
