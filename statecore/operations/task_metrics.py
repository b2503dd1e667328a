"""Metrics of Celery: tasks by name and outcome, their time, and the messages that wait."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from prometheus_client import Counter, Histogram
from redis.exceptions import RedisError

from ..kernel import extensions
from ..read_models.database_gauge import DatabaseGauge
from .doctor import services

BUCKETS = (0.01, 0.1, 1, 10, 60)

tasks_total = Counter(
    "statecore_celery_tasks_total", "Celery tasks by outcome: success, failure, retry, expired", ["task", "outcome"]
)
task_seconds = Histogram(
    "statecore_celery_task_duration_seconds", "Time that a Celery task took", ["task"], buckets=BUCKETS
)
count_task = cache(tasks_total.labels)
time_task = cache(task_seconds.labels)


class QueueDepth(DatabaseGauge):
    name = "statecore_celery_queue_messages"
    documentation = "Messages that wait in a queue of Celery; absent while Redis is unreachable"
    labels = ("queue",)

    def values(self) -> Iterator[tuple[tuple[str, ...], float]]:
        queues = dict.fromkeys((*services.QUEUES, *(sweep.queue for sweep in extensions.sweeps)))
        try:
            lengths = services.get_queue_lengths(queues)
        except (RedisError, OSError):
            return
        yield from (((name,), length) for name, length in lengths.items())
