"""The execution of a compensation plan. Each step is recorded when it ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple, cast

from django.conf import settings
from django.db.models import QuerySet

from statecore_client.processes.output import LIMIT, keep_end

from .. import notifications, transitions
from ..kernel.actors import Actor
from ..kernel.clock import now
from ..kernel.ids import new_id
from ..kernel.refusals import Refusal, StaleVersion
from ..machines.patch_ledger import PatchLedger
from ..notifications import NotificationFailed, Urgency
from ..records.compensation_step import Action, CompensationStep
from ..storage.write_guard import allow_writes
from ..transitions.change import check_version
from ..transitions.unit_of_work import UnitOfWork, run_in_transaction
from . import reverts, verification
from .checkouts import Source
from .compensation_plan import Notify, Plan, Revert, RunTests
from .errors import GitFailed, RollbackFailed
from .repository import Repository
from .verification import VerificationCommand
from .work_tree_recovery import ROLLBACK, TRAILERS, recover_work_tree

TRAILER = TRAILERS[ROLLBACK]


def steps_of(entry_id: str) -> QuerySet[CompensationStep]:
    return CompensationStep.objects.filter(entry=entry_id).order_by("pk")


def record_step(
    entry_id: str,
    action: Action,
    actor: Actor,
    *,
    started_at: datetime | None = None,
    execution: str = "",
    output: str = "",
    error: str = "",
    details: dict[str, Any] | None = None,
    within: UnitOfWork | None = None,
) -> CompensationStep:
    """Record a step that has ended; a step with an error has failed."""

    def step(work: UnitOfWork) -> CompensationStep:
        with allow_writes(work.connection):
            return CompensationStep.objects.create(
                entry_id=entry_id,
                execution=execution,
                action=action,
                ok=not error,
                output=keep_end(output, LIMIT),
                error=keep_end(error, LIMIT),
                details=details or {},
                actor=actor.name,
                started_at=started_at or now(),
                ended_at=now(),
            )

    return run_in_transaction(step, within=within)


def fire_rollback(
    entry: PatchLedger,
    revert_commit: str,
    actor: Actor,
    reason: str,
    *,
    execution: str = "",
    dry_run: bool = False,
    within: UnitOfWork | None = None,
) -> PatchLedger:
    """Record the commit and fire the transition, if the entry and its plan are as they were read."""

    def step(work: UnitOfWork) -> PatchLedger:
        current = work.lock(PatchLedger, entry.pk)
        if current.compensation_plan != entry.compensation_plan:
            raise StaleVersion("the plan was changed since it was read", **current.current_facts())
        check_version(current, entry.version)
        transitions.amend(work, current, {"revert_commit": revert_commit}, actor=actor, reason=reason)
        outcome = transitions.transition(
            PatchLedger, entry.pk, "rollback_requested", actor=actor, params={"error": reason}, reason=reason,
            metadata={"execution": execution} if execution else {}, within=work,
        )  # fmt: skip
        return cast("PatchLedger", outcome.entity)

    return run_in_transaction(step, within=within, dry_run=dry_run)


class StepFailed(Exception):
    def __init__(self, error: str, output: str = "") -> None:
        super().__init__(error)
        self.output = output


class Step(NamedTuple):
    """`run` returns the output; raises StepFailed, GitFailed, NotificationFailed or a Refusal."""

    action: Action
    run: Callable[[], str]
    details: dict[str, Any]
    required: bool = True


class Rollback:
    """One execution of a plan. `revert_commit` is the commit that reverted the patch already, if a person made it."""

    def __init__(self, entry: PatchLedger, plan: Plan, actor: Actor, reason: str, revert_commit: str = "") -> None:
        self.entry, self.plan, self.actor, self.reason = entry, plan, actor, reason
        self.id = new_id("comp")
        self.base = self.tree = ""
        self.revert_commit = revert_commit
        self.made_by_person = bool(revert_commit)

    def run(self, repository: Repository) -> PatchLedger:
        """Run all steps and return the rolled-back entry; raises RollbackFailed after undoing the changes."""
        recover_work_tree(repository)
        repository.check()
        self.base = repository.head()
        repository.begin(ROLLBACK, self.entry.pk, self.base)
        self._record(Action.STARTED, details={"reason": self.reason, "base": self.base})
        try:
            for step in self._steps_before_commit(repository):
                self._run_step(step)
            with repository.committing():
                rolled_back = self._complete(repository)
        except (StepFailed, Refusal) as failure:
            self._undo(repository)
            self._record(Action.FAILED, error=str(failure))
            raise RollbackFailed(f"{self.entry} stays committed: {failure}", execution=self.id) from failure
        repository.end()
        self._record(Action.ROLLED_BACK, details={"commit_sha": self.revert_commit})
        return rolled_back

    def _complete(self, repository: Repository) -> PatchLedger:
        """Commit, and record the rollback. A commit is undone before gates can test it."""
        try:
            for step in self._steps_from_commit(repository):
                self._run_step(step)
            return fire_rollback(self.entry, self.revert_commit, self.actor, self.reason, execution=self.id)
        except (StepFailed, Refusal):
            repository.restore(self.base)
            raise

    def _steps_before_commit(self, repository: Repository) -> Iterator[Step]:
        """Yield the steps one by one, because later ones depend on the results of earlier ones."""
        if self.made_by_person:
            yield self._verification_step(repository)
        for planned in self.plan.changes:
            yield self._planned_step(planned, repository)
        for gate_type in self.plan.required_gates:
            run = partial(self._run_gates, repository, gate_type)
            yield Step(Action.REQUIRED_GATE, run, {"gate_type": gate_type})

    def _steps_from_commit(self, repository: Repository) -> Iterator[Step]:
        """The notices come last, because they announce a rollback whose gates have passed and whose commit exists."""
        if self.tree:
            yield Step(Action.COMMIT, lambda: self._commit(repository), {})
        if not self.made_by_person:
            yield self._verification_step(repository)
        if self.plan.verify_clean_state:
            yield Step(Action.VERIFY_CLEAN_STATE, lambda: self._verify_clean(repository), {})
        for notice in self.plan.notices:
            addressees = {"channels": notice.channels, "recipients": notice.recipients}
            yield Step(Action.NOTIFY, partial(self._notify, notice), addressees, notice.required)

    def _verification_step(self, repository: Repository) -> Step:
        return Step(Action.VERIFY_REVERT, lambda: self._verify_revert(repository), {})

    def _planned_step(self, planned: Revert | RunTests, repository: Repository) -> Step:
        if isinstance(planned, RunTests):
            suite = {"test_suite": planned.test_suite}
            return Step(Action.RUN_TESTS, lambda: self._run_tests(repository, planned), suite, planned.required)
        reverted = {"commit_sha": self.entry.commit_sha}
        return Step(Action.GIT_REVERT, lambda: self._revert(repository, planned), reverted)

    def _run_step(self, step: Step) -> None:
        """Run and record a step; raises StepFailed only if the step is required."""
        started = now()
        details = {**step.details, "required": step.required}
        try:
            output = step.run()
        except (StepFailed, GitFailed, NotificationFailed, Refusal) as failure:
            output = getattr(failure, "output", "")
            self._record(step.action, started_at=started, error=str(failure), output=output, details=details)
            if step.required:
                raise StepFailed(f"{step.action}: {failure}") from failure
        else:
            self._record(step.action, started_at=started, output=output, details=details)

    def _revert(self, repository: Repository, planned: Revert) -> str:
        if planned.branch and (branch := repository.branch()) != planned.branch:
            raise StepFailed(f"the repository is on {branch or 'no branch'}, not on {planned.branch}")
        existing = repository.find_commit(TRAILER, self.entry.pk, since=self.entry.commit_sha)
        self.revert_commit = self.revert_commit or existing or ""
        if self.revert_commit:
            return f"already reverted by {self.revert_commit}"
        self.tree = repository.revert(self.entry.commit_sha)
        repository.restore(self.base)
        if not repository.changed_modes(self.base, self.tree):
            raise StepFailed("it was reverted already: request the rollback with the commit that did it")
        return f"{self.entry.commit_sha} is reverted; the commit follows after the other steps"

    def _run_tests(self, repository: Repository, planned: RunTests) -> str:
        commands = verification.commands_from_settings(self.entry)
        if not commands:
            raise StepFailed(f"there are no tests to run: the repository {repository.name} has no test command")
        return self._verify(repository, commands, {"STATECORE_TEST_SUITE": planned.test_suite})

    def _run_gates(self, repository: Repository, gate_type: str) -> str:
        """Run the commands of the workstream's gates of this type; the gates themselves do not change."""
        commands = verification.commands_of_workstream(self.entry.workstream_id, gate_type)
        if not commands:
            raise StepFailed(f"workstream {self.entry.workstream_id} has no gate of type {gate_type}")
        return self._verify(repository, commands)

    def _verify(
        self, repository: Repository, commands: list[VerificationCommand], extra: dict[str, str] | None = None
    ) -> str:
        source = Source(repository.path, self.base, self.tree or f"{self.base}^{{tree}}")
        results = verification.run_until_failure(source, commands, extra)
        output = "".join(f"{each.describe()}\n{each.result.stdout}{each.result.stderr}" for each in results)
        if not results[-1].passed:
            raise StepFailed(results[-1].describe(), output)
        return output

    def _notify(self, planned: Notify) -> str:
        addressees = [*planned.recipients, *planned.channels]
        suffix = f" For: {', '.join(addressees)}." if addressees else ""
        body = (
            f"{self.reason}\nRequested by {self.actor.name}, workstream {self.entry.workstream_id}."
            f" Commit {self.revert_commit} takes it out.{suffix}"
        )
        subject = f"Patch {self.entry.pk} is being rolled back"
        sent = notifications.send(settings.STATECORE_NOTIFY_URLS, subject, body, Urgency.FAILURE)
        return f"sent to {sent} addresses"

    def _commit(self, repository: Repository) -> str:
        subject = f"Revert: {' '.join(self.reason.split())[:200]}"
        message = f"{subject}\n\n{TRAILER}: {self.entry.pk}\nStatecore-Reverts: {self.entry.commit_sha}\n"
        self.revert_commit = repository.commit(self.tree, self.base, message)
        return self.revert_commit

    def _verify_revert(self, repository: Repository) -> str:
        reverts.verify_revert(repository.path, repository.wanted_branch, self.entry.commit_sha, self.revert_commit)
        return f"{self.revert_commit} took the change of {self.entry.commit_sha} out"

    def _verify_clean(self, repository: Repository) -> str:
        if changes := repository.changes():
            raise StepFailed(f"the work tree is not clean: {', '.join(changes[:5])}")
        return f"clean at {repository.head()}"

    def _undo(self, repository: Repository) -> None:
        repository.restore(self.base)
        repository.end()
        self._record(Action.UNDONE, output=f"the repository is restored to {self.base}")

    def _record(self, action: Action, **fields: Any) -> None:
        record_step(self.entry.pk, action, self.actor, execution=self.id, **fields)
