"""One execution of a compensation plan, step by step, each written down as it ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, cast

from django.conf import settings

from .. import door
from ..door import Outcome, rows
from ..door.perform import perform
from ..kernel import notify
from ..kernel.actors import Actor
from ..kernel.clock import now
from ..kernel.notify import NotNotified
from ..kernel.refusals import Refusal
from ..kernel.ulid import new_id
from ..machines.patch_ledger import PatchLedger
from ..records.compensation_step import Action
from . import checks, recovery, steps
from .checks import Check
from .plan import Notify, Plan, Revert, RunTests
from .plan import Step as Planned
from .repository import GitFailed, Repository

TRAILER = recovery.TRAILERS[recovery.ROLLBACK]


class RollbackFailed(Refusal):
    """The patch is as committed as before, and so is the repository."""

    code = "rollback_failed"


class StepFailed(Exception):
    def __init__(self, error: str, output: str = "") -> None:
        super().__init__(error)
        self.output = output


class Step(NamedTuple):
    action: Action
    do: Callable[[], str]
    details: dict[str, Any]
    required: bool = True


class Execution:
    def __init__(self, entry: PatchLedger, plan: Plan, actor: Actor, reason: str) -> None:
        self.entry, self.plan, self.actor, self.reason = entry, plan, actor, reason
        self.id = new_id("comp")
        self.base = self.tree = self.made = ""

    def run(self, repository: Repository | None) -> PatchLedger:
        if repository is not None:
            recovery.put_in_order(repository)
            repository.check()
            self.base = repository.head()
            repository.begin(recovery.ROLLBACK, self.entry.pk, self.base)
        self.note(Action.STARTED, details={"reason": self.reason, "base": self.base})
        try:
            for step in self.steps(repository):
                self.take(step)
            rolled_back = self.record()
        except (StepFailed, Refusal) as failure:
            self.undo(repository)
            self.note(Action.FAILED, error=str(failure))
            raise RollbackFailed(f"{self.entry} stays committed: {failure}", execution=self.id) from failure
        if repository is not None:
            repository.restore(self.made or self.base)
            repository.end()
        self.note(Action.ROLLED_BACK, details={"commit_sha": self.made})
        return rolled_back

    def steps(self, repository: Repository | None) -> Iterator[Step]:
        for planned in self.plan.steps:
            yield self.planned(planned, repository)
        if repository is None:
            return
        for gate_type in self.plan.required_gates:
            yield Step(Action.REQUIRED_GATE, self.gate(repository, gate_type), {"gate_type": gate_type})
        if self.tree:
            yield Step(Action.COMMIT, self.commit(repository), {})
        if self.plan.verify_clean_state:
            yield Step(Action.VERIFY_CLEAN_STATE, self.clean(repository), {})

    def planned(self, step: Planned, repository: Repository | None) -> Step:
        if isinstance(step, Notify):
            told = {"channels": step.channels, "recipients": step.recipients}
            return Step(Action.NOTIFY, lambda: self.notify(step), told, step.required)
        assert repository is not None  # noqa: S101 - a plan that has more than notices needs it
        if isinstance(step, RunTests):
            return Step(Action.RUN_TESTS, self.tests(repository, step), {"test_suite": step.test_suite}, step.required)
        return Step(Action.GIT_REVERT, self.revert(repository, step), {"commit_sha": self.entry.commit_sha})

    def take(self, step: Step) -> None:
        """Take a step and write down what came of it; only a required one that fails is the end of it all."""
        started = now()
        details = {**step.details, "required": step.required}
        try:
            output = step.do()
        except (StepFailed, GitFailed, NotNotified, Refusal) as failure:
            said = getattr(failure, "output", "")
            self.note(step.action, started_at=started, error=str(failure), output=said, details=details)
            if step.required:
                raise StepFailed(f"{step.action}: {failure}") from failure
        else:
            self.note(step.action, started_at=started, output=output, details=details)

    def revert(self, repository: Repository, step: Revert) -> Callable[[], str]:
        def do() -> str:
            if step.branch and (branch := repository.branch()) != step.branch:
                raise StepFailed(f"the repository is on {branch or 'no branch'}, not on {step.branch}")
            if there := repository.find(TRAILER, self.entry.pk, since=self.entry.commit_sha):
                return f"reverted already, by {there}"
            self.tree = repository.revert(self.entry.commit_sha)
            return f"{self.entry.commit_sha} is reverted, to be committed when all else has passed"

        return do

    def tests(self, repository: Repository, step: RunTests) -> Callable[[], str]:
        def do() -> str:
            commands = checks.of_settings()
            if not commands:
                raise StepFailed("there is nothing to run: STATECORE_PATCH_TEST_COMMAND is empty")
            return self.passed(repository, commands, {"STATECORE_TEST_SUITE": step.test_suite})

        return do

    def gate(self, repository: Repository, gate_type: str) -> Callable[[], str]:
        """The commands of the workstream's gates of this type; the gates themselves stay as they ended."""

        def do() -> str:
            commands = checks.of_workstream(self.entry.workstream_id, gate_type)
            if not commands:
                raise StepFailed(f"workstream {self.entry.workstream_id} has no gate of type {gate_type}")
            return self.passed(repository, commands)

        return do

    def passed(self, repository: Repository, commands: list[Check], extra: dict[str, str] | None = None) -> str:
        done = checks.run(repository, commands, extra)
        output = "".join(f"{each.told()}\n{each.result.stdout}{each.result.stderr}" for each in done)
        if not done[-1].passed:
            raise StepFailed(done[-1].told(), output)
        return output

    def notify(self, step: Notify) -> str:
        for_whom = f" For: {', '.join([*step.recipients, *step.channels])}." if step.recipients or step.channels else ""
        body = f"{self.reason}\nAsked for by {self.actor.name}, workstream {self.entry.workstream_id}.{for_whom}"
        told = notify.send(settings.STATECORE_NOTIFY_URLS, f"Patch {self.entry.pk} is being rolled back", body)
        return f"sent to {told} addresses"

    def commit(self, repository: Repository) -> Callable[[], str]:
        def do() -> str:
            subject = f"Revert: {' '.join(self.reason.split())[:200]}"
            message = f"{subject}\n\n{TRAILER}: {self.entry.pk}\nStatecore-Reverts: {self.entry.commit_sha}\n"
            self.made = repository.commit(self.tree, self.base, message)
            return self.made

        return do

    def clean(self, repository: Repository) -> Callable[[], str]:
        """What tests have left lying about is cleared away first; what is still there then is not ours."""

        def do() -> str:
            expected = self.made or self.base
            repository.restore(expected)
            if changes := repository.changes():
                raise StepFailed(f"the work tree is not clean: {', '.join(changes[:5])}")
            return f"clean, at {expected}"

        return do

    def record(self) -> PatchLedger:
        """The move itself, against the version and the plan that the execution began with."""

        def step() -> PatchLedger:
            entry = cast("PatchLedger", rows.lock(PatchLedger, self.entry.pk))
            if entry.compensation_plan != self.entry.compensation_plan:
                raise StepFailed("the plan was changed while it was executed")
            return cast("PatchLedger", self.move().entity)

        return perform(step)

    def move(self) -> Outcome:
        return door.transition(
            PatchLedger,
            self.entry.pk,
            "rollback_requested",
            actor=self.actor,
            params={"error": self.reason},
            reason=self.reason,
            metadata={"execution": self.id, "revert_commit": self.made or None},
            expected_version=self.entry.version,
        )

    def undo(self, repository: Repository | None) -> None:
        if repository is None:
            return
        repository.restore(self.base)
        repository.end()
        self.note(Action.UNDONE, output=f"the repository is as it was, at {self.base}")

    def note(self, action: Action, **given: Any) -> None:
        steps.note(self.entry.pk, action, self.actor, execution=self.id, **given)
