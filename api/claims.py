"""A worker asks for tasks, and says how the last ones ended."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from django.http import HttpResponse
from msgspec import Meta

from statecore import bulk, scheduling
from statecore.kernel.actors import Actor
from statecore.kernel.refusals import Invalid
from statecore.kernel.ulid import ID_PATTERN
from statecore.machines.task import Task
from statecore.machines.worker import Worker

from . import bodies
from .actors import acting_as_agent
from .permissions import require_right
from .posted import Posted
from .request import Request
from .views import ApiView

LONGEST_WAIT = 30
MOST_HELD = 1_000
LARGEST_ATTEMPT = 2**31 - 1


class Held(bodies.Body):
    task: Annotated[str, Meta(pattern=rf"\A{ID_PATTERN.pattern}\Z")]
    attempt: Annotated[int, Meta(ge=0, le=LARGEST_ATTEMPT)]


class Ended(Held):
    """How a task ended: the fields of the trigger beside it, as when it is fired alone."""

    trigger: Literal["execution_completed", "execution_failed"]
    exit_code: int | None = None
    output: str | None = None
    error: str | None = None

    def report(self) -> scheduling.Report:
        beside = {name: getattr(self, name) for name in ("attempt", "exit_code", "output", "error")}
        given = {name: value for name, value in beside.items() if value is not None}
        return scheduling.Report(self.task, self.trigger, given)


class Wanted(bodies.Body):
    """How many tasks, and how many seconds to wait for the first of them; before that, how the last ones ended."""

    max: Annotated[int, Meta(ge=1)] | None = None
    wait: Annotated[float, Meta(ge=0, le=LONGEST_WAIT)] = 0
    reports: Annotated[list[Ended], Meta(max_length=MOST_HELD)] = []


def claim_once(worker_id: str, wanted: Wanted, actor: Actor) -> dict[str, Any]:
    """One look at the queue, and the answer to it: no tasks when there are none."""
    if not wanted.reports:
        return {"tasks": [task.as_dict() for task in scheduling.claim(worker_id, actor=actor, most=wanted.max)]}
    if wanted.wait:
        raise Invalid({"wait": ["is for a claim without reports, which are taken at once."]})
    reports = [ended.report() for ended in wanted.reports]
    made = scheduling.report_and_claim(worker_id, reports, actor=actor, most=wanted.max)
    return {"tasks": [task.as_dict() for task in made.tasks], "reports": [bulk.told(item) for item in made.reports]}


class Claim(ApiView):
    flow = Worker.flow

    def post(self, request: Request, worker_id: str) -> HttpResponse:
        asked, actor = Posted(request, Wanted), acting_as_agent(request)
        if asked.said.reports:
            require_right(request, Task.flow.permission("operate"))

        def ask() -> dict[str, Any]:
            return claim_once(worker_id, asked.said, actor)

        # Nothing done is nothing to repeat: a poll that waits asks again under its key.
        return asked.once(actor, ask, is_kept=lambda told: bool(told["tasks"] or told.get("reports")))
