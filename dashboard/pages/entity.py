"""One entity: where it is, how it came there, what it belongs to, as it is stored."""

from __future__ import annotations

import json
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from dashboard import rights, shell
from dashboard.diagram import machine_drawing
from dashboard.queries import entities, history, related, runs
from statecore.derive.tones import looks
from statecore.kernel.clock import now
from statecore.kernel.entity import Entity
from statecore.machines.run import Run
from statecore.records.position import head
from statecore.stuck import scan

from .asked import number
from .found import entity_at

TABS = {"history": "History", "related": "Related", "data": "Data"}


@require_safe
def entity(request: HttpRequest, collection: str, entity_id: str) -> HttpResponse:
    position = head()
    found = entity_at(request, collection, entity_id)
    tab = _tab(request)
    context = {"entity": found, "flow": found.flow, "tab": tab, **PARTS[tab](request, found)}
    if shell.is_fragment(request):
        return shell.render(request, f"dashboard/parts/{tab}.html", context)
    return shell.render(request, "dashboard/entity.html", {**context, **_around(request, found), "position": position})


def _history(request: HttpRequest, entity: Entity) -> dict[str, Any]:
    before = number(request, "before")
    events, more = history.events(entity, before)
    retired = history.retired(entity, events) if more is None else None
    return {"events": events, "more": more, "is_first": before is None, "retired": retired}


def _related(request: HttpRequest, entity: Entity) -> dict[str, Any]:
    return {"relations": related.relations(entity, rights.sight(request))}


def _data(request: HttpRequest, entity: Entity) -> dict[str, Any]:
    return {"json": json.dumps(entity.as_dict(), indent=2, ensure_ascii=False)}


PARTS = {"history": _history, "related": _related, "data": _data}


def _around(request: HttpRequest, entity: Entity) -> dict[str, Any]:
    flow, steps = entity.flow, history.path_taken(entity)
    address = reverse("console:force", args=[flow.collection, entity.pk])
    heir = entities.successor(entity)
    targets = entities.forceable(entity, heir) if rights.may(request.user, flow, "override") else []
    deadline, at = flow.deadline(entity.state), now()

    def force(state: str) -> str:
        return f"{address}?to={state}" if state in targets else ""

    return {
        "drawing": machine_drawing(
            flow,
            link=force,
            here=entity.state,
            taken=[(source, target) for source, target, _forced in steps],
            forced=[(source, target) for source, target, is_forced in steps if is_forced],
        ),
        "was_forced": any(is_forced for *_edge, is_forced in steps) or entities.was_forced_long_ago(entity, len(steps)),
        "belongs": entities.belongs_to(entity),
        "facts": plain_facts(entity),
        "is_final": flow.is_final(entity.state),
        "deadline": deadline,
        "overdue": scan.overdue_by(entity, at),
        "clock": scan.clock_of(entity),
        "may_operate": rights.may(request.user, flow, "operate"),
        "may_force": bool(targets),
        "successor": heir,
        "may_replay": isinstance(entity, Run)
        and {part.flow.entity_type for part in runs.PARTS} <= rights.sight(request),
        "tabs": [(name, title, name == _tab(request)) for name, title in TABS.items()],
        "looks": {
            state: {"tone": look.tone.value, "word": look.word} for state, look in looks(flow.entity_type).items()
        },
        "here_machine": flow.entity_type,
        "name": shell.name_of(flow),
    }


def _tab(request: HttpRequest) -> str:
    given = request.GET.get("tab", "history")
    return given if given in TABS else "history"


# Shown elsewhere on the page, or among the data.
ELSEWHERE = {"id", "state", "version", "chain_head", "metadata", "state_entered_at", "created_at", "updated_at"}
LONGEST = 200


def plain_facts(entity: Entity) -> list[tuple[str, Any]]:
    """What this machine says about its entity, without what is empty, long, or a link."""
    columns = [column for column in entity._meta.concrete_fields if not column.is_relation]
    values = [(column.name, getattr(entity, column.attname)) for column in columns if column.name not in ELSEWHERE]
    return [(name.replace("_", " "), _shown(value)) for name, value in values if value not in (None, "", [], {}, False)]


def _shown(value: Any) -> Any:
    if isinstance(value, dict | list):
        value = json.dumps(value, ensure_ascii=False)
    return value[:LONGEST] + "…" if isinstance(value, str) and len(value) > LONGEST else value
