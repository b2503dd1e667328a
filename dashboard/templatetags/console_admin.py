"""The console's panels in the admin: states, stuck entities, latest overrides, and an entity's history."""

from __future__ import annotations

from typing import Any

from django import template

from statecore.dashboard import navigation, permissions
from statecore.dashboard.queries import counts, entities, history
from statecore.kernel.entity import Entity
from statecore.read_models import board
from statecore.read_models import history as journal
from statecore.read_models.stuck import list_stuck

register = template.Library()

MAX_ROWS = 8


@register.inclusion_tag("admin/board.html", takes_context=True)
def console_board(context: dict[str, Any]) -> dict[str, Any]:
    user = context["request"].user
    visible = sorted(permissions.visible_machines(user), key=navigation.menu_order)
    names = [flow.entity_type for flow in visible]
    states = board.get_stats(names)["counts"]
    distributions = [counts.get_distribution(flow, states[flow.entity_type]) for flow in visible]
    return {
        "machines": [(each, navigation.machine_name(each.flow)) for each in distributions],
        "stuck": list_stuck(MAX_ROWS, visible=names),
        "overrides": journal.list_overrides(limit=MAX_ROWS, entity_type=names).events if names else [],
    }


@register.inclusion_tag("admin/entity_history.html", takes_context=True)
def console_history(context: dict[str, Any], entity: Entity) -> dict[str, Any]:
    user, events = context["request"].user, history.list_events(entity)[0]
    targets = entities.forceable_states(entity, entities.find_successor(entity))
    return {
        "entity": entity,
        "flow": entity.flow,
        "events": events,
        "may_force": bool(targets) and permissions.is_allowed(user, entity.flow, "override"),
    }
