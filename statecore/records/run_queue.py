"""The queue of a run: its queued tasks of one priority, and when its next turn is among the queues of that priority.

A claim takes from the queue with the smallest turn. Each dispatch moves the turn of the queue on by one, divided by the
weight of its run. A queue that was behind for longer than one round is moved up first, so that a run that could not be
served for a while does not keep the others waiting afterwards.
"""

from __future__ import annotations

from django.db import models
from django.db.models import Q


class RunQueue(models.Model):
    run = models.ForeignKey("statecore.Run", models.PROTECT, related_name="+", db_index=False)
    priority = models.SmallIntegerField()
    turn = models.FloatField()
    # Whether it may have queued tasks. Claims do not read the others.
    is_waiting = models.BooleanField(default=True)

    class Meta:
        default_permissions = ()
        constraints = (models.UniqueConstraint(fields=("run", "priority"), name="run_queue_one_per_priority"),)
        indexes = (
            # The order of claims.
            models.Index(fields=("-priority", "turn", "id"), condition=Q(is_waiting=True), name="run_queue_in_turn"),
            # For the latest turn of a priority.
            models.Index(fields=("priority", "turn"), name="run_queue_latest_turn"),
        )

    def __str__(self) -> str:
        return f"queue of run {self.run_id} at priority {self.priority}"
