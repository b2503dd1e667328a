"""One trigger for many entities: select, lock the selection, preview, confirm, follow the progress."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import structlog
from django.contrib import messages
from django.db import transaction
from django.db.models import Count, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_http_methods, require_POST, require_safe
from kombu.exceptions import OperationalError as BrokerError

from statecore.dashboard import labels, navigation, permissions, rendering
from statecore.dashboard.models import Selection
from statecore.dashboard.queries import entities, search
from statecore.dashboard.queries.time_limit import TimedOut, time_limit
from statecore.kernel import registry
from statecore.kernel.actors import Kind
from statecore.kernel.clock import now
from statecore.kernel.flow import Flow
from statecore.kernel.refusals import Refusal
from statecore.kernel.transition import Transition
from statecore.records import BulkJob
from statecore.tasks import run_bulk_job
from statecore.transitions import bulk_jobs

from . import forms
from .lookup import get_machine
from .query_params import get_text

log = structlog.get_logger(__name__)

MAX_SELECTED, MAX_PREVIEWED, MAX_REASONS = 10_000, 100, 10
MAX_RESULTS, MAX_PORTIONS = 200, 4
UNCONFIRMED_LIFETIME = timedelta(days=1)
CONFIRM = "dashboard/bulk.html"
NOTHING = "Nothing was selected: the search has no match, took too long, or contains a word it does not know."


@require_POST
def select(request: HttpRequest, collection: str) -> HttpResponse:
    """Stores the ids that were ticked, or of all that match: the action applies to these and to nothing else."""
    flow = get_machine(request, collection, "operate")
    query = request.POST.get("q", "").replace("\x00", "")[:500]
    try:
        if request.POST.get("all"):
            ids = _matching_ids(flow, query)
        else:
            ids = bulk_jobs.check(request.POST.getlist("ids"))[:MAX_SELECTED]
    except (Refusal, TimedOut):
        ids = []
    if not ids:
        messages.warning(request, NOTHING, extra_tags="careful")
        address = reverse("console:machine", args=[collection])
        return HttpResponseRedirect(f"{address}?{urlencode({'q': query})}" if query else address)
    Selection.objects.filter(created_at__lt=now() - UNCONFIRMED_LIFETIME).delete()
    selection = Selection.objects.create(
        user=permissions.get_user(request),
        entity_type=flow.entity_type,
        ids=ids,
        query=query if request.POST.get("all") else "",
    )
    return HttpResponseRedirect(reverse("console:bulk", args=[collection, selection.pk]))


@require_safe
def matching(request: HttpRequest, collection: str) -> HttpResponse:
    """Text for the button that selects everything: `all 37`, or `the first 10,000 of 12,345`."""
    flow = get_machine(request, collection, "operate")
    try:
        with time_limit():
            count = _matching(flow, get_text(request, "q")).count()
    except TimedOut:
        return HttpResponse("all")
    return HttpResponse(f"the first {MAX_SELECTED:,} of {count:,}" if count > MAX_SELECTED else f"all {count:,}")


def _matching(flow: Flow, query: str) -> QuerySet[Any]:
    found = search.parse(query, flow, now())
    # An unknown word is left out of the conditions, so the rest would match too much.
    return flow.model.objects.none() if found.errors else entities.filter_rows(flow, found)


def _matching_ids(flow: Flow, query: str) -> list[str]:
    with time_limit():
        return list(_matching(flow, query).order_by("pk").values_list("pk", flat=True)[:MAX_SELECTED])


@require_http_methods(["GET", "HEAD", "POST"])
def confirm(request: HttpRequest, collection: str, selection_id: int) -> HttpResponse:
    flow = get_machine(request, collection, "operate")
    user = permissions.get_user(request)
    selection = get_object_or_404(Selection, pk=selection_id, user=user, entity_type=flow.entity_type)
    if selection.job_id is not None:  # already submitted
        return _redirect_to_job(selection.job_id)
    declared = {each.trigger: each for each in flow.transitions if Kind.OPERATOR in each.actors}
    trigger = request.POST.get("trigger", request.GET.get("trigger", ""))
    context = _context(request, flow, selection, declared, trigger)
    if request.method != "POST" or trigger not in declared:
        return rendering.render(request, CONFIRM, context)
    job, refusal = _start_job(request, flow, selection, declared[trigger])
    if job is None:
        return rendering.render(request, CONFIRM, {**context, "refusal": refusal}, status=422)
    return _redirect_to_job(job.pk)


def _count_applicable(flow: Flow, selection: Selection, declared: dict[str, Transition]) -> dict[str, int]:
    """On how many of the selected entities each trigger is open, judged by their states; without those open on none."""
    rows = flow.model.objects.filter(pk__in=selection.ids).order_by().values_list("state")
    states = dict(rows.annotate(count=Count("pk")))
    counts = {}
    for name in declared:
        sources = {source for each in flow.transitions if each.trigger == name for source in each.sources}
        counts[name] = sum(states.get(source, 0) for source in sources)
    return {name: count for name, count in counts.items() if count}


def _redirect_to_job(job_id: str) -> HttpResponse:
    return HttpResponseRedirect(reverse("console:bulk_job", args=[job_id]))


def _start_job(
    request: HttpRequest, flow: Flow, selection: Selection, declared: Transition
) -> tuple[BulkJob | None, Refusal | None]:
    """The job, or why its fields were refused; a selection that is submitted twice gets one job."""
    given: dict[str, Any] = {
        "actor": permissions.get_actor(request),
        "params": forms.read_fields(declared.params, request.POST),
        "reason": request.POST.get("reason", ""),
    }
    user = permissions.get_user(request)
    try:
        # A dry run of one entity validates the fields.
        bulk_jobs.fire(flow.model, selection.ids[:1], declared.trigger, **given, dry_run=True)
        with transaction.atomic():
            # A second submission at the same moment waits for this lock and finds the job.
            locked = get_object_or_404(Selection.objects.select_for_update(), pk=selection.pk)
            if locked.job is not None:
                return locked.job, None
            job = bulk_jobs.begin(flow.model, selection.ids, declared.trigger, **given, user=user, token=None)
            Selection.objects.filter(pk=selection.pk).update(job=job)
    except Refusal as refusal:
        return None, refusal
    _run_job(job)
    return job, None


def _run_job(job: BulkJob) -> None:
    """Runs the first portion now, so that the page has results; a Celery worker or the next sweep runs the rest."""
    bulk_jobs.run(job.pk, portions=1)
    try:
        run_bulk_job.delay(job.pk)
    except BrokerError:
        log.warning("bulk_job_not_enqueued", job=job.pk)


def _context(
    request: HttpRequest, flow: Flow, selection: Selection, declared: dict[str, Transition], trigger: str
) -> dict[str, Any]:
    chosen, count = declared.get(trigger), len(selection.ids)
    applicable = _count_applicable(flow, selection, declared)
    return {
        "flow": flow,
        "selection": selection,
        "count": count,
        "is_cut": count == MAX_SELECTED,
        "triggers": [(name, labels.action_label(flow, name, count=number)) for name, number in applicable.items()],
        "trigger": trigger if chosen else "",
        "label": labels.action_label(flow, trigger, count=applicable.get(trigger, count)) if chosen else "",
        "fields": [(param, request.POST.get(f"field_{param.name}", "")) for param in chosen.params] if chosen else [],
        "reason": request.POST.get("reason", ""),
        "preview": _preview(request, flow, selection, chosen) if chosen else None,
        "here_machine": flow.entity_type,
        "name": navigation.machine_name(flow),
    }


def _preview(request: HttpRequest, flow: Flow, selection: Selection, declared: Transition) -> dict[str, Any] | None:
    """A dry run of the first entities; None for a trigger with required fields, which are not filled in yet."""
    if any(param.required for param in declared.params):
        return None
    ids, actor = selection.ids[:MAX_PREVIEWED], permissions.get_actor(request)
    try:
        results = bulk_jobs.fire(flow.model, ids, declared.trigger, actor=actor, params={}, reason="", dry_run=True)
    except Refusal as refusal:
        return {"refusal": refusal, "of": len(ids)}
    refused = [_with_text(result, flow, declared.trigger) for result in results if result["refusal"]]
    reasons = Counter(result["text"] for result in refused).most_common()
    return {
        "of": len(ids),
        "accepted": len(results) - len(refused),
        "refused": len(refused),
        "reasons": reasons[:MAX_REASONS],
        "more_reasons": max(len(reasons) - MAX_REASONS, 0),
    }


def _with_text(result: dict[str, Any], flow: Flow, trigger: str) -> dict[str, Any]:
    refusal = result["refusal"]
    return {**result, "text": labels.refusal_text(refusal, flow, trigger) if refusal else ""}


@require_safe
def job(request: HttpRequest, job_id: str) -> HttpResponse:
    found = get_object_or_404(BulkJob, pk=job_id)
    flow = registry.flow(found.entity_type)
    permissions.require_action(request, flow, "view")
    done = found.portions.filter(results__isnull=False).order_by("number").values_list("results", flat=True)
    results: list[dict[str, Any]] = [result for portion in done[:MAX_PORTIONS] for result in portion or ()]
    shown = sorted(results, key=lambda result: result["refusal"] is None)[:MAX_RESULTS]
    context = {
        "job": found,
        "flow": flow,
        "label": labels.action_label(flow, found.trigger, count=found.total),
        "results": [_with_text(result, flow, found.trigger) for result in shown],
        "changed": found.done - found.refused,
        "here_machine": flow.entity_type,
        "name": navigation.machine_name(flow),
    }
    template = "dashboard/parts/bulk_job.html" if rendering.is_fragment(request) else "dashboard/bulk_job.html"
    return rendering.render(request, template, context)
