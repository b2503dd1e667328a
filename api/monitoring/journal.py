"""The journal: events, overrides, verification, and runs at a past time."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse

from statecore.journal import ENTITY_KINDS, Event, accounts, epochs, event_names
from statecore.journal.archive import build_archived_refusal, get_latest_archived_range
from statecore.journal.epochs import Cursor
from statecore.journal.position import current_epoch, head
from statecore.kernel import registry
from statecore.kernel.ids import is_valid_id
from statecore.kernel.refusals import Invalid, NotFound
from statecore.kernel.transition import Severity
from statecore.machines.patch_ledger import PatchLedger
from statecore.machines.run import Run
from statecore.machines.task import Task
from statecore.machines.test_gate import TestGate
from statecore.machines.workstream import Workstream
from statecore.operations import integrity
from statecore.read_models import estimates, history
from statecore.read_models.history import Filters

from ..access import VIEW_EVENT, narrow_to_caller, require_visible, visible_types
from ..openapi.fields import ANY_OBJECT, TIME, Schema, nullable
from ..openapi.operation import POSITION, SIZE, TEXT_PARAM, operation, query, repeatable
from ..openapi.schemas import COUNT, EVENT, FLAG, STRING, array, by_name, component, list_entity_types, obj, page_of
from ..query_params import RequestParams
from ..request import Request
from ..responses import json_response
from ..views import ApiView

FILTERS = ("entity_type", "entity", "run", "actor", "kind", "severity", "from_state", "to_state", "event_name")
RANGE_SIZE = 1_000
RESUME: Schema = {"type": "string", "pattern": "^([1-9][0-9]{0,8}-)?[0-9]{1,18}$"}
POSITIONED_EVENT = component("PositionedEvent", obj({"position": COUNT, "event": EVENT}))
_LOST_EVENT = obj(
    {
        "position": COUNT,
        "event_id": STRING,
        "entity_type": STRING,
        "entity_id": STRING,
        "trigger": STRING,
        "actor": STRING,
        "actor_kind": STRING,
        "timestamp": TIME,
    }
)
_LOST = obj(
    {
        "first": COUNT,
        "last": COUNT,
        "count": COUNT,
        "reports": COUNT,
        "decisions": COUNT,
        "events": array(_LOST_EVENT),
        "file": STRING,
        "sha256": STRING,
    }
)
EPOCH = component(
    "Epoch",
    obj(
        {
            "epoch": COUNT,
            "reason": STRING,
            "started_at": TIME,
            "kept": COUNT,
            "event_id": STRING,
            "lost": nullable(_LOST),
        }
    ),
    "What a failover or a restore began, and the events that it lost.",
)
_PART = {"id": STRING, "state": STRING, "version": COUNT, "since": TIME, "last_event": ANY_OBJECT}
PART = obj({**_PART, "workstream": STRING}, list(_PART))
PAST_RUN = component(
    "PastRun",
    obj(
        {
            "time": TIME,
            "run": PART,
            "counts": by_name(by_name(COUNT)),
            **{name: array(PART) for name in ("workstreams", "tasks", "gates", "patches")},
            "truncated": FLAG,
        }
    ),
    "A run with its parts at a time in the past.",
)
ESTIMATE = component(
    "RunEstimate",
    obj(
        {
            "run": STRING,
            "at": TIME,
            "tasks_left": COUNT,
            "undecided": COUNT,
            **{name: nullable(TIME) for name in ("earliest", "likely", "latest")},
            "basis": STRING,
            "reason": STRING,
        }
    ),
    "When a run will probably end.",
)
_FINDING = obj({"check": STRING, "severity": STRING, "entity_type": STRING, "entity_id": STRING, "detail": STRING})
REPORT = component(
    "Verification",
    obj(
        {
            "ok": FLAG,
            "scope": STRING,
            "position": COUNT,
            "head": COUNT,
            "next": nullable(STRING),
            "findings": array(_FINDING),
        }
    ),
    "What a verification of the journal found.",
)


class Events(ApiView):
    route = "events/"
    read_permission = VIEW_EVENT

    @operation(
        "List events by position",
        {200: page_of(POSITIONED_EVENT, archived_upto=COUNT, epoch=COUNT)},
        params=[
            repeatable("entity_type", list_entity_types()),
            repeatable("entity"),
            repeatable("run"),
            repeatable("actor"),
            repeatable("kind", ENTITY_KINDS),
            repeatable("severity", [*map(str, Severity)]),
            repeatable("from_state"),
            repeatable("to_state"),
            repeatable("event_name", event_names.list_names()),
            query("since", TIME),
            query("until", TIME),
            query("after", RESUME, "A position of the current epoch, or `EPOCH-POSITION`."),
            query("before", POSITION),
            query("ordering", {"type": "string", "enum": ["position", "-position"]}),
            SIZE,
        ],
        description="With both `after` and `before`, the range between them is read. With `Accept: text/event-stream`, "
        "events are sent as they happen, and the id of each is `EPOCH-POSITION`; the stream does not support `since`, "
        "`until`, `before`, `ordering` and `page_size`. A position that a failover or a restore lost is refused as "
        "`epoch_ended`; a stream sends `resnapshot` instead, with the reason `epoch`. Events up to the position "
        "`archived_upto` are archived; 0 means none.",
        refusals=(409, 410),
        other_types={"text/event-stream": STRING},
        name="list_events",
        is_written=True,
    )
    def get(self, request: Request) -> HttpResponse:
        params = self.params(request)
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
    route = "audit/epochs/"
    read_permission = VIEW_EVENT

    @operation(
        "List the epochs of the journal, newest first",
        {200: page_of(EPOCH, epoch=COUNT)},
        description="A failover to a replica that lacks the last events, or a restore, begins an epoch. `kept` is the "
        "last position that it shares with the one before, `lost` the events after it as far as a copy was found: the "
        "first 200 of them, of machines that the caller may see, and how many were confirmed reports of agents and "
        "decisions of operators.",
        name="list_epochs",
    )
    def get(self, request: Request) -> HttpResponse:
        self.params(request)
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
    route = "audit/accounts/"
    read_permission = accounts.VIEW_ACCOUNTS

    @operation(
        "List the account journal, newest first",
        {200: page_of(POSITIONED_EVENT, archived_upto=COUNT)},
        params=[
            repeatable("account"),
            repeatable("actor"),
            repeatable("action", list(accounts.Action.values)),
            query("since", TIME),
            query("until", TIME),
            query("before", POSITION, "Return entries with a lower position."),
            SIZE,
        ],
        description="Logins, and changes of accounts, rights, second factors, tokens and displays. `account` is a user "
        "(`user:7` or the current name), a group (`group:3`), `system`, or `unknown` for logins with a name that no "
        "account has. The `trigger` of an entry is its action, `context` has the name of the account and the address "
        "of the caller. An entry is proved like any other event.",
        name="list_account_entries",
    )
    def get(self, request: Request) -> HttpResponse:
        params = self.params(request)
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
    route = "overrides/"
    read_permission = VIEW_EVENT

    @operation(
        "List overrides, newest first, and whether they are still in effect",
        {200: page_of({"allOf": [EVENT, obj({"position": COUNT, "held": FLAG, "left_by": nullable(ANY_OBJECT)})]})},
        params=[repeatable("actor"), repeatable("entity_type", list_entity_types()), query("before", POSITION), SIZE],
        name="list_overrides",
    )
    def get(self, request: Request) -> HttpResponse:
        params = self.params(request)
        page = history.list_overrides(
            before=params.get_number("before"),
            limit=params.get_page_size(),
            actor=params.get_texts("actor"),
            entity_type=narrow_to_caller(request, params.get_texts("entity_type")),
        )
        return json_response(params.build_page_newest_first(page.events, "position", more=page.more))


class RunAt(ApiView):
    route = "runs/<str:run_id>/at/"

    @operation(
        "Read a run with all its parts at a past time",
        {200: PAST_RUN},
        params=[query("time", TIME, "The current time by default.")],
        refusals=(410,),
        name="get_run_at",
    )
    def get(self, request: Request, run_id: str) -> HttpResponse:
        require_visible(request, *(machine.flow for machine in (Run, Workstream, Task, TestGate, PatchLedger)))
        return json_response(history.get_run_at(run_id, self.params(request).get_time("time")))


class RunEstimate(ApiView):
    route = "runs/<str:run_id>/estimate/"

    @operation(
        "Read when a run will probably end",
        {200: ESTIMATE},
        description="Between `earliest` and `latest` with a probability of 80 % or more, from past durations of tasks. "
        "They are null where `reason` states why the end cannot be estimated.",
        name="get_run_estimate",
    )
    def get(self, request: Request, run_id: str) -> HttpResponse:
        self.params(request)
        require_visible(request, Run.flow, Workstream.flow, Task.flow)
        run = Run.objects.filter(pk=run_id).first() if is_valid_id(run_id) else None
        if run is None:
            raise NotFound(f"there is no run {run_id!r}")
        return json_response(estimates.estimate_run(run).as_dict())


class Verify(ApiView):
    route = "audit/verify/"
    read_permission = VIEW_EVENT

    @operation(
        "Verify the journal",
        {200: REPORT},
        params=[
            query("after", POSITION, f"Verify the next {RANGE_SIZE} positions; follow `next` to the end."),
            query("entity_type", {"type": "string", "enum": list_entity_types()}),
            query("entity", TEXT_PARAM, "Verify the history of this entity; requires `entity_type`."),
        ],
        description="Without parameters, the recently changed entities are verified.",
        name="verify_journal",
    )
    def get(self, request: Request) -> HttpResponse:
        params = self.params(request)
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
