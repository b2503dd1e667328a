"""The plain records: what the machines need beside them, and what follows the journal. No states, no moves."""

from .acknowledgement import Acknowledgement
from .agent_job_event import AgentJobEvent
from .alert import Alert, AlertNotice
from .audit_note import AuditNote
from .bulk_job import BulkJob, BulkPortion
from .checkpoint import Checkpoint
from .compensation_step import CompensationStep
from .counter import OverrideCount, StateCount, TransitionCount, TransitionRate
from .patch import Patch
from .phase import Phase
from .position import Numbering, Position
from .recall import Recall
from .retirement import Anchor, Retirement
from .seal import Seal
from .sink_cursor import SinkCursor
from .token import Token

__all__ = [
    "Acknowledgement", "AgentJobEvent", "Alert", "AlertNotice", "Anchor", "AuditNote", "BulkJob", "BulkPortion",
    "Checkpoint", "CompensationStep", "Numbering", "OverrideCount", "Patch", "Phase", "Position", "Recall",
    "Retirement", "Seal", "SinkCursor", "StateCount", "Token", "TransitionCount", "TransitionRate",
]  # fmt: skip
