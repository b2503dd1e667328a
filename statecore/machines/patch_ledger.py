"""A patch ledger entry: the path of a patch from validation to a commit, quarantine or rollback."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.db import models
from django.db.models import F, OuterRef, Q
from django.db.models.lookups import In

from ..framework.declarations import (
    IDENTITY_LENGTH,
    INTEGRATOR,
    OPERATOR,
    SYSTEM,
    Entity,
    Facts,
    Flow,
    Invariant,
    Severity,
    StateField,
    Succession,
    Unmet,
    awaited_by_state,
    constraints,
    has_no_successor,
    has_part,
    live_by_state,
    open_by_parent,
    related,
    related_column,
    transition,
)

APPLY_RETRIES = 3


class State(models.TextChoices):
    CREATED = "created"
    VALIDATED = "validated"
    QUEUED = "queued"
    APPLIED = "applied"
    APPLY_FAILED = "apply_failed"
    VERIFIED = "verified"
    COMMITTED = "committed"
    ROLLED_BACK = "rolled_back"
    QUARANTINED = "quarantined"
    DROPPED = "dropped"


FINAL = {State.COMMITTED, State.ROLLED_BACK, State.QUARANTINED, State.DROPPED}
DONE = {State.COMMITTED, State.DROPPED}
ENDED_TASK = ("completed", "failed", "cancelled")
TESTED = {State.VERIFIED, State.COMMITTED}  # its tests have passed
CHECKED = {State.VALIDATED, State.QUEUED, State.APPLIED, State.APPLY_FAILED, *TESTED}  # its validation has passed


def every_check_passed(entry: PatchLedger, facts: Facts) -> Unmet | None:
    failed = sorted(name for name in ("format_passed", "scope_passed", "constraints_passed") if not facts.params[name])
    return Unmet("check_failed", f"checks not passed: {', '.join(failed)}") if failed else None


def the_phase_allows_what_it_touches(entry: PatchLedger, facts: Facts) -> Unmet | None:
    objection = entry.phase.objection(entry.patch.touched_paths())
    return Unmet("policy_violated", f"{objection}: report policy_violated", entry.phase_id) if objection else None


def it_was_applied_fewer_than_three_times_again(entry: PatchLedger, facts: Facts) -> Unmet | None:
    if entry.apply_retries < APPLY_RETRIES:
        return None
    return Unmet("apply_retries_exhausted", f"it has already been retried {APPLY_RETRIES} times")


def the_compensation_plan_is_approved(entry: PatchLedger, facts: Facts) -> Unmet | None:
    if not entry.compensation_plan:
        return Unmet("no_compensation_plan", "rolling back a committed patch requires a compensation plan")
    if not entry.compensation_approved_by:
        return Unmet("plan_not_approved", "the compensation plan is not approved")
    return None


def the_revert_is_verified(entry: PatchLedger, facts: Facts) -> Unmet | None:
    """The commit is recorded only together with this transition, once it was verified in the repository."""
    if entry.revert_commit:
        return None
    return Unmet("not_reverted", "the compensation plan was not executed: request the rollback")


class PatchLedger(Entity):
    flow = Flow(
        version="1.2.0",
        collection="patches",
        prefix="patch",
        event_noun="patch",
        final=FINAL,
        done=DONE,
        timing={
            State.CREATED: timedelta(minutes=10),
            State.VALIDATED: timedelta(hours=1),
            State.QUEUED: timedelta(minutes=30),
            State.APPLIED: timedelta(hours=1),
            State.APPLY_FAILED: timedelta(minutes=30),
            State.VERIFIED: timedelta(minutes=30),
        },
        failures={State.QUARANTINED},
        monotonic=("apply_retries",),
        # What one integrator has applied, the same one tests and commits.
        free_in={State.CREATED, State.VALIDATED, State.QUEUED, State.APPLY_FAILED},
        executors="STATECORE_REPOSITORY",
        never_forced={
            State.ROLLED_BACK: "a patch is rolled back by executing its compensation plan, which takes its commit out"
        },
        succession=Succession(followers=("tasks",)),
    )

    volatile = ("last_error", "abandoned")
    state = StateField(State, initial=State.CREATED)
    patch = models.ForeignKey("statecore.Patch", models.PROTECT, related_name="entries")
    # The hash of its diff; an executor applies no other diff.
    diff_sha256 = models.CharField(max_length=64, default="", db_default="", editable=False)
    workstream = models.ForeignKey("statecore.Workstream", models.PROTECT, related_name="patches")
    run = models.ForeignKey("statecore.Run", models.PROTECT, related_name="+", editable=False)
    phase = models.ForeignKey("statecore.Phase", models.PROTECT, related_name="+", editable=False)
    validation_format_passed = models.BooleanField(default=False, editable=False)
    validation_scope_passed = models.BooleanField(default=False, editable=False)
    validation_constraints_passed = models.BooleanField(default=False, editable=False)
    validation_tests_passed = models.BooleanField(default=False, editable=False)
    # The identity of the account or token that submitted it; the author of the diff may be another.
    author = models.CharField(max_length=IDENTITY_LENGTH, default="", db_default="", editable=False)
    apply_retries = models.PositiveSmallIntegerField(default=0, editable=False)
    last_error = models.TextField(default="", editable=False)
    commit_sha = models.CharField(max_length=64, default="", editable=False)
    quarantine_reason = models.TextField(default="", editable=False)
    quarantine_metadata = models.JSONField(default=dict, editable=False)
    quarantined_at = models.DateTimeField(null=True, editable=False)
    compensation_plan = models.JSONField(default=dict, editable=False)
    compensation_approved_by = models.CharField(max_length=150, default="", editable=False)
    # The verified commit that took the change out of the repository.
    revert_commit = models.CharField(max_length=64, default="", db_default="", editable=False)
    rollback_reason = models.TextField(default="", editable=False)
    rolled_back_at = models.DateTimeField(null=True, editable=False)
    # Its workstream has ended, so nothing depends on this patch any more.
    abandoned = models.BooleanField(default=False, editable=False)

    class Meta(Entity.Meta):
        verbose_name_plural = "patch ledger"
        constraints = (
            constraints.one_of("patch", "state", State),
            constraints.filled_in("patch", "quarantine_reason", {State.QUARANTINED}),
            constraints.set_in("patch", "quarantined_at", {State.QUARANTINED}),
            constraints.filled_in("patch", "rollback_reason", {State.ROLLED_BACK}),
            constraints.set_exactly_in("patch", "rolled_back_at", {State.ROLLED_BACK}),
            *constraints.in_time_order("patch", "created_at", "updated_at"),
            *constraints.in_time_order("patch", "created_at", "quarantined_at"),
            *constraints.in_time_order("patch", "created_at", "rolled_back_at"),
            models.CheckConstraint(
                condition=Q(apply_retries__lte=APPLY_RETRIES),
                name="patch_apply_retries_at_most_three",
            ),
        )
        indexes = (
            live_by_state("patch", FINAL),
            awaited_by_state("patch", FINAL),
            open_by_parent("patch", "workstream", DONE),
            models.Index(fields=("updated_at",), name="patch_by_update"),
        )

    @classmethod
    def derive_fields(cls, fields: dict[str, Any]) -> None:
        related(cls, "workstream").fill_run_and_phase(fields)
        patches = related(cls, "patch")
        patch = fields.get("patch")
        patch = patch if isinstance(patch, patches) else patches.objects.filter(pk=patch).first()
        if patch is not None:
            fields["diff_sha256"] = patch.sha256

    @classmethod
    def invariants(cls) -> Iterable[Invariant]:
        # As in reactions/workstreams.py: the task that it belongs to is, or will be, given out again.
        tasks = related(cls, "tasks").objects.filter(patch=OuterRef("pk")).exclude(state__in=ENDED_TASK)
        repaired = tasks.filter(Q(repairs__lt=F("max_repairs")) | (Q(repairs__gt=0) & ~Q(state="validating")))
        checked = Q(validation_format_passed=True, validation_scope_passed=True, validation_constraints_passed=True)
        return (
            Invariant(
                "checked_patches_carry_their_flags",
                "its validation flags contradict its state",
                lambda at: (Q(state__in=CHECKED) & ~checked) | (Q(state__in=TESTED) & Q(validation_tests_passed=False)),
            ),
            Invariant(
                "quarantined_patches_fail_their_workstream",
                "it is quarantined, but its workstream is still active",
                lambda at: (
                    Q(state=State.QUARANTINED)
                    & Q(In(related_column(cls, "workstream", "state"), related(cls, "workstream").flow.live))
                    & has_no_successor(cls)
                    & ~has_part(repaired)
                ),
            ),
        )

    def sync_state_fields(self, state: str, at: datetime, reason: str) -> None:
        """Sets the flags that the state implies, so that an override leaves the same row as the regular transitions."""
        if self._state.adding:
            first: Any = self.retry_of
            is_same_diff = first is not None and first.patch_id == self.patch_id
            self.author = first.author if is_same_diff else self.facts.actor.identity
        checked, tested = state in CHECKED, state in TESTED
        if checked:
            self.validation_format_passed = self.validation_scope_passed = self.validation_constraints_passed = True
        if tested:
            self.validation_tests_passed = True
        if state == State.QUARANTINED:
            self.quarantined_at = self.quarantined_at or at
            self.quarantine_reason = self.quarantine_reason or reason
        if state == State.ROLLED_BACK:
            self.rollback_reason = self.rollback_reason or reason
        self.rolled_back_at = at if state == State.ROLLED_BACK else None

    def judged_work(self) -> set[str]:
        return {self.author, self.patch.author}

    def event_metadata(self, trigger: str) -> dict[str, Any]:
        return {
            "patch_id": self.patch_id,
            "validation_results": {
                "format": self.validation_format_passed,
                "scope": self.validation_scope_passed,
                "constraints": self.validation_constraints_passed,
                "tests": self.validation_tests_passed,
            },
            "commit_sha": self.commit_sha or None,
            "revert_commit": self.revert_commit or None,
            "quarantine_reason": self.quarantine_reason or None,
        }

    @transition(
        "validation_passed",
        source=State.CREATED,
        target=State.VALIDATED,
        by={INTEGRATOR, SYSTEM},
        guards=[every_check_passed],
    )
    def pass_validation(self, format_passed: bool, scope_passed: bool, constraints_passed: bool) -> None:
        self.validation_format_passed = format_passed
        self.validation_scope_passed = scope_passed
        self.validation_constraints_passed = constraints_passed

    @transition(
        "validation_failed",
        source=State.CREATED,
        target=State.QUARANTINED,
        by={INTEGRATOR, SYSTEM},
        severity=Severity.WARNING,
    )
    def fail_validation(
        self,
        error: str,
        details: dict[str, Any] | None = None,
        format_passed: bool = False,
        scope_passed: bool = False,
        constraints_passed: bool = False,
    ) -> None:
        """A check counts as passed only if it was made."""
        self.validation_format_passed = format_passed
        self.validation_scope_passed = scope_passed
        self.validation_constraints_passed = constraints_passed
        self._quarantine(error, details)

    @transition(
        "accepted_for_merge",
        source=State.VALIDATED,
        target=State.QUEUED,
        by={INTEGRATOR, OPERATOR, SYSTEM},
        guards=[the_phase_allows_what_it_touches],
    )
    def accept(self) -> None: ...

    @transition(
        "policy_violated",
        source=State.VALIDATED,
        target=State.QUARANTINED,
        by={INTEGRATOR, OPERATOR, SYSTEM},
        severity=Severity.WARNING,
    )
    def quarantine(self, error: str, details: dict[str, Any] | None = None) -> None:
        self._quarantine(error, details)

    @transition("apply_succeeded", source=State.QUEUED, target=State.APPLIED, by={INTEGRATOR, SYSTEM})
    def apply(self) -> None:
        self.last_error = ""

    @transition(
        "apply_failed", source=State.QUEUED, target=State.APPLY_FAILED, by={INTEGRATOR, SYSTEM}, severity=Severity.ERROR
    )
    def fail_to_apply(self, error: str) -> None:
        self.last_error = error

    @transition(
        "apply_retried",
        source=State.APPLY_FAILED,
        target=State.QUEUED,
        by={SYSTEM},
        guards=[it_was_applied_fewer_than_three_times_again],
        severity=Severity.WARNING,
    )
    def queue_again(self) -> None:
        self.apply_retries += 1

    @transition(
        "auto_quarantined", source=State.APPLY_FAILED, target=State.QUARANTINED, by={SYSTEM}, severity=Severity.WARNING
    )
    def give_up(self) -> None:
        self._quarantine(self.last_error or "the patch could not be applied", None)

    @transition("discarded", source=State.APPLY_FAILED, target=State.DROPPED, by={OPERATOR})
    def drop(self) -> None: ...

    @transition(
        "discarded",
        source=State.QUARANTINED,
        target=State.DROPPED,
        by={OPERATOR, SYSTEM},
        leaves_final="a quarantined patch is dropped once a new patch replaces it",
    )
    def drop_quarantined(self) -> None: ...

    @transition("tests_passed", source=State.APPLIED, target=State.VERIFIED, by={INTEGRATOR, SYSTEM})
    def verify(self) -> None:
        self.validation_tests_passed = True

    @transition(
        "tests_failed",
        source=State.APPLIED,
        target=State.QUARANTINED,
        by={INTEGRATOR, SYSTEM},
        severity=Severity.WARNING,
    )
    def fail_tests(self, error: str, details: dict[str, Any] | None = None) -> None:
        self._quarantine(error, details)

    @transition("commit_succeeded", source=State.VERIFIED, target=State.COMMITTED, by={INTEGRATOR, SYSTEM})
    def commit(self, commit_sha: str) -> None:
        self.commit_sha = commit_sha

    @transition(
        "rollback_requested",
        source=State.COMMITTED,
        target=State.ROLLED_BACK,
        by={OPERATOR, SYSTEM},
        guards=[the_compensation_plan_is_approved, the_revert_is_verified],
        severity=Severity.CRITICAL,
        leaves_final="a committed patch is rolled back once its approved compensation plan was executed",
    )
    def roll_back(self, error: str) -> None:
        self.rollback_reason = error

    def _quarantine(self, error: str, details: dict[str, Any] | None) -> None:
        self.quarantine_reason = self.last_error = error
        self.quarantine_metadata = details or {}
