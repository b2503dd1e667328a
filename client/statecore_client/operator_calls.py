"""The calls of operators and dashboards: machines, counts, stuck entities, alerts, the journal."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from .call import Call, build_path, call, drop_none, paged_call
from .connection import Connection
from .readers import (
    read_approval,
    read_as,
    read_event,
    read_object,
    read_outcome,
    read_page_of,
    read_positioned_event,
    read_results_of,
    read_text,
    read_worker,
)
from .records import (
    Approval,
    Event,
    Hold,
    Json,
    Machine,
    Outcome,
    Page,
    PositionedEvent,
    StuckEntity,
    WorkerEntity,
)


class OperatorCalls(Connection):
    @call
    def list_machines(self) -> Call[list[Machine]]:
        """Returns the declaration of every machine."""
        return Call("GET", build_path("machines"), read_results_of(read_as(Machine)))

    @call
    def get_machine(self, entity_type: str) -> Call[Machine]:
        """Returns the declaration of one machine."""
        return Call("GET", build_path("machines", entity_type), read_as(Machine))

    @call
    def get_stats(self) -> Call[Json]:
        """Returns counts by machine and state, and rates."""
        return Call("GET", build_path("stats"), read_object)

    @call
    def get_trends(self, /, **filters: Any) -> Call[Json]:
        """Returns throughput, failures, waits, durations and load of a period, and of the one before.

        The period is a `range` such as `7d`, or `since` and `until`. `entity_type` or `capability` limits what counts.
        """
        return Call("GET", build_path("trends"), read_object, params=filters)

    @paged_call
    def list_stuck(self, /, **filters: Any) -> Call[Page[StuckEntity]]:
        """Yields entities that are overdue or need a decision."""
        return Call("GET", build_path("stuck"), read_page_of(read_as(StuckEntity)), params=filters)

    @paged_call
    def list_alerts(self, /, **filters: Any) -> Call[Page[Json]]:
        """Yields alerts, newest first."""
        return Call("GET", build_path("alerts"), read_page_of(read_object), params=filters)

    @call
    def acknowledge_alert(self, alert_id: str, *, request_id: str | None = None) -> Call[Json]:
        """Records that you have seen the alert, and returns it."""
        path = build_path("alerts", str(alert_id), "acknowledge")
        return Call("POST", path, read_object, body={}, keyed=True, request_id=request_id)

    @paged_call
    def list_overrides(self, /, **filters: Any) -> Call[Page[Event]]:
        """Yields overrides with their operator and reason."""
        return Call("GET", build_path("overrides"), read_page_of(read_event), params=filters)

    @call
    def waive_gate(
        self,
        gate_id: str,
        /,
        *,
        reason: str,
        category: str,
        expires_at: datetime | None = None,
        dry_run: bool = False,
        expected_version: int | None = None,
        request_id: str | None = None,
    ) -> Call[Outcome]:
        """Lets what waits for a gate treat it as passed, until `expires_at` or for good; the gate keeps its state.

        Where a policy requires a second person, nothing changes yet: `approval` of the outcome is the request.
        """
        until = None if expires_at is None else expires_at.isoformat()
        body = {"reason": reason, "category": category}
        body |= drop_none(expires_at=until, dry_run=dry_run or None, expected_version=expected_version)
        path = build_path("gates", gate_id, "waive")
        return Call("POST", path, read_outcome, body=body, keyed=True, request_id=request_id)

    @paged_call
    def list_approvals(self, /, **filters: Any) -> Call[Page[Approval]]:
        """Yields requests for approval, newest first; `status="pending"` those that wait for a decision."""
        return Call("GET", build_path("approvals"), read_page_of(read_approval), params=filters)

    @call
    def get_approval(self, approval_id: str) -> Call[Approval]:
        """Returns one request for approval."""
        return Call("GET", build_path("approvals", approval_id), read_approval)

    @call
    def approve(self, approval_id: str, *, comment: str = "", request_id: str | None = None) -> Call[Outcome]:
        """Approves a request of another account, which executes the override."""
        path = build_path("approvals", approval_id, "approve")
        return Call("POST", path, read_outcome, body={"comment": comment}, keyed=True, request_id=request_id)

    @call
    def deny(self, approval_id: str, *, comment: str = "", request_id: str | None = None) -> Call[Approval]:
        """Denies a request of another account."""
        path = build_path("approvals", approval_id, "deny")
        return Call("POST", path, read_approval, body={"comment": comment}, keyed=True, request_id=request_id)

    @paged_call
    def list_holds(self, /, **filters: Any) -> Call[Page[Hold]]:
        """Yields holds, newest first; `status="active"` those in effect."""
        return Call("GET", build_path("holds"), read_page_of(read_as(Hold)), params=filters)

    @call
    def get_hold(self, hold_id: str) -> Call[Hold]:
        """Returns one hold."""
        return Call("GET", build_path("holds", hold_id), read_as(Hold))

    @call
    def place_hold(
        self, scope: str, *, reason: str, expires_at: datetime | None = None, request_id: str | None = None
    ) -> Call[Hold]:
        """Holds work: no task within the scope is claimed until the hold expires or is released.

        The scope is `everything`, `phase:ID`, `run:ID`, `capability:NAME` or `tool:NAME`.
        """
        expiry = {"expires_at": expires_at.isoformat()} if expires_at else {}
        body = {"scope": scope, "reason": reason, **expiry}
        return Call("POST", build_path("holds"), read_as(Hold), body=body, keyed=True, request_id=request_id)

    @call
    def release_hold(self, hold_id: str, *, reason: str, request_id: str | None = None) -> Call[Hold]:
        """Ends a hold."""
        path = build_path("holds", hold_id, "release")
        return Call("POST", path, read_as(Hold), body={"reason": reason}, keyed=True, request_id=request_id)

    @paged_call
    def list_events(self, /, after: int | str = 0, **filters: Any) -> Call[Page[PositionedEvent]]:
        """Yields the events of the journal in order, after a position."""
        return Call(
            "GET", build_path("events"), read_page_of(read_positioned_event), params={"after": after, **filters}
        )

    @paged_call
    def list_epochs(self) -> Call[Page[Json]]:
        """Yields the epochs that a failover or a restore began, newest first, with the events that were lost."""
        return Call("GET", build_path("audit", "epochs"), read_page_of(read_object))

    @paged_call
    def list_account_entries(self, /, **filters: Any) -> Call[Page[PositionedEvent]]:
        """Yields the account journal, newest first: logins, and changes of accounts, rights and tokens."""
        return Call("GET", build_path("audit", "accounts"), read_page_of(read_positioned_event), params=filters)

    @call
    def verify_journal(self) -> Call[Json]:
        """Verifies the journal; the result names the first invalid row."""
        return Call("GET", build_path("audit", "verify"), read_object)

    @call
    def get_audit_key(self) -> Call[Json]:
        """Returns the public key of the journal: `name`, `algorithm`, `verifier_key`."""
        return Call("GET", build_path("audit", "key"), read_object)

    @call
    def get_audit_checkpoint(self) -> Call[str]:
        """Returns the newest signed checkpoint, a text."""
        return Call("GET", build_path("audit", "checkpoint"), read_text)

    @call
    def prove_event(self, event_id: str) -> Call[Json]:
        """Returns the proof that an event is in the journal, as `statecore verify` reads it."""
        return Call("GET", build_path("audit", "proof"), read_object, params={"event": event_id})

    @call
    def prove_consistency(self, first: int, second: int) -> Call[Json]:
        """Returns the proof that the journal only grew between two sizes."""
        return Call("GET", build_path("audit", "consistency"), read_object, params={"first": first, "second": second})

    @call
    def list_witnesses(self) -> Call[Json]:
        """Returns, as `results`, the newest checkpoint that each witness has cosigned."""
        return Call("GET", build_path("audit", "witnesses"), read_object)

    @call
    def cosign_checkpoint(self, checkpoint: str, cosignature: str) -> Call[Json]:
        """Stores the cosignature of a witness; returns `size`, `signed_at` and `witnesses`."""
        body = {"checkpoint": checkpoint, "cosignature": cosignature}
        return Call("POST", build_path("audit", "cosignatures"), read_object, body=body)

    @call
    def get_run_at(self, run_id: str, time: datetime) -> Call[Json]:
        """Returns the state of a run and its parts at a time in the past."""
        return Call("GET", build_path("runs", run_id, "at"), read_object, params={"time": time.isoformat()})

    @call
    def get_run_estimate(self, run_id: str) -> Call[Json]:
        """Returns when a run will probably end: `earliest`, `likely` and `latest`, or `reason` if it is unknown."""
        return Call("GET", build_path("runs", run_id, "estimate"), read_object)

    @call
    def get_compensation(self, patch_id: str) -> Call[Json]:
        """Returns how a committed patch would be rolled back: `plan`, `digest`, `approved_by`, `default`, `steps`."""
        return Call("GET", build_path("patches", patch_id, "compensation"), read_object)

    @call
    def store_compensation(self, patch_id: str, plan: Mapping[str, Any]) -> Call[Json]:
        """Stores a compensation plan and replaces the previous one."""
        return Call("PUT", build_path("patches", patch_id, "compensation"), read_object, body=plan)

    @call
    def validate_compensation(self, patch_id: str, plan: Mapping[str, Any]) -> Call[Json]:
        """Checks a compensation plan and stores nothing; raises `Invalid` with an error for each wrong field."""
        path = build_path("patches", patch_id, "compensation")
        return Call("PUT", path, read_object, body=plan, params={"dry_run": "true"})

    @call
    def approve_compensation(self, patch_id: str, *, digest: str, request_id: str | None = None) -> Call[Json]:
        """Approves the plan with this digest; refused if the plan was replaced after you read it."""
        path = build_path("patches", patch_id, "compensation", "approve")
        return Call("POST", path, read_object, body={"digest": digest}, keyed=True, request_id=request_id)

    @call
    def request_rollback(
        self, patch_id: str, *, reason: str, revert_commit: str = "", request_id: str | None = None
    ) -> Call[Json]:
        """Requests the rollback by the approved plan; `revert_commit` is the commit by which a person reverted it."""
        path = build_path("patches", patch_id, "compensation", "request")
        body = {"reason": reason, "revert_commit": revert_commit} if revert_commit else {"reason": reason}
        return Call("POST", path, read_object, body=body, keyed=True, request_id=request_id)

    @call
    def pause_run(
        self, run_id: str, *, reason: str, until: datetime | None = None, request_id: str | None = None
    ) -> Call[Json]:
        """Pauses the workstreams of a run until they are resumed or until the given time."""
        body = {"reason": reason, **({"until": until.isoformat()} if until else {})}
        return Call(
            "POST", build_path("runs", run_id, "pause"), read_object, body=body, keyed=True, request_id=request_id
        )

    @call
    def resume_run(self, run_id: str, *, reason: str, request_id: str | None = None) -> Call[Json]:
        """Resumes the paused workstreams of a run."""
        path = build_path("runs", run_id, "resume")
        return Call("POST", path, read_object, body={"reason": reason}, keyed=True, request_id=request_id)

    @call
    def drain_worker(self, worker_id: str, *, request_id: str | None = None) -> Call[WorkerEntity]:
        """Gives a worker no new tasks; it shuts down after its current ones."""
        path = build_path("workers", worker_id, "drain")
        return Call("POST", path, read_worker, body={}, keyed=True, request_id=request_id)
