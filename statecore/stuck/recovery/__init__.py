"""What the system may do about a stuck entity, by itself or once an operator has approved it."""

from . import agent_jobs, ingestion_jobs, pipeline_jobs, supervised, uet_workers
from .plan import APPROVAL, AUTO, OPERATOR, Proposal, Recovery, recoveries
from .sweep import approve_recovery, awaiting_approval, found_otherwise, proposal_for, recover_stalled

# Of a machine's recoveries the first that applies is taken.
recoveries += [
    *ingestion_jobs.RECOVERIES,
    *agent_jobs.RECOVERIES,
    *supervised.RECOVERIES,
    *pipeline_jobs.RECOVERIES,
    *uet_workers.RECOVERIES,
]

__all__ = [
    "APPROVAL",
    "AUTO",
    "OPERATOR",
    "Proposal",
    "Recovery",
    "approve_recovery",
    "awaiting_approval",
    "found_otherwise",
    "proposal_for",
    "recover_stalled",
]
