"""What the admin shows of the console: where everything is, what is stuck, what was forced, and an entity's history."""

from __future__ import annotations

from typing import Any

from django import template

from dashboard import rights, shell
from dashboard.queries import counts, history
from statecore import board
from statecore import history as journal
from statecore.kernel import registry
from statecore.kernel.entity import Entity
from statecore.stuck import stuck

register = template.Library()

FEW = 8


@register.inclusion_tag("admin/board.html", takes_context=True)
def console_board(context: dict[str, Any]) -> dict[str, Any]:
    user = context["request"].user
    seen = [flow for flow in registry.flows() if rights.may(user, flow, "view")]
    names = [flow.entity_type for flow in seen]
    told = board.stats(names)
    spread = [counts.distribution(flow, told["counts"][flow.entity_type]) for flow in seen]
    late = stuck(FEW, sight=names)
    forced = journal.forced(limit=FEW, entity_type=names).events if names else []
    return {"machines": [(each, shell.name_of(each.flow)) for each in spread], "stuck": late, "overrides": forced}


@register.inclusion_tag("admin/entity_history.html", takes_context=True)
def console_history(context: dict[str, Any], entity: Entity) -> dict[str, Any]:
    user, events = context["request"].user, history.events(entity)[0]
    return {
        "entity": entity,
        "flow": entity.flow,
        "events": events,
        "may_operate": rights.may(user, entity.flow, "operate"),
        "may_force": rights.may(user, entity.flow, "override"),
    }
