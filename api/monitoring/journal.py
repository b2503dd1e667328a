"""The journal: events, overrides, verification, and runs at a past time."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse

from statecore.journal import Event, accounts, epochs
from statecore.journal.archive import build_archived_refusal, get_latest_archived_range
from statecore.journal.epochs import Cursor
from statecore.journal.position import current_epoch, head
from statecore.kernel import registry
from statecore.kernel.refusals import Invalid, NotFound
from statecore.machines.patch_ledger import PatchLedger
from statecore.machines.run import Run
from statecore.machines.task import Task
from statecore.machines.test_gate import TestGate
from statecore.machines.workstream import Workstream
from statecore.operations import integrity
from statecore.read_models import history
from statecore.read_models.history import Filters

from ..access import VIEW_EVENT, narrow_to_caller, require_permission, require_visible, visible_types
from ..query_params import RequestParams
from ..request import Request
from ..responses import json_response
from ..views import ApiView

FILTERS = ("entity_type", "entity", "run", "actor", "kind", "severity", "from_state", "to_state", "event_name")
RANGE_SIZE = 1_000


class Events(ApiView):
    def get(self, request: Request) -> HttpResponse:
        """List events by position. `api.live.stream` serves the same URL for `Accept: text/event-stream`."""
        params = RequestParams(request, *FILTERS, "since", "until", "after", "before", "ordering", "page_size")
        require_permission(request, VIEW_EVENT)
        chosen: dict[str, Any] = {name: params.get_texts(name) for name in FILTERS}
        filters = Filters(
            **{**chosen, "entity_type": narrow_to_caller(request, chosen["entity_type"])},
            since=params.get_time("since"),
            until=params.get_time("until"),
        )
        return json_response(_read_page(params, filters, newest_first=_is_newest_first(params)))


def _is_newest_first(params: RequestParams) -> bool:
    ordering = params.get_text("ordering") or "position"
    if ordering not in ("position", "-position"):
        raise Invalid({"ordering": ["must be position or -position."]})
    return ordering == "-position"


def _read_page(params: RequestParams, filters: Filters, *, newest_first: bool) -> dict[str, Any]:
    """Return a page of events with links to the next and the previous page.

    In ascending order, the next page has `after` and the previous one `before`; in descending order it is the reverse.
    With both, the positions between them are read, page after page. Raises a refusal if the events after `after` have
    been archived, so that a reader never misses them unknowingly, or if `after` is a position that was lost.
    """
    epoch, before = current_epoch(), params.get_number("before")
    start = params.get_cursor("after") or Cursor(0)
    record = get_latest_archived_range()
    if record is not None and not newest_first and 0 < start.position < record.last_position:
        raise build_archived_refusal(record, f"the part of the journal after position {start.position}")
    forward, back = ("before", "after") if newest_first else ("after", "before")
    is_range = "after" in params.given and before is not None
    pages_back = back in params.given and not is_range
    page = history.read_page(
        filters,
        after=start.position,
        before=before,
        limit=params.get_page_size(),
        newest_first=newest_first != pages_back,
    )
    # Checked after reading: an epoch may have begun in between.
    epochs.require_current(Cursor(start.position, start.epoch or epoch))
    events = page.events[::-1] if pages_back else page.events
    is_continued = before if newest_first else start.position
    return {
        "next": params.build_url(
            **_build_bound(forward, events[-1], epoch), **{back: params.given[back] if is_range else None}
        )
        if events and (pages_back or page.more)
        else None,
        "previous": params.build_url(**_build_bound(back, events[0], epoch), **{forward: None})
        if events and not is_range and (page.more if pages_back else is_continued)
        else None,
        "results": events,
        "epoch": epoch,
        "archived_upto": record.last_position if record else 0,
    }


def _build_bound(name: str, event: dict[str, Any], epoch: int) -> dict[str, Any]:
    """Return the parameter that continues at an event; readers resume by `after`, which therefore has the epoch."""
    position = event["position"]
    return {name: str(Cursor(position, epoch)) if name == "after" else position}


class Epochs(ApiView):
    def get(self, request: Request) -> HttpResponse:
        """List the epochs that a failover or a restore began, newest first, with the events that were lost."""
        RequestParams(request)
        require_permission(request, VIEW_EVENT)
        found = [_serialize_epoch(request, each) for each in epochs.list_epochs()]
        return json_response({"next": None, "previous": None, "results": found, "epoch": current_epoch()})


def _serialize_epoch(request: Request, epoch: epochs.Epoch) -> dict[str, Any]:
    """Return an epoch with the lost events of machines that the caller may see."""
    shown = epoch.as_dict()
    if shown["lost"]:
        visible = visible_types(request)
        shown["lost"]["events"] = [each for each in shown["lost"]["events"] if each["entity_type"] in visible]
    return shown


class AccountEntries(ApiView):
    def get(self, request: Request) -> HttpResponse:
        """List the account journal, newest first."""
        params = RequestParams(request, "account", "actor", "action", "since", "until", "before", "page_size")
        require_permission(request, accounts.VIEW_ACCOUNTS)
        filters = Filters(
            accounts=True,
            entity=accounts.resolve_ids(params.get_texts("account")),
            actor=params.get_texts("actor"),
            trigger=_check_actions(params.get_texts("action")),
            since=params.get_time("since"),
            until=params.get_time("until"),
        )
        page = history.read_page(
            filters, before=params.get_number("before"), limit=params.get_page_size(), newest_first=True
        )
        record = get_latest_archived_range()
        body = params.build_page_newest_first(page.events, "position", more=page.more)
        return json_response({**body, "archived_upto": record.last_position if record else 0})


def _check_actions(given: list[str]) -> list[str]:
    if set(given) - set(accounts.Action.values):
        raise Invalid({"action": [f"must be one of {', '.join(accounts.Action.values)}."]})
    return given


class Overrides(ApiView):
    def get(self, request: Request) -> HttpResponse:
        """List overrides, newest first: the event, whether it is still in effect, and the event that ended it."""
        params = RequestParams(request, "actor", "entity_type", "before", "page_size")
        require_permission(request, VIEW_EVENT)
        page = history.list_overrides(
            before=params.get_number("before"),
            limit=params.get_page_size(),
            actor=params.get_texts("actor"),
            entity_type=narrow_to_caller(request, params.get_texts("entity_type")),
        )
        return json_response(params.build_page_newest_first(page.events, "position", more=page.more))


class RunAt(ApiView):
    def get(self, request: Request, run_id: str) -> HttpResponse:
        """Return a run with its workstreams, tasks, gates and patches at a past time."""
        require_visible(request, *(machine.flow for machine in (Run, Workstream, Task, TestGate, PatchLedger)))
        return json_response(history.get_run_at(run_id, RequestParams(request, "time").get_time("time")))


class Verify(ApiView):
    def get(self, request: Request) -> HttpResponse:
        """Verify the recently changed entities, one entity, or with `after` the whole journal range by range."""
        params = RequestParams(request, "after", "entity_type", "entity")
        require_permission(request, VIEW_EVENT)
        last = head()
        after = params.get_number("after")
        if "entity" in params.given or "entity_type" in params.given:
            return json_response(_build_report(_check_entity(params), "entity", last, last))
        if after is None:
            return json_response(_build_report(integrity.check_recent(), "recent", last, last))
        upto = min(last, after + RANGE_SIZE)
        findings = integrity.check_range(after, upto) if upto > after else []
        report = _build_report(findings, "stretch", max(after, upto), last)
        return json_response({**report, "next": params.build_url(after=upto) if upto < last else None})


def _check_entity(params: RequestParams) -> list[integrity.Finding]:
    """Return the findings of one entity; raises NotFound if it never existed, because no findings would mean valid."""
    entity_type, entity_id = params.get_text("entity_type"), params.get_text("entity")
    if not (entity_type and entity_id):
        raise Invalid({"entity": ["needs an entity_type, and an entity_type needs an entity."]})
    flow = registry.flow(entity_type)
    require_visible(params.request, flow)
    rows, events = flow.model.objects.filter(pk=entity_id), Event.objects.filter(entity_type=entity_type)
    if not (rows.exists() or events.filter(entity_id=entity_id).exists()):
        raise NotFound(f"there is no {entity_type} {entity_id!r}")
    return integrity.check_entity(entity_type, entity_id)


def _build_report(findings: list[integrity.Finding], scope: str, position: int, last: int) -> dict[str, Any]:
    return {
        "ok": not any(finding.severity == integrity.ERROR for finding in findings),
        "scope": scope,
        "position": position,
        "head": last,
        "next": None,
        "findings": [finding.as_dict() for finding in findings],
    }
