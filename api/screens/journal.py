"""The journal: its events in order, what was forced, whether it verifies, and a run as it was."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse

from statecore import history, integrity
from statecore.history import Filters
from statecore.journal import Event
from statecore.kernel import registry
from statecore.kernel.refusals import Invalid, NotFound
from statecore.machines.patch_ledger import PatchLedger
from statecore.machines.run import Run
from statecore.machines.task import Task
from statecore.machines.test_gate import TestGate
from statecore.machines.workstream import Workstream
from statecore.records.position import head
from statecore.records.retirement import latest, refusal_of

from ..permissions import VIEW_EVENT, narrowed, require_right, require_sight
from ..request import Request
from ..views import ApiView, answer
from .parameters import Parameters

FILTERS = ("entity_type", "entity", "run", "actor", "kind", "severity")
STRETCH = 1_000


class Events(ApiView):
    def get(self, request: Request) -> HttpResponse:
        """Events in the order of their positions; with `Accept: text/event-stream` as they happen."""
        asked = Parameters(request, *FILTERS, "since", "until", "after", "before", "ordering", "page_size")
        require_right(request, VIEW_EVENT)
        chosen = {name: asked.words(name) for name in FILTERS}
        filters = Filters(
            **{**chosen, "entity_type": narrowed(request, chosen["entity_type"])},
            since=asked.moment("since"),
            until=asked.moment("until"),
        )
        return answer(_paged(asked, filters, newest_first=_newest_first(asked)))


def _newest_first(asked: Parameters) -> bool:
    ordering = asked.word("ordering") or "position"
    if ordering not in ("position", "-position"):
        raise Invalid({"ordering": ["must be position or -position."]})
    return ordering == "-position"


def _paged(asked: Parameters, filters: Filters, *, newest_first: bool) -> dict[str, Any]:
    """Oldest first, `after` goes on and `before` goes back; newest first it is the other way round.

    With both it is a stretch, which is read onward to its end.
    Whoever goes on from what was retired is told so, and does not miss it without a word.
    """
    after, before = asked.number("after"), asked.number("before")
    record = latest()
    if record is not None and not newest_first and 0 < (after or 0) < record.last_position:
        raise refusal_of(record, f"what follows position {after}")
    onward, back = ("before", "after") if newest_first else ("after", "before")
    is_stretch = after is not None and before is not None
    goes_back = asked.number(back) is not None and not is_stretch
    found = history.page(
        filters, after=after or 0, before=before, limit=asked.size(), newest_first=newest_first != goes_back
    )
    events = found.events[::-1] if goes_back else found.events
    return {
        "next": asked.address(**{onward: events[-1]["position"], back: asked.given[back] if is_stretch else None})
        if events and (goes_back or found.more)
        else None,
        "previous": asked.address(**{back: events[0]["position"], onward: None})
        if events and not is_stretch and (found.more if goes_back else asked.number(onward))
        else None,
        "results": events,
        "retired_upto": record.last_position if record else 0,
    }


class Overrides(ApiView):
    def get(self, request: Request) -> HttpResponse:
        """What was forced, newest first: the event, whether it held, and what it was left by."""
        asked = Parameters(request, "actor", "entity_type", "before", "page_size")
        require_right(request, VIEW_EVENT)
        found = history.forced(
            before=asked.number("before"),
            limit=asked.size(),
            actor=asked.words("actor"),
            entity_type=narrowed(request, asked.words("entity_type")),
        )
        return answer(asked.backwards(found.events, "position", more=found.more))


class RunAt(ApiView):
    def get(self, request: Request, run_id: str) -> HttpResponse:
        """The run with its workstreams, tasks, gates and patches as they were at a moment."""
        require_sight(request, *(machine.flow for machine in (Run, Workstream, Task, TestGate, PatchLedger)))
        return answer(history.run_at(run_id, Parameters(request, "time").moment("time")))


class Verify(ApiView):
    def get(self, request: Request) -> HttpResponse:
        """Whether the journal verifies: what moved last, one entity, or stretch by stretch all of it."""
        asked = Parameters(request, "after", "entity_type", "entity")
        require_right(request, VIEW_EVENT)
        last = head()
        after = asked.number("after")
        if "entity" in asked.given or "entity_type" in asked.given:
            return answer(_verified(_findings_of_one(asked), "entity", last, last))
        if after is None:
            return answer(_verified(integrity.check_recent(), "recent", last, last))
        upto = min(last, after + STRETCH)
        told = _verified(
            integrity.check_stretch(after, upto) if upto > after else [], "stretch", max(after, upto), last
        )
        return answer({**told, "next": asked.address(after=upto) if upto < last else None})


def _findings_of_one(asked: Parameters) -> list[integrity.Finding]:
    """Of something there never was nothing is proven."""
    entity_type, entity_id = asked.word("entity_type"), asked.word("entity")
    if not (entity_type and entity_id):
        raise Invalid({"entity": ["takes an entity_type, and an entity_type takes an entity."]})
    flow = registry.flow(entity_type)
    require_sight(asked.request, flow)
    rows, events = flow.model.objects.filter(pk=entity_id), Event.objects.filter(entity_type=entity_type)
    if not (rows.exists() or events.filter(entity_id=entity_id).exists()):
        raise NotFound(f"there is no {entity_type} {entity_id!r}")
    return integrity.check_entity(entity_type, entity_id)


def _verified(findings: list[integrity.Finding], what: str, position: int, last: int) -> dict[str, Any]:
    return {
        "ok": not any(finding.severity == integrity.ERROR for finding in findings),
        "scope": what,
        "position": position,
        "head": last,
        "next": None,
        "findings": [finding.as_dict() for finding in findings],
    }
