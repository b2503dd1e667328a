"""Claims: a worker takes tasks, and may report the results of its previous ones in the same call."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from django.core.handlers.wsgi import WSGIRequest
from django.http import HttpResponse
from msgspec import UNSET, Meta, UnsetType

from statecore import scheduling
from statecore.bulk import serialize_item
from statecore.kernel.actors import Actor
from statecore.kernel.ids import ID_PATTERN
from statecore.kernel.refusals import Invalid
from statecore.machines.task import Task
from statecore.machines.worker import Worker
from statecore.read_models import attempts, inputs
from statecore.records.proof import NO_PROOF, NotProven, Proof, proof
from statecore.records.token import Token
from statecore.transitions.unit_of_work import UnitOfWork

from . import known_tokens, throttling
from .access import agent_of, require_permission
from .claim_wait import AT_LIVE, MAX_WAIT_SECONDS, PASS_ON, read_wait
from .known_tokens import KnownTokenView
from .openapi.fields import ID, Schema
from .openapi.operation import operation, query
from .openapi.schemas import BULK_RESULT, COUNT, INPUTS, STRING, array, body_schema, component, obj, part_schema, ref
from .request import Request
from .request_body import As, Body, RequestBody

MAX_HELD = 1_000
MAX_ATTEMPT = 2**31 - 1


TaskId = Annotated[str, Meta(pattern=rf"\A{ID_PATTERN.pattern}\Z"), As(ID)]
Attempt = Annotated[int, Meta(ge=0, le=MAX_ATTEMPT)]


class HeldTask(Body):
    """A task that a worker holds, and its attempt."""

    task: TaskId
    attempt: Attempt


class TaskResult(HeldTask):
    """The result of a task, with the fields of the trigger that reports it."""

    trigger: Literal["execution_completed", "execution_failed"]
    exit_code: int | None = None
    output: str | None = None
    result: Any = None
    error: str | None = None
    # Whether the tool of the task failed; null if that is not known. Without it, the exit code decides.
    tool_failed: bool | UnsetType | None = UNSET
    # Whether another attempt may succeed; otherwise the task fails, whatever retries remain.
    retry: bool | None = None

    def report(self) -> scheduling.Report:
        names = ("attempt", "exit_code", "output", "result", "error", "retry")
        fields = {name: getattr(self, name) for name in names}
        given = {name: value for name, value in fields.items() if value is not None}
        if self.tool_failed is not UNSET:
            given["tool_failed"] = self.tool_failed
        return scheduling.Report(self.task, self.trigger, given)


REPORTS: Schema = {**array(component("Report", part_schema(TaskResult))), "maxItems": MAX_HELD}


class ClaimFields(Body):
    """The number of tasks to claim, the seconds to wait for the first one, and results to record before the claim."""

    max: Annotated[int, Meta(ge=1)] | None = None
    wait: Annotated[float, Meta(ge=0, le=MAX_WAIT_SECONDS)] = 0
    reports: Annotated[list[TaskResult], Meta(max_length=MAX_HELD), As(REPORTS)] = []


SECONDS: Schema = {"type": "number", "minimum": 0, "maximum": MAX_WAIT_SECONDS}
PREFER: Schema = {
    "name": "Prefer",
    "in": "header",
    "description": "`wait=SECONDS` instead of the parameter `wait`. A call with `reports` ignores it.",
    "schema": {"type": "string", "maxLength": 200},
}
_PREVIOUS = {"attempt": COUNT, "exit_code": {"type": ["integer", "null"]}, "error": STRING, "output": STRING}
PREVIOUS = component("PreviousAttempt", obj({**_PREVIOUS, "patch": STRING}, list(_PREVIOUS)))
_ADDED = obj({"inputs": INPUTS, "previous": {"anyOf": [PREVIOUS, {"type": "null"}]}})
CLAIMED_TASK = component("ClaimedTask", {"allOf": [ref("Task"), _ADDED]})
CLAIMED = component("Claimed", obj({"tasks": array(CLAIMED_TASK), "reports": array(BULK_RESULT)}, ["tasks"]))
component("Claim", body_schema(ClaimFields))


def claim_once(worker_id: str, fields: ClaimFields, actor: Actor, within: UnitOfWork | None = None) -> dict[str, Any]:
    """Record the results and claim tasks, without waiting; the list is empty if no task is ready."""
    if not fields.reports:
        claimed = scheduling.claim(worker_id, actor=actor, most=fields.max, within=within)
        return {"tasks": _serialize_claimed(claimed)}
    reports = [result.report() for result in fields.reports]
    exchange = scheduling.report_and_claim(worker_id, reports, actor=actor, most=fields.max, within=within)
    return {
        "tasks": _serialize_claimed(exchange.tasks),
        "reports": [serialize_item(item) for item in exchange.reports],
    }


def _serialize_claimed(tasks: list[Task]) -> list[dict[str, Any]]:
    """Serialise tasks with the results of their dependencies, and with the attempt before this one, `previous`."""
    given, previous = inputs.read_inputs(tasks), attempts.find_previous(tasks)
    return [{**task.as_dict(), "inputs": given[task.pk], "previous": previous.get(task.pk)} for task in tasks]


NOTHING = b'{"tasks":[]}'


class Claim(KnownTokenView):
    route = "workers/<str:worker_id>/claim/"
    flow = Worker.flow
    may_also_need = (Task.flow.permission("operate"),)

    @operation(
        "Claim tasks",
        {200: CLAIMED},
        body=ref("Claim"),
        params=[query("wait", SECONDS, "Seconds to wait for a task. A call with `reports` cannot wait."), PREFER],
        refusals=(409,),
        description="`reports` are recorded before the claim, in the same transaction, even if there is no task to "
        "claim; the response contains the result of each. Tasks that become ready through these reports are claimed "
        "by the next call. A claim with reports does not wait. `inputs` are the results of the dependencies by id.",
        name="claim_tasks",
        is_written=True,
    )
    def post(self, request: Request, worker_id: str) -> HttpResponse:
        body = RequestBody(request, ClaimFields)
        if body.fields.reports:
            require_permission(request, Task.flow.permission("operate"))
        response = self._respond(request, worker_id, body)
        known_tokens.remember(request.auth)
        return response

    def respond_fast(self, request: Request, token: Token, worker_id: str) -> HttpResponse | None:
        """Check the token with the key, in one statement."""
        throttling.check(request, token)
        body = RequestBody(request, ClaimFields)
        if body.key is None:
            return None
        request.auth, request.user = token, token.user
        needed = self.may_also_need if body.fields.reports else ()
        try:
            return self._respond(request, worker_id, body, proof(token, self.permission(request), *needed))
        except NotProven:
            return None

    def _respond(
        self, request: Request, worker_id: str, body: RequestBody[ClaimFields], shown: Proof = NO_PROOF
    ) -> HttpResponse:
        actor, seconds = agent_of(request), self._read_wait(request, body.fields)

        def respond(work: UnitOfWork | None) -> dict[str, Any]:
            return claim_once(worker_id, body.fields, actor, work)

        # An empty claim changed nothing and is not stored: a waiting claim repeats the request under the same key.
        response = body.respond_once(
            actor,
            respond,
            is_kept=lambda claim: bool(claim["tasks"] or claim.get("reports")),
            is_one_step=True,
            proof=shown,
        )
        if seconds and response.content == NOTHING and isinstance(request, WSGIRequest):
            response[PASS_ON] = AT_LIVE
        return response

    def _read_wait(self, request: Request, fields: ClaimFields) -> float:
        given = self.params(request).given
        if fields.reports and (fields.wait or "wait" in given):
            raise Invalid({"wait": ["cannot be combined with reports, which are recorded at once."]})
        return 0.0 if fields.reports else read_wait(given, request.headers.get("Prefer", ""), fields.wait)
