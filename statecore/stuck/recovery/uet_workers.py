"""UET workers: one that misses two heartbeats is given up, whatever it was doing."""

from __future__ import annotations

from datetime import datetime

from ...machines.uet_worker import SILENCE_LIMIT, State, UetWorker
from .. import scan, words
from .plan import Order, Recovery, past_the_deadline, when_overdue


def give_up_the_silent(worker: UetWorker, order: Order) -> None:
    silence = f"no heartbeat for {words.length(order.at - worker.last_heartbeat)}"
    if worker.state == State.BUSY:
        order.fire(worker, "worker_crashed", error=silence)
    else:
        order.fire(worker, "shutdown_requested")


def give_up_the_unborn(worker: UetWorker, order: Order) -> None:
    order.fire(worker, "spawn_failed", error=f"not ready after {words.length(order.at - worker.state_entered_at)}")


def give_up_the_drained(worker: UetWorker, order: Order) -> None:
    """Whatever it was finishing has ended with it."""
    order.fire(worker, "current_task_finished")


def drains_and_is_silent(worker: UetWorker, at: datetime) -> bool:
    return scan.is_stuck(worker, at) and at - worker.last_heartbeat > SILENCE_LIMIT


RECOVERIES = (
    when_overdue("uet_worker", {State.SPAWNING}, "give it up: it did not come up", give_up_the_unborn),
    when_overdue("uet_worker", {State.IDLE, State.BUSY}, "give it up: two heartbeats are missing", give_up_the_silent),
    Recovery(
        "uet_worker",
        frozenset({str(State.DRAINING)}),
        "give it up: it is silent and does not end",
        give_up_the_drained,
        past_the_deadline,
        drains_and_is_silent,
    ),
)
