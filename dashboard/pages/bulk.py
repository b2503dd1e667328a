"""One move for many: choose, freeze the choice, look at what would happen, confirm, watch it being done."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import structlog
from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_http_methods, require_POST, require_safe
from kombu.exceptions import OperationalError as BrokerError

from dashboard import rights, shell
from dashboard.models import Selection
from dashboard.queries import entities, search
from dashboard.queries.bounded import TimedOut, in_time
from statecore import bulk
from statecore.kernel import registry
from statecore.kernel.actors import Kind
from statecore.kernel.clock import now
from statecore.kernel.flow import Flow
from statecore.kernel.moves import Move
from statecore.kernel.refusals import Refusal
from statecore.records import BulkJob
from statecore.tasks import run_bulk_job

from . import asking
from .asked import text
from .found import machine_at

log = structlog.get_logger(__name__)

MOST, TRIED = 10_000, 100
KEPT = timedelta(days=1)  # a choice that nobody confirmed
CONFIRM = "dashboard/bulk.html"
NOTHING = "Nothing was chosen: nothing matches, it took too long to find, or a word was not understood."


@require_POST
def select(request: HttpRequest, collection: str) -> HttpResponse:
    """Freeze the rows that were ticked, or all that match."""
    flow = machine_at(request, collection, "operate")
    query = request.POST.get("q", "").replace("\x00", "")[:500]
    try:
        ids = _matching(flow, query) if request.POST.get("all") else bulk.check(request.POST.getlist("ids"))[:MOST]
    except (Refusal, TimedOut):
        ids = []
    if not ids:
        messages.warning(request, NOTHING, extra_tags="careful")
        address = reverse("console:machine", args=[collection])
        return HttpResponseRedirect(f"{address}?{urlencode({'q': query})}" if query else address)
    Selection.objects.filter(created_at__lt=now() - KEPT).delete()
    chosen = Selection.objects.create(
        user=rights.person(request),
        entity_type=flow.entity_type,
        ids=ids,
        query=query if request.POST.get("all") else "",
    )
    return HttpResponseRedirect(reverse("console:bulk", args=[collection, chosen.pk]))


@require_safe
def matching(request: HttpRequest, collection: str) -> HttpResponse:
    """How many all are, before they are chosen: `all 37`."""
    flow = machine_at(request, collection, "operate")
    try:
        count = len(_matching(flow, text(request, "q")))
    except TimedOut:
        return HttpResponse("all")
    return HttpResponse(f"the first {MOST:,}" if count == MOST else f"all {count:,}")


def _matching(flow: Flow, query: str) -> list[str]:
    asked = search.read(query, flow, now())
    if asked.complaints:  # a word that was not understood would match everything
        return []
    rows = entities.filtered(flow, asked).order_by("pk")
    with in_time():
        return list(rows.values_list("pk", flat=True)[:MOST])


@require_http_methods(["GET", "HEAD", "POST"])
def confirm(request: HttpRequest, collection: str, selection_id: int) -> HttpResponse:
    flow = machine_at(request, collection, "operate")
    chosen = get_object_or_404(Selection, pk=selection_id, user=rights.person(request), entity_type=flow.entity_type)
    if chosen.job_id is not None:  # what was sent once is not sent again
        return _to(chosen.job_id)
    moves = {move.trigger: move for move in flow.moves if Kind.OPERATOR in move.actors}
    trigger = request.POST.get("trigger", request.GET.get("trigger", ""))
    context = _context(request, flow, chosen, moves, trigger)
    if request.method != "POST" or trigger not in moves:
        return shell.render(request, CONFIRM, context)
    job, refusal = _begin(request, flow, chosen, moves[trigger])
    if job is None:
        return shell.render(request, CONFIRM, {**context, "refusal": refusal}, status=422)
    return _to(job.pk)


def _to(job_id: str) -> HttpResponse:
    return HttpResponseRedirect(reverse("console:bulk_job", args=[job_id]))


def _begin(request: HttpRequest, flow: Flow, chosen: Selection, move: Move) -> tuple[BulkJob | None, Refusal | None]:
    given: dict[str, Any] = {
        "actor": rights.actor_of(request),
        "params": asking.read_fields(move.params, request.POST),
        "reason": request.POST.get("reason", ""),
    }
    try:
        bulk.fire(flow.model, chosen.ids[:1], move.trigger, **given, dry_run=True)  # whether the fields will do
        with transaction.atomic():
            # Who sends it at the same time waits here, and finds the job.
            taken = get_object_or_404(Selection.objects.select_for_update(), pk=chosen.pk)
            if taken.job is not None:
                return taken.job, None
            job = bulk.begin(flow.model, chosen.ids, move.trigger, **given, user=rights.person(request), token=None)
            Selection.objects.filter(pk=chosen.pk).update(job=job)
    except Refusal as refusal:
        return None, refusal
    _hand_out(job)
    return job, None


def _hand_out(job: BulkJob) -> None:
    """A few at once, so that the page has something to show; the rest by a worker, now or at the next sweep."""
    bulk.run(job.pk, portions=1)
    try:
        run_bulk_job.delay(job.pk)
    except BrokerError:
        log.warning("bulk_job_waits", job=job.pk)


def _context(
    request: HttpRequest, flow: Flow, chosen: Selection, moves: dict[str, Move], trigger: str
) -> dict[str, Any]:
    move = moves.get(trigger)
    return {
        "flow": flow,
        "selection": chosen,
        "count": len(chosen.ids),
        "is_cut": len(chosen.ids) == MOST,
        "triggers": list(moves),
        "trigger": trigger if move else "",
        "fields": [(param, request.POST.get(f"field_{param.name}", "")) for param in move.params] if move else [],
        "reason": request.POST.get("reason", ""),
        "tried": _tried(request, flow, chosen, move) if move else None,
        "here_machine": flow.entity_type,
        "name": shell.name_of(flow),
    }


def _tried(request: HttpRequest, flow: Flow, chosen: Selection, move: Move) -> dict[str, Any] | None:
    """What would become of the first ones; a move with fields of its own is not tried without them."""
    if any(param.required for param in move.params):
        return None
    ids = chosen.ids[:TRIED]
    try:
        results = bulk.fire(
            flow.model, ids, move.trigger, actor=rights.actor_of(request), params={}, reason="", dry_run=True
        )
    except Refusal as refusal:
        return {"refusal": refusal, "of": len(ids)}
    refused = [told for told in results if told["refusal"]]
    return {
        "of": len(ids),
        "would": len(results) - len(refused),
        "refused": refused[:10],
        "refused_count": len(refused),
    }


@require_safe
def job(request: HttpRequest, job_id: str) -> HttpResponse:
    found = get_object_or_404(BulkJob, pk=job_id)
    flow = registry.flow(found.entity_type)
    rights.require(request, flow, "view")
    done = found.portions.filter(results__isnull=False).order_by("number").values_list("results", flat=True)
    results: list[dict[str, Any]] = [told for portion in done[:4] for told in portion or ()]
    context = {
        "job": found,
        "flow": flow,
        "results": sorted(results, key=lambda told: told["refusal"] is None)[:200],
        "changed": found.done - found.refused,
        "here_machine": flow.entity_type,
        "name": shell.name_of(flow),
    }
    template = "dashboard/parts/bulk_job.html" if shell.is_fragment(request) else "dashboard/bulk_job.html"
    return shell.render(request, template, context)
