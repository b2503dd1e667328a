"""The journal: its events in order, what was forced, whether it verifies, and a run as it was."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request

from statecore import history, integrity
from statecore.history import Filters
from statecore.kernel import registry
from statecore.kernel.refusals import Invalid
from statecore.records.position import head

from ..views import ApiView, answer
from . import shapes
from .parameters import Parameters

FILTERS = ("entity_type", "entity", "run", "actor", "kind", "severity")
STRETCH = 1_000


class Events(ApiView):
    @extend_schema(
        operation_id="events",
        parameters=[
            *map(shapes.words, FILTERS),
            shapes.moment("since", "events of this time and later"),
            shapes.moment("until", "events before this time"),
            shapes.number("after", "events after this position"),
            shapes.number("before", "events before this position"),
            shapes.one_of("ordering", ["position", "-position"]),
            shapes.page_size(),
        ],
        responses={
            200: shapes.page(shapes.POSITIONED),
            (200, "text/event-stream"): {"type": "string"},
            **shapes.INVALID,
        },
    )
    def get(self, request: Request) -> HttpResponse:
        """Events in the order of their positions; with `Accept: text/event-stream` as they happen."""
        asked = Parameters(request, *FILTERS, "since", "until", "after", "before", "ordering", "page_size")
        filters = Filters(
            **{name: asked.words(name) for name in FILTERS},  # type: ignore[arg-type]
            since=asked.moment("since"),
            until=asked.moment("until"),
        )
        newest_first = _newest_first(asked)
        found = history.page(
            filters,
            after=asked.number("after") or 0,
            before=asked.number("before"),
            limit=asked.size(),
            newest_first=newest_first,
        )
        return answer(_paged(asked, found, newest_first=newest_first))


def _newest_first(asked: Parameters) -> bool:
    ordering = asked.word("ordering") or "position"
    if ordering not in ("position", "-position"):
        raise Invalid({"ordering": ["must be position or -position."]})
    return ordering == "-position"


def _paged(asked: Parameters, found: history.Page, *, newest_first: bool) -> dict[str, Any]:
    """The address of the page before turns the order round, because that is what it takes to go back."""
    onward, back = ("before", "after") if newest_first else ("after", "before")
    last = found.events[-1]["position"] if found.events else None
    goes_on = found.more and last is not None
    return {
        "next": asked.address(**{onward: last}) if goes_on else None,
        "previous": None,
        "results": found.events,
        **({} if not found.events else {back: found.events[0]["position"]}),
    }


class Overrides(ApiView):
    @extend_schema(
        operation_id="overrides",
        parameters=[
            shapes.words("actor"),
            shapes.words("entity_type"),
            shapes.number("before", "overrides before this position"),
            shapes.page_size(),
        ],
        responses={200: shapes.page(shapes.OVERRIDE), **shapes.INVALID},
    )
    def get(self, request: Request) -> HttpResponse:
        """What was forced, newest first: the event, whether it held, and what it was left by."""
        asked = Parameters(request, "actor", "entity_type", "before", "page_size")
        found = history.forced(
            before=asked.number("before"),
            limit=asked.size(),
            actor=asked.words("actor"),
            entity_type=asked.words("entity_type"),
        )
        return answer(_paged(asked, found, newest_first=True))


class RunAt(ApiView):
    @extend_schema(
        operation_id="run_at",
        parameters=[shapes.moment("time", "now, unless given")],
        responses={200: shapes.RUN_AT, **shapes.INVALID, **shapes.NOT_FOUND},
    )
    def get(self, request: Request, run_id: str) -> HttpResponse:
        """The run with its workstreams, tasks, gates and patches as they were at a moment."""
        return answer(history.run_at(run_id, Parameters(request, "time").moment("time")))


class Verify(ApiView):
    @extend_schema(
        operation_id="verify",
        parameters=[
            shapes.number("after", f"verify the {STRETCH} positions that follow this one; `next` goes on to the end"),
            shapes.one_of("entity_type", None),
            shapes.one_of("entity", None),
        ],
        responses={200: shapes.VERIFIED, **shapes.INVALID, **shapes.NOT_FOUND},
    )
    def get(self, request: Request) -> HttpResponse:
        """Whether the journal verifies: what moved last, one entity, or stretch by stretch all of it."""
        asked = Parameters(request, "after", "entity_type", "entity")
        last = head()
        after = asked.number("after")
        if asked.word("entity"):
            kind = registry.flow(asked.word("entity_type")).entity_type
            return answer(_verified(integrity.check_entity(kind, asked.word("entity")), "entity", last, last))
        if after is None:
            return answer(_verified(integrity.check_recent(), "recent", last, last))
        upto = min(last, after + STRETCH)
        told = _verified(integrity.check_stretch(after, upto) if upto > after else [], "stretch", max(after, upto), last)
        return answer({**told, "next": asked.address(after=upto) if upto < last else None})


def _verified(findings: list[integrity.Finding], what: str, position: int, last: int) -> dict[str, Any]:
    return {
        "ok": not any(finding.severity == integrity.ERROR for finding in findings),
        "scope": what,
        "position": position,
        "head": last,
        "next": None,
        "findings": [finding.as_dict() for finding in findings],
    }
