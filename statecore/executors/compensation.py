"""Rollback of committed patches: a compensation plan is written, approved, requested and executed.

A patch is rolled back only with a verified commit that took its change out of the repository.
Each decision and step is recorded. If a required step fails, the repository is restored and the patch stays committed.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import structlog
from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import F, OuterRef, QuerySet

from .. import transitions
from ..kernel.actors import THE_SYSTEM, Actor, Channel, Kind
from ..kernel.refusals import (
    GuardFailed,
    Invalid,
    InvalidTransition,
    PermissionDenied,
    Refusal,
    StaleVersion,
    Unmet,
)
from ..kernel.repositories import DEFAULT
from ..kernel.second_person import policies_for
from ..machines.patch_ledger import PatchLedger, State
from ..machines.test_gate import TestGate
from ..machines.workstream import Workstream
from ..records.compensation_step import ENDINGS, Action, CompensationStep
from ..records.executor_work import is_done_by_executors
from ..records.service_account import person_of
from ..storage.keyset_scan import next_by_id
from ..storage.links import CountRows, related_column
from ..transitions import rights
from ..transitions.change import check_not_retried, validate_reason_and_metadata
from ..transitions.entity_reader import not_found
from ..transitions.outcome import counting_refusals
from ..transitions.unit_of_work import UnitOfWork, run_in_transaction
from . import command, repository, reverts, verification
from .compensation_plan import digest as digest_of
from .compensation_plan import read_plan
from .errors import GitFailed, RepositoryBusy, RollbackFailed, WorkerStopping
from .repository import Repository
from .rollback import Rollback, fire_rollback, record_step, steps_of

log = structlog.get_logger(__name__)

FLOW = PatchLedger.flow
BATCH = 10
SCAN_BATCH = 500
# Seconds to wait for the repository. The sweep that runs as often tries again, so few threads wait at a time.
LOCK_TIMEOUT = 5.0
ANY_COMMIT = "0" * 40  # in dry runs before the revert is made


def default_plan(entry: PatchLedger) -> dict[str, Any]:
    """Propose a plan: revert, test, notify, and run the workstream's gates again."""
    _require_committed(entry, entry.pk)
    actions: list[dict[str, Any]] = []
    if entry.commit_sha:
        actions.append({"action": "git_revert", "commit_sha": entry.commit_sha})
    if verification.commands_from_settings(entry):
        actions.append({"action": "run_tests", "test_suite": "regression", "required": True})
    if settings.STATECORE_NOTIFY_URLS:
        actions.append({"action": "notify", "channels": [], "recipients": []})
    gates = (
        TestGate.objects.filter(workstream=entry.workstream_id, successor=None)
        if is_done_by_executors(TestGate.flow)
        else ()
    )
    return {
        "compensation_type": "git_revert" if entry.commit_sha else "manual_fix",
        "actions": actions,
        "validation": {
            "required_gates": sorted({gate.gate_type for gate in gates}),
            "verify_clean_state": is_done_by_executors(FLOW),
        },
    }


def write_plan(ledger_id: str, given: Mapping[str, Any], actor: Actor, *, dry_run: bool = False) -> CompensationStep:
    """Store a plan, which replaces the previous one and its approval; raises Invalid."""

    def step(work: UnitOfWork) -> CompensationStep:
        entry = _require_committed(work.lock(PatchLedger, ledger_id), ledger_id)
        read_plan(given, entry.commit_sha)
        transitions.amend(work, entry, {"compensation_plan": given, "compensation_approved_by": ""}, actor=actor)
        details = {"plan": given, "digest": digest_of(given), "account": actor.account}
        return record_step(ledger_id, Action.PLAN_WRITTEN, actor, details=details, within=work)

    with counting_refusals(FLOW.entity_type):
        _require_right(actor, "operate")
        return run_in_transaction(step, dry_run=dry_run)


def approve(
    ledger_id: str, actor: Actor, *, digest: str | None = None, within: UnitOfWork | None = None
) -> CompensationStep:
    """Approve the plan; raises StaleVersion if it no longer has the digest that the caller read."""

    def step(work: UnitOfWork) -> CompensationStep:
        entry = _require_committed(work.lock(PatchLedger, ledger_id), ledger_id)
        if not entry.compensation_plan:
            raise GuardFailed("approve", [Unmet("no_compensation_plan", "there is no compensation plan to approve")])
        current = digest_of(entry.compensation_plan)
        if digest is not None and digest != current:
            raise StaleVersion("the plan was changed since it was read", digest=current, **entry.current_facts())
        _check_second_person(ledger_id, actor)
        transitions.amend(work, entry, {"compensation_approved_by": actor.name}, actor=actor)
        return record_step(ledger_id, Action.PLAN_APPROVED, actor, details={"digest": current}, within=work)

    with counting_refusals(FLOW.entity_type):
        if actor.kind is not Kind.OPERATOR:
            raise PermissionDenied("only operators can approve a plan", required=FLOW.permission("override"))
        # Like an override, the rollback leaves a final state.
        _require_right(actor, "override")
        return run_in_transaction(step, within=within)


def request(
    ledger_id: str, actor: Actor, reason: str, *, revert_commit: str = "", within: UnitOfWork | None = None
) -> CompensationStep:
    """Request the execution of the approved plan, which an executor carries out later.

    Where patches are committed elsewhere, `revert_commit` is verified and the patch rolled back at once; raises
    RevertNotVerified.
    """

    def step(work: UnitOfWork) -> CompensationStep:
        entry = _check_can_roll_back(ledger_id, actor, reason, revert_commit, work)
        details = {
            "reason": reason, "kind": str(actor.kind), "channel": str(actor.channel), "revert_commit": revert_commit
        }  # fmt: skip
        requested = record_step(ledger_id, Action.REQUESTED, actor, details=details, within=work)
        if (mirror := reverts.mirror()) is not None:
            _roll_back_by_proof(mirror, entry, actor, reason, revert_commit, work)
        return requested

    return run_in_transaction(step, within=within)


def _roll_back_by_proof(
    mirror: Path, entry: PatchLedger, actor: Actor, reason: str, revert_commit: str, work: UnitOfWork
) -> None:
    with counting_refusals(FLOW.entity_type):
        reverts.verify_revert(mirror, settings.STATECORE_REPOSITORY_BRANCH, entry.commit_sha, revert_commit)
    fire_rollback(entry, revert_commit, actor, reason, within=work)
    details = {"commit_sha": revert_commit}
    for action in (Action.VERIFY_REVERT, Action.ROLLED_BACK):
        record_step(entry.pk, action, actor, details=details, within=work)


def execute(
    ledger_id: str, actor: Actor, reason: str, *, revert_commit: str = "", wait: float = LOCK_TIMEOUT
) -> PatchLedger:
    """Execute the approved plan and roll the patch back; raises RollbackFailed with the failed step."""
    entry = _check_can_roll_back(ledger_id, actor, reason, revert_commit)
    with repository.locked(entry.workstream.repository, wait=wait) as work_tree:
        return _execute(ledger_id, actor, reason, revert_commit, work_tree)


def _execute(ledger_id: str, actor: Actor, reason: str, revert_commit: str, work_tree: Repository) -> PatchLedger:
    """Check again under the lock: the patch may be rolled back by now, or its plan changed."""
    entry = _check_can_roll_back(ledger_id, actor, reason, revert_commit)
    plan = read_plan(entry.compensation_plan, entry.commit_sha)
    return Rollback(entry, plan, actor, reason, revert_commit).run(work_tree)


def run_due(name: str = DEFAULT, limit: int = BATCH) -> int:
    """Execute the open requests for a repository one by one, and return the number of patches rolled back."""
    rolled_back = 0
    for request_step in _open_requests(name).order_by("pk")[:limit]:
        if command.runners.stopping:
            break
        rolled_back += _run(request_step)
    return rolled_back


# Where this process stopped last time; requests are never deleted, and most ended long ago.
_places: dict[str, Any] = {}


def find_due_repositories() -> list[str]:
    """Return the repositories for which a rollback is requested."""
    entries = [step.entry_id for step in find_due()]
    return sorted(set(Workstream.objects.filter(patches__in=entries).values_list("repository", flat=True)))


def find_due() -> list[CompensationStep]:
    """Return the open requests in the next batch of a circular scan, which starts with the newest."""
    requests = CompensationStep.objects.filter(action=Action.REQUESTED)
    batch = [pk for (pk,) in next_by_id(requests, _places, Action.REQUESTED, SCAN_BATCH)]
    # Without the action, which the ids imply: PostgreSQL would otherwise read the index of all requests ever made.
    return list(_without_result(CompensationStep.objects.filter(pk__in=batch)).order_by("pk"))


def has_due(name: str) -> bool:
    return _open_requests(name).exists()


def _open_requests(name: str) -> QuerySet[CompensationStep]:
    requests = CompensationStep.objects.filter(action=Action.REQUESTED, entry__workstream__repository=name)
    return _without_result(requests)


def _without_result(requests: QuerySet[CompensationStep]) -> QuerySet[CompensationStep]:
    """Keep the newest request of each committed patch, if no result follows it."""
    results = CompensationStep.objects.filter(entry=OuterRef("entry"), action__in=(*ENDINGS, Action.REQUESTED))
    # The sum hides the primary key: with outdated statistics PostgreSQL would read all steps after the id with it.
    results = results.alias(number=F("pk") + 0).filter(number__gt=OuterRef("pk"))
    found = requests.alias(
        endings=CountRows(results.values("pk")), of_entry=related_column(CompensationStep, "entry", "state")
    )
    # Django sorts these conditions by name; with `endings` after `of_entry` SQLite reads many more rows.
    return found.filter(endings=0, of_entry=State.COMMITTED)


def _run(request_step: CompensationStep) -> bool:
    """Execute a request. It stays open if a lock, git or a stop prevents that; a refusal ends it with its reason."""
    entry_id = request_step.entry_id
    try:
        actor, reason = _requester(request_step), request_step.details["reason"]
        revert_commit = request_step.details.get("revert_commit", "")
        entry = _check_can_roll_back(entry_id, actor, reason, revert_commit)
        with repository.locked(entry.workstream.repository, wait=LOCK_TIMEOUT) as work_tree:
            if not _is_open(request_step):
                return False  # another executor was faster
            _execute(entry_id, actor, reason, revert_commit, work_tree)
    except (RepositoryBusy, WorkerStopping, GitFailed) as error:
        log.info("rollback_postponed", ledger=entry_id, reason=str(error))
        return False
    except RollbackFailed:
        return False
    except Refusal as refusal:
        if _is_open(request_step):
            record_step(entry_id, Action.FAILED, THE_SYSTEM, error=refusal.detail)
        return False
    return True


def _is_open(request_step: CompensationStep) -> bool:
    return _without_result(CompensationStep.objects.filter(pk=request_step.pk)).exists()


def _requester(request_step: CompensationStep) -> Actor:
    """Return the requester with their current permissions."""
    if request_step.details["kind"] == Kind.SYSTEM:
        return THE_SYSTEM
    user = User.objects.filter(username=request_step.actor).first()
    if user is None:
        raise PermissionDenied(f"the account {request_step.actor} was deleted", required=FLOW.permission("operate"))
    return Actor.operator(cast("Any", user), Channel(request_step.details["channel"]))


def _check_can_roll_back(
    ledger_id: str, actor: Actor, reason: str, revert_commit: str, within: UnitOfWork | None = None
) -> PatchLedger:
    """Return the entry if a dry run of the final transition succeeds; raises the refusal otherwise."""
    with counting_refusals(FLOW.entity_type):
        if not reason.strip():
            raise Invalid({"reason": ["must say why the patch is rolled back."]})
        validate_reason_and_metadata(reason, {})
        entry = _require_committed(PatchLedger.objects.filter(pk=ledger_id).first(), ledger_id)
    fire_rollback(entry, revert_commit or ANY_COMMIT, actor, reason, dry_run=True, within=within)
    _require_revert(entry, revert_commit)
    return entry


def _require_revert(entry: PatchLedger, revert_commit: str) -> None:
    """Refuse a rollback for which neither an executor nor a person makes the revert."""
    makes_revert = read_plan(entry.compensation_plan, entry.commit_sha).makes_revert
    if revert_commit or (makes_revert and reverts.mirror() is None):
        return
    why = "no executor carries out the plan" if makes_revert else "the plan does not revert the commit"
    raise Invalid({"revert_commit": [f"must be the commit that reverted the patch: {why}."]})


def _require_committed(entry: Any, ledger_id: str) -> PatchLedger:
    if entry is None:
        raise not_found(PatchLedger, ledger_id)
    if entry.state != State.COMMITTED:
        raise InvalidTransition(
            f"{entry} is {entry.state}: only committed patches can be rolled back", **entry.current_facts()
        )
    check_not_retried(entry)
    return cast("PatchLedger", entry)


def _require_right(actor: Actor, action: str) -> None:
    if actor.holds:
        raise PermissionDenied("agents cannot decide about rollbacks", required=FLOW.permission(action))
    rights.require(actor, FLOW, action)


def _check_second_person(ledger_id: str, actor: Actor) -> None:
    """Require another account than the author's if a policy protects rolled-back patches."""
    if not policies_for([(FLOW.entity_type, State.ROLLED_BACK)]):
        return
    written = steps_of(ledger_id).filter(action=Action.PLAN_WRITTEN).last()
    author = written.details.get("account") if written else None
    if author is None or person_of(author) == person_of(actor.account):
        raise PermissionDenied(
            "the plan must be approved by another operator than its author", required="second_person"
        )
