"""The calls of operators beside those of every machine: taking a committed patch back, and sending a worker home."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from django.urls import path

from statecore import scheduling
from statecore.executors import compensation, steps
from statecore.executors.plan import digest
from statecore.machines.patch_ledger import PatchLedger, State
from statecore.machines.worker import Worker
from statecore.records.compensation_step import Action
from statecore.records.token import Scope

from . import bodies, entities
from .actors import acting
from .posted import Posted
from .request import Request
from .views import ApiView, answer


def told(patch_id: str) -> dict[str, Any]:
    """How a patch would be taken back, and what was done about it so far."""
    patch: Any = entities.found(PatchLedger, patch_id)
    plan = patch.compensation_plan or None
    return {
        "patch": patch.pk,
        "plan": plan,
        "digest": digest(plan) if plan else None,
        "approved_by": patch.compensation_approved_by or None,
        "default": compensation.default_plan(patch) if patch.state == State.COMMITTED else None,
        "steps": [{**step.as_dict(), "failed": step.action == Action.FAILED} for step in steps.of(patch.pk)],
    }


class Compensation(ApiView):
    flow, writes_need = PatchLedger.flow, Scope.OPERATE

    def get(self, request: Request, patch_id: str) -> HttpResponse:
        return answer(told(patch_id))

    def put(self, request: Request, patch_id: str) -> HttpResponse:
        """Keep a plan in place of the one before."""
        entities.found(PatchLedger, patch_id)
        compensation.write_plan(patch_id, bodies.read(request), acting(request))
        return answer(told(patch_id))


class Approval(ApiView):
    flow, writes_need, action = PatchLedger.flow, Scope.OVERRIDE, "override"

    class Asked(bodies.Body):
        digest: str

    def post(self, request: Request, patch_id: str) -> HttpResponse:
        asked, actor = Posted(request, self.Asked), acting(request)
        entities.found(PatchLedger, patch_id)

        def approve() -> dict[str, Any]:
            compensation.approve(patch_id, actor, digest=asked.said.digest)
            return told(patch_id)

        return asked.once(actor, approve)


class Rollback(ApiView):
    """Ask for the approved plan to be carried out; a worker does it, each step on record."""

    flow, writes_need = PatchLedger.flow, Scope.OPERATE

    class Asked(bodies.Body):
        reason: str

    def post(self, request: Request, patch_id: str) -> HttpResponse:
        asked, actor = Posted(request, self.Asked), acting(request)
        entities.found(PatchLedger, patch_id)

        def ask() -> dict[str, Any]:
            compensation.request(patch_id, actor, asked.said.reason)
            return told(patch_id)

        return asked.once(actor, ask, 202)


class Drain(ApiView):
    """No new task for this worker; its agent hears of it with the next heartbeat and leaves when it is done."""

    flow, writes_need = Worker.flow, Scope.OPERATE

    def post(self, request: Request, worker_id: str) -> HttpResponse:
        asked, actor = Posted(request, bodies.Body), acting(request)

        def drain() -> dict[str, Any]:
            scheduling.drain(worker_id, actor=actor)
            return entities.found(Worker, worker_id).as_dict()

        return asked.once(actor, drain)


urlpatterns = [
    path("patches/<str:patch_id>/compensation/", Compensation.as_view(), name="compensation"),
    path("patches/<str:patch_id>/compensation/approve/", Approval.as_view(), name="compensation-approve"),
    path("patches/<str:patch_id>/compensation/request/", Rollback.as_view(), name="compensation-request"),
    path("workers/<str:worker_id>/drain/", Drain.as_view(), name="worker-drain"),
]
