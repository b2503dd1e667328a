"""Scheduling of work: plans, claims, heartbeats, timeouts, circuit breakers and recovery."""

from .claims import Exchanged, Report, claim, report_and_claim
from .heartbeats import drain_worker, record_heartbeat, record_heartbeat_with_token, renew
from .patch_submission import submit_patch
from .plans import submit_plan
from .registration import register

__all__ = [
    "Exchanged",
    "Report",
    "claim",
    "drain_worker",
    "record_heartbeat",
    "record_heartbeat_with_token",
    "register",
    "renew",
    "report_and_claim",
    "submit_patch",
    "submit_plan",
]
