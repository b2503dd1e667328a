"""The calls of the API: one method for each, as it is declared where the server handles it.

Generated from the declarations of the calls: `manage.py machines --docs` writes this file.
"""

# fmt: off
# ruff: noqa

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from msgspec import UNSET, UnsetType

from .call import Call, build_path, build_query, call, drop_none, drop_unset, paged_call
from .connection import Connection
from .models import Alert, AppendedEvent, Approval, Artifact, Attempt, AuditKey, BreakerPermission, BreakerReport, BulkJob, BulkResult, Compensation, ConsistencyProof, CosignedCheckpoint, Epoch, EventProof, Hold, Incident, IncidentEntry, JobCheckpoint, JobEvent, Machine, Occurrence, PastRun, PausedRun, ResumedJob, RunEstimate, Schedule, SentTest, ServiceAccount, Stats, Template, Token, Trends, Verification, Webhook, WebhookDelivery, Witnesses
from .outcome import Outcome, read_outcome
from .readers import (
    read_as,
    read_entity,
    read_explanation,
    read_member,
    read_nothing,
    read_object,
    read_page_of,
    read_positioned_event,
    read_results_of,
    read_submitted_run,
    read_text,
    read_worker,
)
from .records import Entity, Event, Explanation, Json, Page, PositionedEvent, StuckEntity, SubmittedRun, WorkerEntity


class Calls(Connection):
    @call
    def acknowledge_alert(
        self, alert_id: int, *, note: str | None = None, request_id: str | None = None
    ) -> Call[Alert]:
        """Acknowledge an alert.

        A later call changes nothing and returns the first acknowledgement.
        """
        return Call(
            "POST",
            build_path("alerts", alert_id, "acknowledge"),
            read_as(Alert),
            body=drop_none(note=note),
            keyed=True,
            request_id=request_id,
        )

    @call
    def acknowledge_incident(
        self,
        incident_id: int,
        *,
        note: str | None = None,
        expected_version: int | None = None,
        request_id: str | None = None,
    ) -> Call[Incident]:
        """Acknowledge an incident."""
        return Call(
            "POST",
            build_path("incidents", incident_id, "acknowledge"),
            read_as(Incident),
            body=drop_none(note=note, expected_version=expected_version),
            keyed=True,
            request_id=request_id,
        )

    @call
    def acquire_breaker(self, tool: str, *, request_id: str | None = None) -> Call[BreakerPermission]:
        """Request permission to call a tool."""
        return Call(
            "POST",
            build_path("breakers", tool, "acquire"),
            read_as(BreakerPermission),
            body={},
            keyed=True,
            request_id=request_id,
        )

    @call
    def append_job_event(
        self, job_id: str, event: Mapping[str, Any], *, request_id: str | None = None
    ) -> Call[AppendedEvent]:
        """Append to the log of an agent job."""
        return Call(
            "POST",
            build_path("agent-jobs", job_id, "events"),
            read_as(AppendedEvent),
            body=event,
            keyed=True,
            request_id=request_id,
        )

    @call
    def approve(self, approval_id: str, *, comment: str | None = None, request_id: str | None = None) -> Call[Outcome]:
        """Approve a request, which executes the override.

        From another account than the request, with the permission to override the machine and, if the policy names a
        group, as a member of it. An entity that changed since the request is refused.
        """
        return Call(
            "POST",
            build_path("approvals", approval_id, "approve"),
            read_outcome,
            body=drop_none(comment=comment),
            keyed=True,
            request_id=request_id,
        )

    @call
    def approve_compensation(self, patch_id: str, digest: str, *, request_id: str | None = None) -> Call[Compensation]:
        """Approve the compensation plan with this digest."""
        return Call(
            "POST",
            build_path("patches", patch_id, "compensation", "approve"),
            read_as(Compensation),
            body={"digest": digest},
            keyed=True,
            request_id=request_id,
        )

    @call
    def assign_incident(
        self,
        incident_id: int,
        owner: str,
        *,
        note: str | None = None,
        expected_version: int | None = None,
        request_id: str | None = None,
    ) -> Call[Incident]:
        """Assign an incident.

        The owner is an active account; an empty name removes it.
        """
        return Call(
            "POST",
            build_path("incidents", incident_id, "assign"),
            read_as(Incident),
            body={"owner": owner, **drop_none(note=note, expected_version=expected_version)},
            keyed=True,
            request_id=request_id,
        )

    @call
    def cosign_checkpoint(
        self, checkpoint: str, cosignature: str, *, request_id: str | None = None
    ) -> Call[CosignedCheckpoint]:
        """Store the cosignature of a witness.

        `checkpoint` is the text of `audit/checkpoint/`, `cosignature` a signature line as C2SP `tlog-cosignature`
        defines it. The key of the witness must be in `STATECORE_WITNESSES`. A token of scope `read` is enough, because
        the cosignature authorises the call. Repeating the call changes nothing.
        """
        return Call(
            "POST",
            build_path("audit", "cosignatures"),
            read_as(CosignedCheckpoint),
            body={"checkpoint": checkpoint, "cosignature": cosignature},
            keyed=True,
            request_id=request_id,
        )

    @call
    def create(
        self, collection: str, /, *, id: str | None = None, request_id: str | None = None, **fields: Any
    ) -> Call[Entity]:
        """Create a new entity."""
        return Call(
            "POST",
            build_path(collection),
            read_entity,
            body={**fields, **drop_none(id=id)},
            keyed=True,
            request_id=request_id,
        )

    @call
    def create_schedule(
        self,
        template: str,
        cron: str,
        *,
        id: str | None = None,
        template_version: int | None = None,
        timezone: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        catch_up: Literal["all", "latest", "none"] | None = None,
        overlap: Literal["skip", "allow"] | None = None,
        not_after: datetime | None = None,
        request_id: str | None = None,
    ) -> Call[Schedule]:
        """Create a schedule.

        The runs are submitted by the system, each exactly once: its id is `SCHEDULE-TIME`.
        """
        return Call(
            "POST",
            build_path("schedules"),
            read_as(Schedule),
            body={"template": template, "cron": cron, **drop_none(id=id, template_version=template_version, timezone=timezone, parameters=parameters, catch_up=catch_up, overlap=overlap, not_after=not_after)},
            keyed=True,
            request_id=request_id,
        )

    @call
    def create_service_account(
        self,
        id: str,
        owner: str,
        purpose: str,
        *,
        roles: Sequence[str] | None = None,
        expires_at: datetime | None = None,
        request_id: str | None = None,
    ) -> Call[ServiceAccount]:
        """Create a service account.

        It has no token yet. Its user is `service/ID`; its owner is the person who answers for it.
        """
        return Call(
            "POST",
            build_path("service-accounts"),
            read_as(ServiceAccount),
            body={"id": id, "owner": owner, "purpose": purpose, **drop_none(roles=roles, expires_at=expires_at)},
            keyed=True,
            request_id=request_id,
        )

    @call
    def create_webhook(
        self,
        url: str,
        *,
        filter: Mapping[str, Any] | None = None,
        description: str | None = None,
        request_id: str | None = None,
    ) -> Call[Webhook]:
        """Subscribe to events.

        From now on, each event that the filter selects is sent to the URL as a message with a signature of Standard
        Webhooks: at least once, in order for each entity, retried until the receiver answers 2xx.
        """
        return Call(
            "POST",
            build_path("webhooks"),
            read_as(Webhook),
            body={"url": url, **drop_none(filter=filter, description=description)},
            keyed=True,
            request_id=request_id,
        )

    @call
    def delete_checkpoint(self, job_id: str, phase: str) -> Call[None]:
        """Delete a checkpoint."""
        return Call("DELETE", build_path("pipeline-jobs", job_id, "checkpoints", phase), read_nothing)

    @call
    def delete_webhook(self, webhook_id: str) -> Call[None]:
        """Delete a webhook and its log."""
        return Call("DELETE", build_path("webhooks", webhook_id), read_nothing)

    @call
    def deny(self, approval_id: str, *, comment: str | None = None, request_id: str | None = None) -> Call[Approval]:
        """Deny a request."""
        return Call(
            "POST",
            build_path("approvals", approval_id, "deny"),
            read_member("approval", Approval),
            body=drop_none(comment=comment),
            keyed=True,
            request_id=request_id,
        )

    @call
    def disable_service_account(self, account_id: str, *, request_id: str | None = None) -> Call[ServiceAccount]:
        """Refuse the tokens of a service account."""
        return Call(
            "POST",
            build_path("service-accounts", account_id, "disable"),
            read_as(ServiceAccount),
            body={},
            keyed=True,
            request_id=request_id,
        )

    @call
    def disable_webhook(
        self, webhook_id: str, *, reason: str | None = None, request_id: str | None = None
    ) -> Call[Webhook]:
        """Disable a webhook."""
        return Call(
            "POST",
            build_path("webhooks", webhook_id, "disable"),
            read_as(Webhook),
            body=drop_none(reason=reason),
            keyed=True,
            request_id=request_id,
        )

    @call
    def drain_worker(self, worker_id: str, *, request_id: str | None = None) -> Call[WorkerEntity]:
        """Drain a worker."""
        return Call(
            "POST", build_path("workers", worker_id, "drain"), read_worker, body={}, keyed=True, request_id=request_id
        )

    @call
    def edit(self, collection: str, entity_id: str, /, **fields: Any) -> Call[Entity]:
        """Change fields of one entity."""
        return Call("PATCH", build_path(collection, entity_id), read_entity, body=fields)

    @call
    def edit_schedule(
        self,
        schedule_id: str,
        *,
        template: str | UnsetType = UNSET,
        template_version: int | None | UnsetType = UNSET,
        cron: str | UnsetType = UNSET,
        timezone: str | UnsetType = UNSET,
        parameters: Mapping[str, Any] | UnsetType = UNSET,
        catch_up: Literal["all", "latest", "none"] | UnsetType = UNSET,
        overlap: Literal["skip", "allow"] | UnsetType = UNSET,
        not_after: datetime | None | UnsetType = UNSET,
    ) -> Call[Schedule]:
        """Change a schedule."""
        return Call(
            "PATCH",
            build_path("schedules", schedule_id),
            read_as(Schedule),
            body=drop_unset(template=template, template_version=template_version, cron=cron, timezone=timezone, parameters=parameters, catch_up=catch_up, overlap=overlap, not_after=not_after),
        )

    @call
    def edit_service_account(
        self,
        account_id: str,
        *,
        owner: str | UnsetType = UNSET,
        purpose: str | UnsetType = UNSET,
        roles: Sequence[str] | UnsetType = UNSET,
        expires_at: datetime | None | UnsetType = UNSET,
    ) -> Call[ServiceAccount]:
        """Change a service account.

        An earlier `expires_at` also ends its tokens earlier.
        """
        return Call(
            "PATCH",
            build_path("service-accounts", account_id),
            read_as(ServiceAccount),
            body=drop_unset(owner=owner, purpose=purpose, roles=roles, expires_at=expires_at),
        )

    @call
    def edit_webhook(
        self,
        webhook_id: str,
        *,
        url: str | UnsetType = UNSET,
        filter: Mapping[str, Any] | UnsetType = UNSET,
        description: str | UnsetType = UNSET,
    ) -> Call[Webhook]:
        """Change a webhook.

        Only the owner changes `url` and `filter`: its permissions decide which events are sent.
        """
        return Call(
            "PATCH",
            build_path("webhooks", webhook_id),
            read_as(Webhook),
            body=drop_unset(url=url, filter=filter, description=description),
        )

    @call
    def enable_service_account(self, account_id: str, *, request_id: str | None = None) -> Call[ServiceAccount]:
        """Accept the tokens of a service account again."""
        return Call(
            "POST",
            build_path("service-accounts", account_id, "enable"),
            read_as(ServiceAccount),
            body={},
            keyed=True,
            request_id=request_id,
        )

    @call
    def enable_webhook(self, webhook_id: str, *, request_id: str | None = None) -> Call[Webhook]:
        """Enable a webhook."""
        return Call(
            "POST",
            build_path("webhooks", webhook_id, "enable"),
            read_as(Webhook),
            body={},
            keyed=True,
            request_id=request_id,
        )

    @call
    def explain(self, collection: str, entity_id: str) -> Call[Explanation]:
        """Explain the current state and what each transition requires."""
        return Call("GET", build_path(collection, entity_id, "explain"), read_explanation)

    @call
    def fire(
        self,
        collection: str,
        entity_id: str,
        /,
        trigger: str,
        *,
        reason: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        dry_run: bool | None = None,
        expected_version: int | None = None,
        request_id: str | None = None,
        **fields: Any,
    ) -> Call[Outcome]:
        """Fire a trigger.

        With `dry_run`, the response is what would change, and nothing changes.
        """
        return Call(
            "POST",
            build_path(collection, entity_id, "transitions"),
            read_outcome,
            body={**fields, "trigger": trigger, **drop_none(reason=reason, metadata=metadata, dry_run=dry_run, expected_version=expected_version)},
            keyed=True,
            request_id=request_id,
        )

    @call
    def get(self, collection: str, entity_id: str) -> Call[Entity]:
        """Read one entity."""
        return Call("GET", build_path(collection, entity_id), read_entity)

    @call
    def get_approval(self, approval_id: str) -> Call[Approval]:
        """Read a request for approval with its decision."""
        return Call("GET", build_path("approvals", approval_id), read_as(Approval))

    @call
    def get_audit_checkpoint(self) -> Call[str]:
        """Read the newest signed checkpoint.

        A signed note: the name of the journal, the number of positions, the root of the tree in base64, a line `epoch
        N`, an empty line, the signature of the journal and the cosignatures of witnesses.
        """
        return Call("GET", build_path("audit", "checkpoint"), read_text)

    @call
    def get_audit_key(self) -> Call[AuditKey]:
        """Read the public key of the journal."""
        return Call("GET", build_path("audit", "key"), read_as(AuditKey))

    @call
    def get_bulk_job(self, job_id: str) -> Call[BulkJob]:
        """Read the progress of a bulk job."""
        return Call("GET", build_path("bulk-jobs", job_id), read_as(BulkJob))

    @call
    def get_checkpoint(self, job_id: str, phase: str) -> Call[Json]:
        """Read a stored checkpoint.

        The headers Checkpoint-Job and Checkpoint-Updated-At name the job and the time it was stored.
        """
        return Call("GET", build_path("pipeline-jobs", job_id, "checkpoints", phase), read_object)

    @call
    def get_compensation(self, patch_id: str) -> Call[Compensation]:
        """Preview the rollback of a committed patch."""
        return Call("GET", build_path("patches", patch_id, "compensation"), read_as(Compensation))

    @call
    def get_hold(self, hold_id: str) -> Call[Hold]:
        """Read one hold."""
        return Call("GET", build_path("holds", hold_id), read_as(Hold))

    @call
    def get_incident(self, incident_id: int) -> Call[Incident]:
        """Read an incident.

        `actions` are the suggested ones that the caller may take, the best one first; each has `action` (`retry`,
        `transition`, `waive` or `override`), `collection` and `id` as in its call.
        """
        return Call("GET", build_path("incidents", incident_id), read_as(Incident))

    @call
    def get_inputs(self, task_id: str, newest: bool | None = None) -> Call[Json]:
        """Read the results of the dependencies of a task, by their ids."""
        return Call("GET", build_path("tasks", task_id, "inputs"), read_object, params=build_query(newest=newest))

    @call
    def get_machine(self, entity_type: str) -> Call[Machine]:
        """Read a machine."""
        return Call("GET", build_path("machines", entity_type), read_as(Machine))

    @call
    def get_run_at(self, run_id: str, time: datetime | None = None) -> Call[PastRun]:
        """Read a run with all its parts at a past time."""
        return Call("GET", build_path("runs", run_id, "at"), read_as(PastRun), params=build_query(time=time))

    @call
    def get_run_estimate(self, run_id: str) -> Call[RunEstimate]:
        """Read when a run will probably end.

        Between `earliest` and `latest` with a probability of 80 % or more, from past durations of tasks. They are null
        where `reason` states why the end cannot be estimated.
        """
        return Call("GET", build_path("runs", run_id, "estimate"), read_as(RunEstimate))

    @call
    def get_schedule(self, schedule_id: str) -> Call[Schedule]:
        """Read one schedule with its next times."""
        return Call("GET", build_path("schedules", schedule_id), read_as(Schedule))

    @call
    def get_service_account(self, account_id: str) -> Call[ServiceAccount]:
        """Read one service account with its tokens."""
        return Call("GET", build_path("service-accounts", account_id), read_as(ServiceAccount))

    @call
    def get_stats(self) -> Call[Stats]:
        """Read counts, rates, overdue entities, alerts and active holds."""
        return Call("GET", build_path("stats"), read_as(Stats))

    @call
    def get_template(self, template_id: str, version: int | None = None) -> Call[Template]:
        """Read a version of a template."""
        return Call("GET", build_path("templates", template_id), read_as(Template), params=build_query(version=version))

    @call
    def get_trends(
        self,
        entity_type: str | None = None,
        capability: str | None = None,
        range: Literal["1h", "6h", "24h", "7d", "30d", "90d"] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> Call[Trends]:
        """Read throughput, failures, waits, durations and load over time.

        Each line has a value for each step from `since`, and `before` those of the period of the same length before;
        null where nothing is known. `total` summarises the period. Numbers are read from roll-ups by minute (kept for 3
        days), hour (100 days) and day.
        """
        return Call(
            "GET",
            build_path("trends"),
            read_as(Trends),
            params=build_query(entity_type=entity_type, capability=capability, range=range, since=since, until=until),
        )

    @call
    def get_webhook(self, webhook_id: str) -> Call[Webhook]:
        """Read one webhook."""
        return Call("GET", build_path("webhooks", webhook_id), read_as(Webhook))

    @call
    def issue_token(
        self,
        account_id: str,
        scope: Literal["read", "agent", "operate", "override", "integrate"],
        *,
        days: float | None = None,
        request_id: str | None = None,
    ) -> Call[Token]:
        """Create a token of a service account.

        Valid for 90 days, or for `days`, at most as long as the account, which needs an active owner.
        """
        return Call(
            "POST",
            build_path("service-accounts", account_id, "tokens"),
            read_as(Token),
            body={"scope": scope, **drop_none(days=days)},
            keyed=True,
            request_id=request_id,
        )

    @paged_call
    def list(
        self,
        collection: str,
        /,
        *,
        cursor: str | None = None,
        page_size: int | None = None,
        ordering: str | None = None,
        id: str | Sequence[str] | None = None,
        created_after: datetime | None = None,
        created_before: datetime | None = None,
        **filters: Any,
    ) -> Call[Page[Entity]]:
        """List entities."""
        return Call(
            "GET",
            build_path(collection),
            read_page_of(read_entity),
            params=build_query(cursor=cursor, page_size=page_size, ordering=ordering, id=id, created_after=created_after, created_before=created_before, **filters),
        )

    @paged_call
    def list_account_entries(
        self,
        *,
        account: str | Sequence[str] | None = None,
        actor: str | Sequence[str] | None = None,
        action: str | Sequence[str] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        before: int | None = None,
        page_size: int | None = None,
    ) -> Call[Page[PositionedEvent]]:
        """List the account journal, newest first.

        Logins, and changes of accounts, rights, second factors, tokens and displays. `account` is a user (`user:7` or
        the current name), a group (`group:3`), `system`, or `unknown` for logins with a name that no account has. The
        `trigger` of an entry is its action, `context` has the name of the account and the address of the caller. An
        entry is proved like any other event.
        """
        return Call(
            "GET",
            build_path("audit", "accounts"),
            read_page_of(read_positioned_event),
            params=build_query(account=account, actor=actor, action=action, since=since, until=until, before=before, page_size=page_size),
        )

    @paged_call
    def list_alerts(
        self,
        *,
        open: bool | None = None,
        acknowledged: bool | None = None,
        before: int | None = None,
        page_size: int | None = None,
    ) -> Call[Page[Alert]]:
        """List alerts, newest first."""
        return Call(
            "GET",
            build_path("alerts"),
            read_page_of(read_as(Alert)),
            params=build_query(open=open, acknowledged=acknowledged, before=before, page_size=page_size),
        )

    @paged_call
    def list_approvals(
        self,
        *,
        status: Literal["pending", "approved", "denied", "expired", "outdated"] | None = None,
        entity_type: str | Sequence[str] | None = None,
        entity: str | Sequence[str] | None = None,
        before: str | None = None,
        page_size: int | None = None,
    ) -> Call[Page[Approval]]:
        """List requests for approval, newest first."""
        return Call(
            "GET",
            build_path("approvals"),
            read_page_of(read_as(Approval)),
            params=build_query(status=status, entity_type=entity_type, entity=entity, before=before, page_size=page_size),
        )

    @call
    def list_artifacts(self, task_id: str, newest: bool | None = None) -> Call[builtins.list[Artifact]]:
        """List the artifacts of a task by name."""
        return Call(
            "GET",
            build_path("tasks", task_id, "artifacts"),
            read_results_of(read_as(Artifact)),
            params=build_query(newest=newest),
        )

    @paged_call
    def list_attempts(self, task_id: str) -> Call[Page[Attempt]]:
        """List the attempts at a task and at those it succeeds, oldest first."""
        return Call("GET", build_path("tasks", task_id, "attempts"), read_page_of(read_as(Attempt)))

    @paged_call
    def list_bulk_results(self, job_id: str, *, after: int | None = None) -> Call[Page[BulkResult]]:
        """List the results of a bulk job by entity."""
        return Call(
            "GET",
            build_path("bulk-jobs", job_id, "results"),
            read_page_of(read_as(BulkResult)),
            params=build_query(after=after),
        )

    @call
    def list_checkpoints(self, job_id: str) -> Call[builtins.list[JobCheckpoint]]:
        """List the checkpoints of a pipeline job, oldest first."""
        return Call("GET", build_path("pipeline-jobs", job_id, "checkpoints"), read_results_of(read_as(JobCheckpoint)))

    @paged_call
    def list_epochs(self) -> Call[Page[Epoch]]:
        """List the epochs of the journal, newest first.

        A failover to a replica that lacks the last events, or a restore, begins an epoch. `kept` is the last position
        that it shares with the one before, `lost` the events after it as far as a copy was found: the first 200 of
        them, of machines that the caller may see, and how many were confirmed reports of agents and decisions of
        operators.
        """
        return Call("GET", build_path("audit", "epochs"), read_page_of(read_as(Epoch)))

    @paged_call
    def list_history(
        self,
        collection: str,
        entity_id: str,
        *,
        to_state: str | Sequence[str] | None = None,
        after: int | None = None,
        page_size: int | None = None,
    ) -> Call[Page[Event]]:
        """List the events of an entity, oldest first."""
        return Call(
            "GET",
            build_path(collection, entity_id, "transitions"),
            read_page_of(read_as(Event)),
            params=build_query(to_state=to_state, after=after, page_size=page_size),
        )

    @paged_call
    def list_holds(
        self,
        *,
        status: Literal["active", "released", "expired"] | None = None,
        before: str | None = None,
        page_size: int | None = None,
    ) -> Call[Page[Hold]]:
        """List holds, newest first."""
        return Call(
            "GET",
            build_path("holds"),
            read_page_of(read_as(Hold)),
            params=build_query(status=status, before=before, page_size=page_size),
        )

    @paged_call
    def list_incident_entities(
        self, incident_id: int, *, after: int | None = None, page_size: int | None = None
    ) -> Call[Page[StuckEntity]]:
        """List the entities that hang on an incident, longest overdue first."""
        return Call(
            "GET",
            build_path("incidents", incident_id, "entities"),
            read_page_of(read_as(StuckEntity)),
            params=build_query(after=after, page_size=page_size),
        )

    @paged_call
    def list_incident_history(
        self, incident_id: int, *, before: int | None = None, page_size: int | None = None
    ) -> Call[Page[IncidentEntry]]:
        """List what happened to an incident, newest first."""
        return Call(
            "GET",
            build_path("incidents", incident_id, "history"),
            read_page_of(read_as(IncidentEntry)),
            params=build_query(before=before, page_size=page_size),
        )

    @paged_call
    def list_incidents(
        self,
        *,
        open: bool | None = None,
        snoozed: bool | None = None,
        acknowledged: bool | None = None,
        owner: str | None = None,
        severity: str | None = None,
        rule: str | None = None,
        before: int | None = None,
        page_size: int | None = None,
    ) -> Call[Page[Incident]]:
        """List incidents, newest first.

        An incident is a root cause with everything that hangs on it: `counts` has the number of stuck, blocked and
        undecided entities by machine, as far as the caller may see them, `runs` the number of runs.
        """
        return Call(
            "GET",
            build_path("incidents"),
            read_page_of(read_as(Incident)),
            params=build_query(open=open, snoozed=snoozed, acknowledged=acknowledged, owner=owner, severity=severity, rule=rule, before=before, page_size=page_size),
        )

    @paged_call
    def list_job_events(
        self, job_id: str, *, after: int | None = None, page_size: int | None = None
    ) -> Call[Page[JobEvent]]:
        """List the log of an agent job, oldest first."""
        return Call(
            "GET",
            build_path("agent-jobs", job_id, "events"),
            read_page_of(read_as(JobEvent)),
            params=build_query(after=after, page_size=page_size),
        )

    @call
    def list_machines(self) -> Call[builtins.list[Machine]]:
        """List all machines with states and transitions."""
        return Call("GET", build_path("machines"), read_results_of(read_as(Machine)))

    @paged_call
    def list_occurrences(
        self,
        schedule_id: str,
        *,
        outcome: Literal["due", "submitted", "skipped", "missed", "failed"] | None = None,
        before: datetime | None = None,
        page_size: int | None = None,
    ) -> Call[Page[Occurrence]]:
        """List the occurrences of a schedule, newest first."""
        return Call(
            "GET",
            build_path("schedules", schedule_id, "occurrences"),
            read_page_of(read_as(Occurrence)),
            params=build_query(outcome=outcome, before=before, page_size=page_size),
        )

    @paged_call
    def list_overrides(
        self,
        *,
        actor: str | Sequence[str] | None = None,
        entity_type: str | Sequence[str] | None = None,
        before: int | None = None,
        page_size: int | None = None,
    ) -> Call[Page[Event]]:
        """List overrides, newest first, and whether they are still in effect."""
        return Call(
            "GET",
            build_path("overrides"),
            read_page_of(read_as(Event)),
            params=build_query(actor=actor, entity_type=entity_type, before=before, page_size=page_size),
        )

    @paged_call
    def list_schedules(
        self, *, template: str | None = None, after: str | None = None, page_size: int | None = None
    ) -> Call[Page[Schedule]]:
        """List schedules by id."""
        return Call(
            "GET",
            build_path("schedules"),
            read_page_of(read_as(Schedule)),
            params=build_query(template=template, after=after, page_size=page_size),
        )

    @paged_call
    def list_service_accounts(
        self, *, after: str | None = None, page_size: int | None = None
    ) -> Call[Page[ServiceAccount]]:
        """List service accounts by id."""
        return Call(
            "GET",
            build_path("service-accounts"),
            read_page_of(read_as(ServiceAccount)),
            params=build_query(after=after, page_size=page_size),
        )

    @paged_call
    def list_stuck(
        self, *, entity_type: str | None = None, cursor: str | None = None, page_size: int | None = None
    ) -> Call[Page[StuckEntity]]:
        """List entities that are overdue or need a decision."""
        return Call(
            "GET",
            build_path("stuck"),
            read_page_of(read_as(StuckEntity)),
            params=build_query(entity_type=entity_type, cursor=cursor, page_size=page_size),
        )

    @paged_call
    def list_template_versions(
        self, template_id: str, *, before: int | None = None, page_size: int | None = None
    ) -> Call[Page[Template]]:
        """List the versions of a template, newest first."""
        return Call(
            "GET",
            build_path("templates", template_id, "versions"),
            read_page_of(read_as(Template)),
            params=build_query(before=before, page_size=page_size),
        )

    @paged_call
    def list_templates(self, *, after: str | None = None, page_size: int | None = None) -> Call[Page[Template]]:
        """List templates in their newest version."""
        return Call(
            "GET",
            build_path("templates"),
            read_page_of(read_as(Template)),
            params=build_query(after=after, page_size=page_size),
        )

    @paged_call
    def list_webhook_deliveries(
        self,
        webhook_id: str,
        *,
        message_id: str | Sequence[str] | None = None,
        delivered: bool | None = None,
        before: int | None = None,
        page_size: int | None = None,
    ) -> Call[Page[WebhookDelivery]]:
        """List attempts to deliver, newest first."""
        return Call(
            "GET",
            build_path("webhooks", webhook_id, "deliveries"),
            read_page_of(read_as(WebhookDelivery)),
            params=build_query(message_id=message_id, delivered=delivered, before=before, page_size=page_size),
        )

    @paged_call
    def list_webhooks(
        self, *, run: str | None = None, before: str | None = None, page_size: int | None = None
    ) -> Call[Page[Webhook]]:
        """List webhooks, newest first."""
        return Call(
            "GET",
            build_path("webhooks"),
            read_page_of(read_as(Webhook)),
            params=build_query(run=run, before=before, page_size=page_size),
        )

    @call
    def list_witnesses(self) -> Call[Witnesses]:
        """List the witnesses and what they have cosigned.

        The witnesses are those in `STATECORE_WITNESSES`. `silent` is true if a witness has cosigned nothing for
        `STATECORE_WITNESS_SECONDS`.
        """
        return Call("GET", build_path("audit", "witnesses"), read_as(Witnesses))

    @call
    def note_incident(
        self, incident_id: int, note: str, *, expected_version: int | None = None, request_id: str | None = None
    ) -> Call[Incident]:
        """Add a note to an incident."""
        return Call(
            "POST",
            build_path("incidents", incident_id, "notes"),
            read_as(Incident),
            body={"note": note, **drop_none(expected_version=expected_version)},
            keyed=True,
            request_id=request_id,
        )

    @call
    def override(
        self,
        collection: str,
        entity_id: str,
        to_state: str,
        reason: str,
        category: Literal["stuck", "crashed_worker", "infrastructure", "wrong_data", "emergency", "other"],
        *,
        metadata: Mapping[str, Any] | None = None,
        expected_version: int | None = None,
        dry_run: bool | None = None,
        clear_retry_count: bool | None = None,
        verified_output: Mapping[str, Any] | None = None,
        request_id: str | None = None,
    ) -> Call[Outcome]:
        """Override the state.

        If a policy requires a second person, nothing changes yet and the response is 202 with a request for approval,
        which another account decides with `approvals/{id}/approve/` or `deny/`. `clear_retry_count` gives a task all
        its retries back; `verified_output` records which result was checked.
        """
        return Call(
            "POST",
            build_path(collection, entity_id, "override"),
            read_outcome,
            body={"to_state": to_state, "reason": reason, "category": category, **drop_none(metadata=metadata, expected_version=expected_version, dry_run=dry_run, clear_retry_count=clear_retry_count, verified_output=verified_output)},
            keyed=True,
            request_id=request_id,
        )

    @call
    def pause_run(
        self, run_id: str, reason: str, *, until: datetime | None = None, request_id: str | None = None
    ) -> Call[PausedRun]:
        """Pause the workstreams of a run.

        Workstreams that are ready, executing or blocked are paused: none of their tasks is claimed. Running tasks
        continue. With `until` they resume automatically at that time.
        """
        return Call(
            "POST",
            build_path("runs", run_id, "pause"),
            read_as(PausedRun),
            body={"reason": reason, **drop_none(until=until)},
            keyed=True,
            request_id=request_id,
        )

    @call
    def pause_schedule(self, schedule_id: str, reason: str, *, request_id: str | None = None) -> Call[Schedule]:
        """Pause a schedule."""
        return Call(
            "POST",
            build_path("schedules", schedule_id, "pause"),
            read_as(Schedule),
            body={"reason": reason},
            keyed=True,
            request_id=request_id,
        )

    @call
    def place_hold(
        self, scope: str, reason: str, *, expires_at: datetime | None = None, request_id: str | None = None
    ) -> Call[Hold]:
        """Hold work: no task within the scope is claimed until the hold ends.

        The scope is `everything`, `phase:ID`, `run:ID`, `capability:NAME` or `tool:NAME`. Running tasks continue and
        report. Without `expires_at` the hold lasts until it is released.
        """
        return Call(
            "POST",
            build_path("holds"),
            read_as(Hold),
            body={"scope": scope, "reason": reason, **drop_none(expires_at=expires_at)},
            keyed=True,
            request_id=request_id,
        )

    @call
    def prove_consistency(self, first: int, second: int) -> Call[ConsistencyProof]:
        """Prove that the journal only grew between two sizes."""
        return Call(
            "GET",
            build_path("audit", "consistency"),
            read_as(ConsistencyProof),
            params=build_query(first=first, second=second),
        )

    @call
    def prove_event(self, event: str) -> Call[EventProof]:
        """Prove that an event is in the journal.

        `body` has the canonical bytes of the event. `statecore verify` checks the proof with the public key only. The
        newest events are refused with `not_signed` until the next checkpoint, a few seconds later.
        """
        return Call("GET", build_path("audit", "proof"), read_as(EventProof), params=build_query(event=event))

    @call
    def release_hold(self, hold_id: str, reason: str, *, request_id: str | None = None) -> Call[Hold]:
        """Release a hold."""
        return Call(
            "POST",
            build_path("holds", hold_id, "release"),
            read_as(Hold),
            body={"reason": reason},
            keyed=True,
            request_id=request_id,
        )

    @call
    def replay_webhook(self, webhook_id: str, after: int, *, request_id: str | None = None) -> Call[Webhook]:
        """Send events again.

        Sends all events after the position that the filter selects, with the ids they had.
        """
        return Call(
            "POST",
            build_path("webhooks", webhook_id, "replay"),
            read_as(Webhook),
            body={"after": after},
            keyed=True,
            request_id=request_id,
        )

    @call
    def report_breaker(
        self, tool: str, success: bool, *, error: str | None = None, request_id: str | None = None
    ) -> Call[BreakerReport]:
        """Report the result of a tool call."""
        return Call(
            "POST",
            build_path("breakers", tool, "report"),
            read_as(BreakerReport),
            body={"success": success, **drop_none(error=error)},
            keyed=True,
            request_id=request_id,
        )

    @call
    def request_rollback(
        self, patch_id: str, reason: str, *, revert_commit: str | None = None, request_id: str | None = None
    ) -> Call[Compensation]:
        """Request the execution of the approved plan."""
        return Call(
            "POST",
            build_path("patches", patch_id, "compensation", "request"),
            read_as(Compensation),
            body={"reason": reason, **drop_none(revert_commit=revert_commit)},
            keyed=True,
            request_id=request_id,
        )

    @call
    def resume_pipeline_job(self, job_id: str, *, request_id: str | None = None) -> Call[ResumedJob]:
        """Resume a pipeline job from its checkpoints.

        A job in a working stage that recovery has released, or that the caller holds, is resumed in place; a failed one
        by its holder, as a successor.
        """
        return Call(
            "POST",
            build_path("pipeline-jobs", job_id, "resume"),
            read_as(ResumedJob),
            body={},
            keyed=True,
            request_id=request_id,
        )

    @call
    def resume_run(self, run_id: str, reason: str, *, request_id: str | None = None) -> Call[PausedRun]:
        """Resume the paused workstreams of a run."""
        return Call(
            "POST",
            build_path("runs", run_id, "resume"),
            read_as(PausedRun),
            body={"reason": reason},
            keyed=True,
            request_id=request_id,
        )

    @call
    def resume_schedule(self, schedule_id: str, reason: str, *, request_id: str | None = None) -> Call[Schedule]:
        """Resume a schedule.

        It continues with the next occurrence after now.
        """
        return Call(
            "POST",
            build_path("schedules", schedule_id, "resume"),
            read_as(Schedule),
            body={"reason": reason},
            keyed=True,
            request_id=request_id,
        )

    @call
    def retry(
        self,
        collection: str,
        entity_id: str,
        *,
        reason: str | None = None,
        dry_run: bool | None = None,
        request_id: str | None = None,
    ) -> Call[Entity]:
        """Create a successor of a final entity.

        With `dry_run`, the response is the successor that would be created, and nothing is created.
        """
        return Call(
            "POST",
            build_path(collection, entity_id, "retry"),
            read_entity,
            body=drop_none(reason=reason, dry_run=dry_run),
            keyed=True,
            request_id=request_id,
        )

    @call
    def revoke_token(self, account_id: str, prefix: str, *, request_id: str | None = None) -> Call[Token]:
        """Revoke a token of a service account."""
        return Call(
            "POST",
            build_path("service-accounts", account_id, "tokens", prefix, "revoke"),
            read_as(Token),
            body={},
            keyed=True,
            request_id=request_id,
        )

    @call
    def rotate_token(
        self,
        account_id: str,
        prefix: str,
        *,
        overlap_hours: float | None = None,
        days: float | None = None,
        request_id: str | None = None,
    ) -> Call[Token]:
        """Replace a token of a service account.

        Creates a token with the same scope. The old one stays valid for `overlap_hours`.
        """
        return Call(
            "POST",
            build_path("service-accounts", account_id, "tokens", prefix, "rotate"),
            read_as(Token),
            body=drop_none(overlap_hours=overlap_hours, days=days),
            keyed=True,
            request_id=request_id,
        )

    @call
    def rotate_webhook_secret(self, webhook_id: str, *, request_id: str | None = None) -> Call[Webhook]:
        """Make a new secret.

        For a day the previous secret signs as well, so messages have two signatures.
        """
        return Call(
            "POST",
            build_path("webhooks", webhook_id, "rotate-secret"),
            read_as(Webhook),
            body={},
            keyed=True,
            request_id=request_id,
        )

    @call
    def run_schedule(self, schedule_id: str, *, request_id: str | None = None) -> Call[Occurrence]:
        """Let a schedule occur now."""
        return Call(
            "POST",
            build_path("schedules", schedule_id, "run"),
            read_as(Occurrence),
            body={},
            keyed=True,
            request_id=request_id,
        )

    @call
    def silence_alert(self, alert_id: int, until: datetime | None, *, request_id: str | None = None) -> Call[Alert]:
        """Keep an alert from sending notifications.

        Until then it sends none, also if it resolves and opens again; null ends that. Alerts about stored data that
        cannot be trusted are not silenced.
        """
        return Call(
            "POST",
            build_path("alerts", alert_id, "silence"),
            read_as(Alert),
            body={"until": until},
            keyed=True,
            request_id=request_id,
        )

    @call
    def snooze_incident(
        self,
        incident_id: int,
        until: datetime | None,
        *,
        note: str | None = None,
        expected_version: int | None = None,
        request_id: str | None = None,
    ) -> Call[Incident]:
        """Snooze an incident.

        Until then it is neither listed as open nor escalated; null ends that.
        """
        return Call(
            "POST",
            build_path("incidents", incident_id, "snooze"),
            read_as(Incident),
            body={"until": until, **drop_none(note=note, expected_version=expected_version)},
            keyed=True,
            request_id=request_id,
        )

    @call
    def stop_bulk_job(self, job_id: str, *, request_id: str | None = None) -> Call[BulkJob]:
        """Stop a bulk job."""
        return Call(
            "POST",
            build_path("bulk-jobs", job_id, "stop"),
            read_as(BulkJob),
            body={},
            keyed=True,
            request_id=request_id,
        )

    @call
    def store_checkpoint(self, job_id: str, phase: str, content: Mapping[str, Any]) -> Call[Json]:
        """Store a checkpoint."""
        return Call("PUT", build_path("pipeline-jobs", job_id, "checkpoints", phase), read_object, body=content)

    @call
    def store_compensation(
        self, patch_id: str, plan: Mapping[str, Any], *, dry_run: bool | None = None
    ) -> Call[Compensation]:
        """Store the compensation plan of a patch, replacing an earlier one."""
        return Call(
            "PUT",
            build_path("patches", patch_id, "compensation"),
            read_as(Compensation),
            params=build_query(dry_run=dry_run),
            body=plan,
        )

    @call
    def submit_plan(self, plan: Mapping[str, Any], *, request_id: str | None = None) -> Call[SubmittedRun]:
        """Submit a plan in one transaction.

        Workstreams, tasks and gates have the fields of their collections. Errors name the invalid part. `webhook` is a
        URL that gets one message at the end of the run; the response has its `secret` once. Agents may use the hosts in
        STATECORE_AGENT_WEBHOOK_HOSTS.
        """
        return Call(
            "POST", build_path("runs", "submit"), read_submitted_run, body=plan, keyed=True, request_id=request_id
        )

    @call
    def test_webhook(self, webhook_id: str, *, request_id: str | None = None) -> Call[SentTest]:
        """Send a test message."""
        return Call(
            "POST",
            build_path("webhooks", webhook_id, "test"),
            read_as(SentTest),
            body={},
            keyed=True,
            request_id=request_id,
        )

    @call
    def verify_journal(
        self, after: int | None = None, entity_type: str | None = None, entity: str | None = None
    ) -> Call[Verification]:
        """Verify the journal.

        Without parameters, the recently changed entities are verified.
        """
        return Call(
            "GET",
            build_path("audit", "verify"),
            read_as(Verification),
            params=build_query(after=after, entity_type=entity_type, entity=entity),
        )

    @call
    def waive_gate(
        self,
        entity_id: str,
        reason: str,
        category: Literal["stuck", "crashed_worker", "infrastructure", "wrong_data", "emergency", "other"],
        *,
        expires_at: datetime | None = None,
        expected_version: int | None = None,
        dry_run: bool | None = None,
        request_id: str | None = None,
    ) -> Call[Outcome]:
        """Waive a gate.

        The gate keeps its state; what waits for it treats it as passed until `expires_at`, or for good. Takes the
        permission to waive gates. If the policy `test_gate->waived`, or one that protects a state which follows,
        requires a second person, the response is 202 with a request for approval.
        """
        return Call(
            "POST",
            build_path("gates", entity_id, "waive"),
            read_outcome,
            body={"reason": reason, "category": category, **drop_none(expires_at=expires_at, expected_version=expected_version, dry_run=dry_run)},
            keyed=True,
            request_id=request_id,
        )
