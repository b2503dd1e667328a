"""One action for many entities: select, lock the selection, preview, confirm, follow the progress, stop."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from typing import Any

import structlog
from django.conf import settings
from django.contrib import messages
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_http_methods, require_POST, require_safe
from kombu.exceptions import OperationalError as BrokerError

from statecore.bulk import BulkAction, Result, jobs
from statecore.dashboard import labels, navigation, permissions, rendering
from statecore.dashboard.models import Selection
from statecore.dashboard.queries import entities, search
from statecore.dashboard.queries.time_limit import TimedOut, time_limit
from statecore.kernel import registry
from statecore.kernel.clock import now
from statecore.kernel.flow import Flow
from statecore.kernel.refusals import Refusal
from statecore.records import BulkJob
from statecore.records.incident import IncidentEntity
from statecore.tasks import run_bulk_job
from statecore.transitions import Category

from . import forms
from .lookup import get_machine
from .query_params import get_text

log = structlog.get_logger(__name__)

MAX_SELECTED, MAX_REASONS = 10_000, 10
MAX_RESULTS, MAX_PORTIONS, MAX_JOBS = 200, 4, 100
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
        elif incident := request.POST.get("incident", ""):
            ids = _ids_of_incident(flow, incident)
        else:
            ids = jobs.check_ids(request.POST.getlist("ids"))[:MAX_SELECTED]
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
    address = reverse("console:bulk", args=[collection, selection.pk])
    action = request.POST.get("action", "")
    return HttpResponseRedirect(f"{address}?{urlencode({'action': action})}" if action else address)


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


def _ids_of_incident(flow: Flow, incident_id: str) -> list[str]:
    """The entities of one machine that hang on an incident."""
    number = int(incident_id) if incident_id.isascii() and incident_id.isdigit() and len(incident_id) < 18 else 0
    hanging = IncidentEntity.objects.filter(incident=number, entity_type=flow.entity_type).order_by("due_at", "pk")
    return list(hanging.values_list("entity_id", flat=True)[:MAX_SELECTED])


@require_http_methods(["GET", "HEAD", "POST"])
def confirm(request: HttpRequest, collection: str, selection_id: int) -> HttpResponse:
    flow = get_machine(request, collection, "operate")
    user = permissions.get_user(request)
    selection = get_object_or_404(Selection, pk=selection_id, user=user, entity_type=flow.entity_type)
    if selection.job_id is not None:  # already submitted
        return _redirect_to_job(selection.job_id)
    offers = _list_offers(request, flow, selection)
    chosen = _read_choice(request, [action for action, _count in offers])
    context = _context(request, selection, offers, chosen)
    if request.method != "POST" or chosen is None:
        return rendering.render(request, CONFIRM, context)
    job, refusal = _start_job(request, selection, chosen)
    if job is None:
        return rendering.render(request, CONFIRM, {**context, "refusal": refusal}, status=422)
    return _redirect_to_job(job.pk)


def _list_offers(request: HttpRequest, flow: Flow, selection: Selection) -> list[tuple[BulkAction, int]]:
    """The actions that the user may take and that apply to at least one of the entities, each with the number."""
    found = jobs.count_applicable(flow, selection.ids)
    return [(action, count) for action, count in found if permissions.is_allowed(request.user, flow, action.permission)]


def _read_choice(request: HttpRequest, offered: list[BulkAction]) -> BulkAction | None:
    given = request.POST if request.method == "POST" else request.GET
    defaults = {"action": "transition", "trigger": "", "to_state": ""}
    named = {name: given.get(name, default) for name, default in defaults.items()}
    return next((action for action in offered if _name_choice(action) == named), None)


def _name_choice(action: BulkAction) -> dict[str, str]:
    request = action.request
    return {"action": request.action, "trigger": request.trigger, "to_state": request.to_state}


def _redirect_to_job(job_id: str) -> HttpResponse:
    return HttpResponseRedirect(reverse("console:bulk_job", args=[job_id]))


def _start_job(request: HttpRequest, selection: Selection, chosen: BulkAction) -> tuple[BulkJob | None, Refusal | None]:
    """The job, or why its fields were refused; a selection that is submitted twice gets one job."""
    params = forms.read_fields(chosen.fields(), request.POST)
    reason, category = request.POST.get("reason", ""), request.POST.get("category", "")
    action = replace(chosen, request=replace(chosen.request, reason=reason, category=category, params=params))
    user = permissions.get_user(request)
    try:
        with transaction.atomic():
            # A second submission at the same moment waits for this lock and finds the job.
            locked = get_object_or_404(Selection.objects.select_for_update(), pk=selection.pk)
            if locked.job is not None:
                return locked.job, None
            job = jobs.begin(action, selection.ids, actor=permissions.get_actor(request), user=user, token=None)
            Selection.objects.filter(pk=selection.pk).update(job=job)
    except Refusal as refusal:
        return None, refusal
    _run_job(job)
    return job, None


def _run_job(job: BulkJob) -> None:
    """Runs the first portion now, so that the page has results; a Celery worker or the next sweep runs the rest."""
    jobs.run(job.pk, portions=1)
    try:
        run_bulk_job.delay(job.pk)
    except BrokerError:
        log.warning("bulk_job_not_enqueued", job=job.pk)


def _context(
    request: HttpRequest, selection: Selection, offers: list[tuple[BulkAction, int]], chosen: BulkAction | None
) -> dict[str, Any]:
    flow, count = registry.flow(selection.entity_type), len(selection.ids)
    choices = [(urlencode(_name_choice(each)), labels.bulk_label(each, number), each) for each, number in offers]
    context = {
        "flow": flow,
        "selection": selection,
        "count": count,
        "is_cut": count == MAX_SELECTED,
        "actions": [choice for choice in choices if not choice[2].request.to_state],
        "forcing": [choice for choice in choices if choice[2].request.to_state],
        "chosen": chosen,
        "reason": request.POST.get("reason", ""),
        "category": request.POST.get("category", ""),
        "categories": Category.choices,
        "approval_hours": settings.STATECORE_APPROVAL_HOURS,
        "here_machine": flow.entity_type,
        "name": navigation.machine_name(flow),
    }
    if chosen is None:
        return context
    preview = _preview(request, selection, chosen)
    return {
        **context,
        "preview": preview,
        "label": labels.bulk_label(chosen, preview.get("would", 0) or count),
        "is_override": chosen.permission != "operate",
        "fields": [(param, request.POST.get(f"field_{param.name}", "")) for param in chosen.fields()],
    }


def _preview(request: HttpRequest, selection: Selection, chosen: BulkAction) -> dict[str, Any]:
    """A dry run of the first entities to which the action applies."""
    try:
        found = jobs.preview(forms.fill_in(chosen), selection.ids, permissions.get_actor(request))
    except Refusal as refusal:
        return {"refusal": refusal}
    visible = permissions.visible_types(request)
    caused = [each for each in found.caused if each["entity_type"] in visible]
    reasons = _count_reasons(found.results, chosen)
    return {
        "applicable": found.applicable,
        "tried": found.tried,
        "refused": found.refused,
        "approvals": found.approvals,
        "changed": found.tried - found.refused - found.approvals,
        # If all were tried, those that the dry run accepted; otherwise all that it may accept.
        "would": found.applicable - found.refused if found.refused < found.tried else 0,
        "caused": caused,
        "has_unseen": len(caused) < len(found.caused),
        "reasons": reasons[:MAX_REASONS],
        "more_reasons": max(len(reasons) - MAX_REASONS, 0),
    }


def _count_reasons(results: list[Result], action: BulkAction) -> list[tuple[str, int]]:
    refused = (result.as_dict() for result in results if result.refusal)
    return Counter(_refusal_text(result, action) for result in refused).most_common()


def _refusal_text(result: dict[str, Any], action: BulkAction) -> str:
    """The sentence without the id, so that equal refusals are counted together."""
    text = labels.refusal_text(result["refusal"], action.flow, action.request.trigger)
    text = text.replace(f"{action.flow.entity_type} {result['id']}", f"the {labels.noun(action.flow.entity_type)}")
    return text[:1].upper() + text[1:]


# Jobs


@require_safe
def bulk_jobs(request: HttpRequest) -> HttpResponse:
    """The newest jobs on machines that the user may see."""
    visible = permissions.require_visible_machines(request)
    found = BulkJob.objects.filter(entity_type__in=[flow.entity_type for flow in visible]).order_by("-pk")[:MAX_JOBS]
    context = {"jobs": [(each, labels.bulk_label(jobs.action_of(each), each.total)) for each in found]}
    return rendering.render(request, "dashboard/bulk_jobs.html", context)


@require_safe
def job(request: HttpRequest, job_id: str) -> HttpResponse:
    found = get_object_or_404(BulkJob, pk=job_id)
    action = jobs.action_of(found)
    permissions.require_action(request, action.flow, "view")
    done = found.portions.filter(results__isnull=False).order_by("number").values_list("results", flat=True)
    results: list[dict[str, Any]] = [result for portion in done[:MAX_PORTIONS] for result in portion or ()]
    shown = sorted(results, key=lambda result: result["refusal"] is None)[:MAX_RESULTS]
    visible = permissions.visible_types(request)
    context = {
        "job": found,
        "flow": action.flow,
        "label": labels.bulk_label(action, found.total),
        "results": [{**each, "text": _refusal_text(each, action) if each["refusal"] else ""} for each in shown],
        "caused": [each for each in found.caused or [] if each["entity_type"] in visible],
        "may_stop": permissions.is_allowed(request.user, action.flow, "operate"),
        "name": navigation.machine_name(action.flow),
    }
    template = "dashboard/parts/bulk_job.html" if rendering.is_fragment(request) else "dashboard/bulk_job.html"
    return rendering.render(request, template, context)


@require_POST
def stop(request: HttpRequest, job_id: str) -> HttpResponse:
    found = get_object_or_404(BulkJob, pk=job_id)
    permissions.require_action(request, registry.flow(found.entity_type), "operate")
    if not jobs.stop(found, permissions.get_actor(request)):
        messages.info(request, "It had finished already.")
    return _redirect_to_job(job_id)
