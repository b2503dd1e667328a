"""The plain records the machines need: no states, no moves."""

from .agent_job_event import AgentJobEvent
from .checkpoint import Checkpoint
from .compensation_step import CompensationStep
from .patch import Patch
from .phase import Phase

__all__ = ["AgentJobEvent", "Checkpoint", "CompensationStep", "Patch", "Phase"]
