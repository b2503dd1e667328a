"""Models without states or transitions: data beside the machines, and data derived from the journal."""

from .acknowledgement import Acknowledgement
from .agent_job_event import AgentJobEvent
from .alert import Alert, AlertNotice
from .approval import Approval, ApprovalDecision, ForcedStep
from .artifact import Artifact, ArtifactContent
from .audit_note import AuditNote
from .bulk_job import BulkJob, BulkPortion
from .checkpoint import Checkpoint
from .compensation_step import CompensationStep
from .counter import DwellCount, OverrideCount, StateCount, TransitionCount, TransitionRate
from .default_grant import DefaultGrant
from .executor_work import ExecutorWork
from .external_identity import ExternalIdentity
from .hold import Hold
from .incident import Incident, IncidentEntity, IncidentEntry
from .leader_lease import LeaderLease
from .one_time_password import OneTimePassword
from .passkey import Passkey
from .patch import Patch
from .phase import Phase
from .plan_template import PlanTemplate
from .process_report import ProcessReport
from .recall import Recall
from .restore_drill import RestoreDrill
from .roll_up import CapabilityRollUp, DwellRollUp, LoadRollUp, TransitionRollUp
from .run_queue import RunQueue
from .schedule import Schedule, ScheduleOccurrence
from .service_account import ServiceAccount
from .sink_cursor import SinkCursor
from .task_attempt import TaskAttempt
from .task_log import LogChunk, TaskLog
from .token import Token
from .tool_lease import ToolLease
from .webhook import Webhook, WebhookBacklog, WebhookDelivery

__all__ = [
    "Acknowledgement", "AgentJobEvent", "Alert", "AlertNotice", "Approval", "ApprovalDecision", "Artifact",
    "ArtifactContent", "AuditNote", "BulkJob", "BulkPortion", "CapabilityRollUp", "Checkpoint", "CompensationStep",
    "DefaultGrant", "DwellCount", "DwellRollUp", "ExecutorWork", "ExternalIdentity", "ForcedStep", "Hold",
    "Incident", "IncidentEntity", "IncidentEntry", "LeaderLease", "LoadRollUp", "LogChunk", "OneTimePassword",
    "OverrideCount", "Passkey", "Patch", "Phase", "PlanTemplate", "ProcessReport", "Recall", "RestoreDrill", "RunQueue",
    "Schedule", "ScheduleOccurrence", "ServiceAccount", "SinkCursor", "StateCount", "TaskAttempt", "TaskLog", "Token",
    "ToolLease", "TransitionCount", "TransitionRate", "TransitionRollUp", "Webhook", "WebhookBacklog",
    "WebhookDelivery",
]  # fmt: skip
