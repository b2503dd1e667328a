"""The Python client: every call of the REST API, in a plain and in an asynchronous form.

    with Client("https://statecore.example", token="…") as statecore:
        task = statecore.get("tasks", "t1")

It imports nothing of Django: it can be used wherever Python runs.
"""

from .asynchronous import AsyncClient
from .records import (
    Beat,
    Entity,
    Event,
    Exchanged,
    Explanation,
    Machine,
    Move,
    Outcome,
    Page,
    Positioned,
    Stuck,
    Submitted,
    Task,
    Unmet,
    Worker,
)
from .refusals import (
    BreakerOpen,
    Conflict,
    GuardFailed,
    IdempotencyMismatch,
    Invalid,
    LeaseLost,
    NotAuthenticated,
    NotFound,
    PermissionDenied,
    Refused,
    Retired,
    StaleVersion,
    StatecoreError,
    Throttled,
    Unreachable,
    Unsendable,
)
from .retries import Patience
from .synchronous import Client

__all__ = [
    "AsyncClient",
    "Beat",
    "BreakerOpen",
    "Client",
    "Conflict",
    "Entity",
    "Event",
    "Exchanged",
    "Explanation",
    "GuardFailed",
    "IdempotencyMismatch",
    "Invalid",
    "LeaseLost",
    "Machine",
    "Move",
    "NotAuthenticated",
    "NotFound",
    "Outcome",
    "Page",
    "Patience",
    "PermissionDenied",
    "Positioned",
    "Refused",
    "Retired",
    "StaleVersion",
    "StatecoreError",
    "Stuck",
    "Submitted",
    "Task",
    "Throttled",
    "Unmet",
    "Unreachable",
    "Unsendable",
    "Worker",
]
