"""The Python client: every call of the REST API, as a synchronous and an asynchronous client.

    with Client("https://statecore.example", token="…") as statecore:
        task = statecore.get("tasks", "t1")

It does not import Django and can be used in any Python program.
"""

from .asynchronous import AsyncClient
from .records import (
    Approval,
    Entity,
    Event,
    Explanation,
    HeartbeatReply,
    Hold,
    LeaseReply,
    Machine,
    Outcome,
    Page,
    PositionedEvent,
    ReportAndClaimResult,
    StuckEntity,
    SubmittedRun,
    Task,
    TransitionCheck,
    UnmetGuard,
    Worker,
)
from .refusals import (
    Archived,
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
    StaleVersion,
    StatecoreError,
    Throttled,
    UnexpectedResponse,
    Unreachable,
    Unsendable,
)
from .retries import RetryPolicy
from .stream import EpochEnded, Outage, PositionTooOld
from .synchronous import Client

__all__ = [
    "Approval",
    "Archived",
    "AsyncClient",
    "BreakerOpen",
    "Client",
    "Conflict",
    "Entity",
    "EpochEnded",
    "Event",
    "Explanation",
    "GuardFailed",
    "HeartbeatReply",
    "Hold",
    "IdempotencyMismatch",
    "Invalid",
    "LeaseLost",
    "LeaseReply",
    "Machine",
    "NotAuthenticated",
    "NotFound",
    "Outage",
    "Outcome",
    "Page",
    "PermissionDenied",
    "PositionTooOld",
    "PositionedEvent",
    "Refused",
    "ReportAndClaimResult",
    "RetryPolicy",
    "StaleVersion",
    "StatecoreError",
    "StuckEntity",
    "SubmittedRun",
    "Task",
    "Throttled",
    "TransitionCheck",
    "UnexpectedResponse",
    "UnmetGuard",
    "Unreachable",
    "Unsendable",
    "Worker",
]
