"""Taking a committed patch back: a plan is written, approved, asked for and executed, each on record.

A failed step that is required undoes what the plan did to the repository and leaves the patch committed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

import structlog
from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import OuterRef, QuerySet

from .. import door
from ..door import rights, rows
from ..door.change import check_words
from ..door.perform import perform
from ..door.refused import counted
from ..door.transition import check_not_succeeded
from ..kernel.actors import THE_SYSTEM, Actor, Channel, Kind
from ..kernel.how_many import HowMany, of_its
from ..kernel.refusals import GuardFailed, Invalid, InvalidTransition, PermissionDenied, Refusal, StaleVersion, Unmet
from ..kernel.strides import next_by_id
from ..machines.patch_ledger import PatchLedger, State
from ..machines.test_gate import TestGate
from ..records.compensation_step import ENDINGS, Action, CompensationStep
from . import allowed, command, plan, repository, steps
from .execution import Execution, RollbackFailed
from .repository import Busy, GitFailed, Repository, Stopped

log = structlog.get_logger(__name__)

FLOW = PatchLedger.flow
EDGE = f"{State.COMMITTED}->{State.ROLLED_BACK}"
BATCH = 10
STRETCH = 500
PATIENCE = 60.0


def default_plan(entry: PatchLedger) -> dict[str, Any]:
    """What would be done without further thought: revert, test, tell, and pass the workstream's gates again.

    Of a patch as it was read: who looks at one is told, though it is rolled back this very moment.
    """
    _committed(entry, entry.pk)
    actions: list[dict[str, Any]] = []
    if entry.commit_sha:
        actions.append({"action": "git_revert", "commit_sha": entry.commit_sha})
    if settings.STATECORE_PATCH_TEST_COMMAND:
        actions.append({"action": "run_tests", "test_suite": "regression", "required": True})
    if settings.STATECORE_NOTIFY_URLS:
        actions.append({"action": "notify", "channels": [], "recipients": []})
    gates = TestGate.objects.filter(workstream=entry.workstream_id, successor=None) if allowed.are_on() else ()
    return {
        "compensation_type": "git_revert" if entry.commit_sha else "manual_fix",
        "actions": actions,
        "validation": {
            "required_gates": sorted({gate.gate_type for gate in gates}),
            "verify_clean_state": repository.is_on(),
        },
    }


def write_plan(ledger_id: str, given: Mapping[str, Any], actor: Actor) -> CompensationStep:
    """Keep a plan in place of the one before; whoever approved that one has not approved this one."""

    def step() -> CompensationStep:
        entry = _committed(rows.lock(PatchLedger, ledger_id), ledger_id)
        plan.read(given, entry.commit_sha)
        PatchLedger.objects.filter(pk=ledger_id).update(compensation_plan=given, compensation_approved_by="")
        return steps.note(ledger_id, Action.PLAN_WRITTEN, actor, details={"plan": given, "digest": plan.digest(given)})

    with counted(FLOW.entity_type):
        _may(actor, "operate")
        return perform(step)


def approve(ledger_id: str, actor: Actor, *, digest: str | None = None) -> CompensationStep:
    """Let the plan be executed; `digest` names the one that was read, so that no other is approved by mistake."""

    def step() -> CompensationStep:
        entry = _committed(rows.lock(PatchLedger, ledger_id), ledger_id)
        if not entry.compensation_plan:
            raise GuardFailed("approve", [Unmet("no_compensation_plan", "there is no compensation plan to approve")])
        found = plan.digest(entry.compensation_plan)
        if digest is not None and digest != found:
            raise StaleVersion("the plan was changed since it was read", digest=found, **entry.standing())
        _check_second_person(ledger_id, actor)
        PatchLedger.objects.filter(pk=ledger_id).update(compensation_approved_by=actor.name)
        return steps.note(ledger_id, Action.PLAN_APPROVED, actor, details={"digest": found})

    with counted(FLOW.entity_type):
        if actor.kind is not Kind.OPERATOR:
            raise PermissionDenied("a plan is approved by an operator", required=FLOW.permission("override"))
        # It lets a final state be left, as an override does.
        _may(actor, "override")
        return perform(step)


def request(ledger_id: str, actor: Actor, reason: str) -> CompensationStep:
    """Ask for the execution of the approved plan; a worker does it, also when it was down at the moment of asking."""
    _check(ledger_id, actor, reason)
    details = {"reason": reason, "kind": str(actor.kind), "channel": str(actor.channel)}
    return steps.note(ledger_id, Action.REQUESTED, actor, details=details)


def execute(ledger_id: str, actor: Actor, reason: str, *, wait: float = PATIENCE) -> PatchLedger:
    """Do what the approved plan says and roll the patch back; a RollbackFailed says which step failed, and why."""
    with _alone(_check(ledger_id, actor, reason), wait) as opened:
        return _execute(ledger_id, actor, reason, opened)


@contextmanager
def _alone(entry: PatchLedger, wait: float) -> Iterator[Repository | None]:
    """One rollback at a time, with the repository where the plan needs it."""
    with repository.turn("rollbacks.lock", wait=wait):
        if not plan.read(entry.compensation_plan, entry.commit_sha).needs_the_repository:
            yield None
            return
        with repository.opened(wait=wait) as opened:
            yield opened


def _execute(ledger_id: str, actor: Actor, reason: str, opened: Repository | None) -> PatchLedger:
    """Looked at again: whoever was before us may have done it, or failed, or somebody may have written another plan."""
    entry = _check(ledger_id, actor, reason)
    agreed = plan.read(entry.compensation_plan, entry.commit_sha)
    if agreed.needs_the_repository and opened is None:
        raise StaleVersion("the plan was changed since it was read", **entry.standing())
    return Execution(entry, agreed, actor, reason).run(opened)


def run_due(limit: int = BATCH) -> int:
    """Execute what was asked for and has not ended, one after the other; how many patches were rolled back."""
    done = 0
    for asked in _unanswered().order_by("pk")[:limit]:
        if command.runners.stopping:
            break
        done += _run(asked)
    return done


# Where this process stopped last time: requests are kept for ever, and most were answered long ago.
_places: dict[str, Any] = {}


def due(limit: int = BATCH) -> list[CompensationStep]:
    """What no ending has answered among the next so many requests, the newest first, round and round."""
    asked = CompensationStep.objects.filter(action=Action.REQUESTED)
    some = [pk for (pk,) in next_by_id(asked, _places, Action.REQUESTED, STRETCH)]
    return list(_unanswered().filter(pk__in=some).order_by("pk")[:limit])


def _unanswered() -> QuerySet[CompensationStep]:
    recorded = CompensationStep.objects
    later = recorded.filter(entry=OuterRef("entry"), pk__gt=OuterRef("pk"), action__in=ENDINGS)
    asked = recorded.alias(endings=HowMany(later.values("pk")), of_entry=of_its(CompensationStep, "entry", "state"))
    return asked.filter(endings=0, of_entry=State.COMMITTED, action=Action.REQUESTED)


def _run(asked: CompensationStep) -> bool:
    """What cannot be done now is tried again; what is refused is an end, and says why."""
    try:
        actor, reason = _who(asked), asked.details["reason"]
        with _alone(_check(asked.entry_id, actor, reason), PATIENCE) as opened:
            if not _unanswered().filter(pk=asked.pk).exists():
                return False  # another worker was faster
            _execute(asked.entry_id, actor, reason, opened)
    except (Busy, Stopped, GitFailed) as said:
        log.info("rollback_left_waiting", ledger=asked.entry_id, because=str(said))
        return False
    except RollbackFailed:
        return False
    except Refusal as refusal:
        if _unanswered().filter(pk=asked.pk).exists():
            steps.note(asked.entry_id, Action.FAILED, THE_SYSTEM, error=refusal.detail)
        return False
    return True


def _who(asked: CompensationStep) -> Actor:
    """Whoever asked, with the rights they have today."""
    if asked.details["kind"] == Kind.SYSTEM:
        return THE_SYSTEM
    user = User.objects.filter(username=asked.actor).first()
    if user is None:
        raise PermissionDenied(f"{asked.actor} is no operator any more", required=FLOW.permission("operate"))
    return Actor.operator(cast("Any", user), Channel(asked.details["channel"]))


def _check(ledger_id: str, actor: Actor, reason: str) -> PatchLedger:
    """Everything that the door will ask at the end, before anything is done."""
    with counted(FLOW.entity_type):
        if not reason.strip():
            raise Invalid({"reason": ["must say why the patch is rolled back."]})
        check_words(reason, {})
        found = _committed(PatchLedger.objects.filter(pk=ledger_id).first(), ledger_id)
    door.transition(
        PatchLedger, ledger_id, "rollback_requested", actor=actor, params={"error": reason}, dry_run=True,
        expected_version=found.version,
    )  # fmt: skip
    return found


def _committed(entry: Any, ledger_id: str) -> PatchLedger:
    if entry is None:
        entry = perform(lambda: rows.lock(PatchLedger, ledger_id))  # which says that there is none
    if entry.state != State.COMMITTED:
        raise InvalidTransition(f"{entry} is {entry.state}: only a committed patch is rolled back", **entry.standing())
    check_not_succeeded(entry)
    return cast("PatchLedger", entry)


def _may(actor: Actor, action: str) -> None:
    if actor.kind is Kind.AGENT:
        raise PermissionDenied("an agent does not decide on a rollback", required=FLOW.permission(action))
    rights.require(actor, FLOW, action)


def _check_second_person(ledger_id: str, actor: Actor) -> None:
    if f"{FLOW.entity_type}.{EDGE}" not in settings.STATECORE_SECOND_PERSON:
        return
    written = steps.of(ledger_id).filter(action=Action.PLAN_WRITTEN).last()
    if written is None or written.actor == actor.name:
        raise PermissionDenied(
            "the plan takes the approval of another operator than its writer", required="second_person"
        )
