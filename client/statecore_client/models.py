"""The records that calls return, as the server declares them.

Generated from the declarations of the calls: `manage.py machines --docs` writes this file.
"""

# fmt: off
# ruff: noqa

from __future__ import annotations

from datetime import datetime
from typing import Any

from .records import NEVER, Event, Json, Record


class Alert(Record, kw_only=True):
    """What an alert rule has found."""

    id: int
    rule: str = ""
    key: str = ""
    severity: str = ""
    detail: str = ""
    facts: Json = {}
    opened_at: datetime = NEVER
    resolved_at: datetime | None = None
    acknowledged_by: str | None = None
    acknowledged_at: datetime | None = None
    note: str | None = None
    silenced_until: datetime | None = None
    silenced_by: str | None = None
    incident: int | None = None


class Incident(Record, kw_only=True):
    """A root cause with what hangs on it."""

    id: int
    severity: str = ""
    rule: str = ""
    cause: str = ""
    counts: dict[str, int] = {}
    runs: int = 0
    since: datetime = NEVER
    owner: str | None = None
    acknowledged_by: str | None = None
    version: int = 0
    entity_type: str | None = None
    entity_id: str | None = None
    opened_at: datetime = NEVER
    resolved_at: datetime | None = None
    acknowledged_at: datetime | None = None
    snoozed_until: datetime | None = None
    escalations: int = 0
    actions: list[Json] = []


class BreakerPermission(Record, kw_only=True):
    """The permission to call a tool."""

    allowed: bool
    probe: bool = False


class AppendedEvent(Record, kw_only=True):
    """An event of an agent job, and the job after it."""

    job: str
    type: str = ""
    actor: str = ""
    sequence: int = 0
    payload: Json = {}
    to_state: str | None = None
    journal_event: str | None = None
    at: datetime = NEVER
    changed: bool = False
    state: str = ""
    version: int = 0


class Approval(Record, kw_only=True):
    """A request for approval of an override or a waiver, and its decision."""

    id: str
    status: str = ""
    entity_type: str = ""
    entity_id: str = ""
    version: int = 0
    from_state: str = ""
    to_state: str = ""
    reason: str = ""
    category: str = ""
    policies: list[str] = []
    requested_by: str = ""
    requested_at: datetime = NEVER
    expires_at: datetime = NEVER
    decided_by: str | None = None
    decided_at: datetime | None = None
    comment: str | None = None
    event_id: str | None = None


class Compensation(Record, kw_only=True):
    """How a committed patch is rolled back."""

    patch: str
    plan: Json | None = None
    digest: str | None = None
    approved_by: str | None = None
    default: Json | None = None
    steps: list[Json] = []


class CosignedCheckpoint(Record, kw_only=True):
    """A checkpoint and the witnesses that have cosigned it."""

    size: int
    signed_at: datetime = NEVER
    witnesses: list[str] = []


class Occurrence(Record, kw_only=True):
    """A time at which a schedule was due, and what followed."""

    at: datetime
    outcome: str = ""
    run: str | None = None
    template_version: int | None = None
    requested_by: str | None = None
    detail: str | None = None


class Schedule(Record, kw_only=True):
    """A schedule that submits runs from a template; `next` has the next times."""

    id: str
    template: str = ""
    template_version: int | None = None
    cron: str = ""
    timezone: str = ""
    parameters: Json = {}
    catch_up: str = ""
    overlap: str = ""
    not_after: datetime | None = None
    paused: bool = False
    pause_reason: str | None = None
    paused_by: str | None = None
    next: list[datetime] = []
    last: Occurrence | None = None
    created_by: str = ""
    created_at: datetime = NEVER


class Token(Record, kw_only=True):
    """The members of Token."""

    name: str
    user: str = ""
    scope: str = ""
    prefix: str = ""
    created_at: datetime = NEVER
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None
    secret: str | None = None


class ServiceAccount(Record, kw_only=True):
    """The members of ServiceAccount."""

    id: str
    username: str = ""
    owner: str | None = None
    has_active_owner: bool = False
    purpose: str = ""
    roles: list[str] = []
    is_enabled: bool = False
    created_at: datetime = NEVER
    created_by: str = ""
    expires_at: datetime | None = None
    tokens: list[Token] = []


class Webhook(Record, kw_only=True):
    """A subscription to events. `secret` is only in the response to its creation or rotation."""

    id: str
    url: str = ""
    filter: Json = {}
    description: str = ""
    status: str = ""
    run: str | None = None
    owner: str | None = None
    created_by: str = ""
    created_at: datetime = NEVER
    position: int = 0
    epoch: int = 0
    failures: int = 0
    disabled_by: str | None = None
    disabled_reason: str | None = None
    failing_since: datetime | None = None
    next_try_at: datetime | None = None
    last_success_at: datetime | None = None
    last_failure_at: datetime | None = None
    finished_at: datetime | None = None
    disabled_at: datetime | None = None
    previous_secret_until: datetime | None = None
    secret: str | None = None


class AuditKey(Record, kw_only=True):
    """The public key of the journal."""

    name: str
    algorithm: str = ""
    verifier_key: str = ""


class BulkJob(Record, kw_only=True):
    """An action that is applied to many entities in portions, and its progress."""

    id: str
    entity_type: str = ""
    action: str = ""
    trigger: str = ""
    to_state: str = ""
    reason: str = ""
    actor: str = ""
    total: int = 0
    done: int = 0
    refused: int = 0
    approvals: int = 0
    caused: list[Json] = []
    finished: bool = False
    stopped_by: str | None = None
    created_at: datetime = NEVER
    finished_at: datetime | None = None


class Hold(Record, kw_only=True):
    """An order of an operator to give out no new work within a scope."""

    id: str
    scope: str = ""
    status: str = ""
    reason: str = ""
    created_by: str = ""
    created_at: datetime = NEVER
    expires_at: datetime | None = None
    ended_at: datetime | None = None
    released_by: str | None = None
    release_reason: str | None = None


class Machine(Record, kw_only=True):
    """The declaration of a machine."""

    entity_type: str
    version: str = ""
    initial: str = ""
    states: list[Json] = []
    transitions: list[Json] = []
    moves: list[Json] = []


class PastRun(Record, kw_only=True):
    """A run with its parts at a time in the past."""

    time: datetime
    run: Json = {}
    counts: dict[str, dict[str, int]] = {}
    workstreams: list[Json] = []
    tasks: list[Json] = []
    gates: list[Json] = []
    patches: list[Json] = []
    truncated: bool = False


class RunEstimate(Record, kw_only=True):
    """When a run will probably end."""

    run: str
    at: datetime = NEVER
    tasks_left: int = 0
    undecided: int = 0
    earliest: datetime | None = None
    likely: datetime | None = None
    latest: datetime | None = None
    basis: str = ""
    reason: str = ""


class Stats(Record, kw_only=True):
    """Counts, rates, and what needs attention."""

    epoch: int
    position: int = 0
    counts: dict[str, dict[str, int]] = {}
    rates: Json = {}
    minutes: dict[str, Json] = {}
    stuck: Json = {}
    progress: Json = {}
    trends: dict[str, list[int]] = {}
    today: dict[str, dict[str, int]] = {}
    blocked_gates: list[Json] = []
    run_ends: list[RunEstimate] = []
    incidents: Json = {}
    alerts: Json = {}
    holds: list[Json] = []


class Template(Record, kw_only=True):
    """A version of a plan template."""

    id: str
    version: int = 0
    description: str = ""
    parameters: dict[str, Json] = {}
    plan: Json = {}
    created_by: str = ""
    created_at: datetime = NEVER


class Trends(Record, kw_only=True):
    """Throughput, failures, waits, durations and load of a period, and of the one before."""

    since: datetime
    until: datetime = NEVER
    step_seconds: int = 0
    recorded_since: datetime | None = None
    panels: list[Json] = []


class Artifact(Record, kw_only=True):
    """A file that a task keeps by name."""

    task: str
    name: str = ""
    size: int = 0
    sha256: str = ""
    content_type: str = ""
    attempt: int = 0
    stored_by: str = ""
    stored_at: datetime = NEVER


class Attempt(Record, kw_only=True):
    """An attempt at a task."""

    task: str
    attempt: int = 0
    worker: str | None = None
    started_at: datetime = NEVER
    ended_at: datetime | None = None
    ended_by: str | None = None
    exit_code: int | None = None
    error: str = ""
    output: str = ""
    patch: str | None = None
    result: Any = None


class BulkResult(Record, kw_only=True):
    """What an action did to one entity: an event, a refusal, or a request for approval."""

    id: str
    changed: bool = False
    event: Event | None = None
    refusal: Json | None = None
    approval: Approval | None = None


class JobCheckpoint(Record, kw_only=True):
    """A checkpoint of a pipeline job, without its content."""

    job: str
    phase: str = ""
    updated_at: datetime = NEVER


class Epoch(Record, kw_only=True):
    """What a failover or a restore began, and the events that it lost."""

    epoch: int
    reason: str = ""
    started_at: datetime = NEVER
    kept: int = 0
    event_id: str = ""
    lost: Json | None = None


class IncidentEntry(Record, kw_only=True):
    """What happened to an incident."""

    id: int
    at: datetime = NEVER
    actor: str = ""
    action: str = ""
    text: str = ""


class JobEvent(Record, kw_only=True):
    """An event in the log of an agent job."""

    job: str
    type: str = ""
    actor: str = ""
    sequence: int = 0
    payload: Json = {}
    to_state: str | None = None
    journal_event: str | None = None
    at: datetime = NEVER


class WebhookDelivery(Record, kw_only=True):
    """An attempt to deliver a message to a webhook."""

    id: int
    message_id: str = ""
    type: str = ""
    position: int | None = None
    event_id: str | None = None
    entity_type: str | None = None
    entity_id: str | None = None
    attempt: int = 0
    at: datetime = NEVER
    duration_ms: int = 0
    status: int | None = None
    delivered: bool = False
    error: str | None = None
    response: str = ""


class Witnesses(Record, kw_only=True):
    """The newest checkpoint that each witness has cosigned."""

    results: list[Json]


class PausedRun(Record, kw_only=True):
    """What pausing or resuming did to each workstream of a run."""

    changed: bool
    workstreams: list[BulkResult] = []
    entity: Json = {}


class ConsistencyProof(Record, kw_only=True):
    """The proof that the journal only grew between two sizes."""

    first: int
    second: int = 0
    proof: list[str] = []


class EventProof(Record, kw_only=True):
    """The proof that an event is in the journal."""

    position: int
    epoch: int = 0
    body: str = ""
    leaf_hash: str = ""
    inclusion: list[str] = []
    checkpoint: str = ""


class BreakerReport(Record, kw_only=True):
    """The circuit breaker of a tool after a report."""

    counted: bool
    state: str = ""
    failure_count: int = 0
    success_count: int = 0


class ResumedJob(Record, kw_only=True):
    """The job that continues, and its checkpoints."""

    entity: Json
    checkpoints: list[JobCheckpoint] = []


class SentTest(Record, kw_only=True):
    """The id under which the log has the result."""

    message_id: str


class Verification(Record, kw_only=True):
    """What a verification of the journal found."""

    ok: bool
    scope: str = ""
    position: int = 0
    head: int = 0
    next: str | None = None
    findings: list[Json] = []
