"""The names and the order of machines in menus, on the overview and on walls."""

from __future__ import annotations

from typing import Any

from statecore.kernel.entity import Entity
from statecore.kernel.flow import Flow

from . import permissions

PLANS, JOBS = "Plans", "Jobs and tools"
WORK_ORDER = ("runs", "workstreams", "tasks", "gates", "patches", "workers", "breakers")


def machine_name(flow: Flow) -> str:
    """`Patch ledger`, `Tasks`: the collection's name as a heading."""
    return flow.collection.replace("-", " ").capitalize().replace("Uet", "UET")


def group_machines(user: Any) -> list[tuple[str, list[tuple[Flow, str]]]]:
    """The machines the user may see, by menu group: first the ones that are linked to others."""
    visible = sorted(permissions.visible_machines(user), key=menu_order)
    linked = [flow for flow in visible if linked_machines(flow)]
    groups = ((PLANS, linked), (JOBS, [flow for flow in visible if flow not in linked]))
    return [(title, [(flow, machine_name(flow)) for flow in flows]) for title, flows in groups if flows]


def menu_order(flow: Flow) -> tuple[bool, int]:
    """Linked machines come first, in the order of the work; a machine that is not listed follows the listed ones."""
    listed = WORK_ORDER.index(flow.collection) if flow.collection in WORK_ORDER else len(WORK_ORDER)
    return not linked_machines(flow), listed


def linked_machines(flow: Flow) -> set[type[Entity]]:
    """Other machines with a relation to or from this one."""
    fields = flow.model._meta.get_fields()
    linked = {field.related_model for field in fields if field.is_relation} - {flow.model}
    return {model for model in linked if isinstance(model, type) and issubclass(model, Entity)}
