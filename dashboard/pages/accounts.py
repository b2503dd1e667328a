"""The account journal: who logged in, and who changed accounts, rights, second factors, tokens and displays."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from statecore.dashboard import permissions, rendering
from statecore.dashboard.queries.time_limit import TimedOut, time_limit
from statecore.journal.accounts import VIEW_ACCOUNTS, Action, resolve_ids
from statecore.journal.archive import get_latest_archived_range
from statecore.read_models import history

from .query_params import get_number, get_text, get_time

TEMPLATE = "dashboard/accounts.html"
PAGE_SIZE = 50
FILTERS = ("account", "actor", "action", "since", "until")


@require_safe
def accounts(request: HttpRequest) -> HttpResponse:
    permissions.require_permission(request, VIEW_ACCOUNTS)
    given, before = {name: get_text(request, name) for name in FILTERS}, get_number(request, "before")
    context: dict[str, Any] = {
        "given": given,
        "actions": Action.values,
        "query": urlencode({name: value for name, value in given.items() if value}),
        "is_filtered": any(given.values()),
        "is_first": before is None,
    }
    try:
        with time_limit():
            page = history.read_page(_read_filters(request), before=before, limit=PAGE_SIZE, newest_first=True)
    except TimedOut:
        return rendering.render(request, TEMPLATE, {**context, "timed_out": True})
    entries = [{**each["event"], "position": each["position"]} for each in page.events]
    more = entries[-1]["position"] if page.more else None
    record = None if page.more else get_latest_archived_range()
    return rendering.render(request, TEMPLATE, {**context, "entries": entries, "more": more, "record": record})


def _read_filters(request: HttpRequest) -> history.Filters:
    account, actor, action = (get_text(request, name) for name in ("account", "actor", "action"))
    return history.Filters(
        accounts=True,
        entity=resolve_ids([account]) if account else [],
        actor=[actor] if actor else [],
        trigger=[action] if action in Action.values else [],
        since=get_time(request, "since"),
        until=get_time(request, "until"),
    )
