"""The pages of the menu and the command bar, and the names and the order of machines in menus and on walls."""

from __future__ import annotations

from typing import Any, NamedTuple

from statecore.journal.accounts import VIEW_ACCOUNTS
from statecore.kernel.entity import Entity
from statecore.kernel.flow import Flow
from statecore.records.service_account import MANAGE_ACCOUNTS

from . import permissions

MACHINES = "machines"  # needed by a page: at least one machine that the user may see


class Page(NamedTuple):
    name: str  # of its route
    title: str
    icon: str
    needs: tuple[str, ...] = ()
    section: str = "work"  # of the menu; without one, the page is in the command bar only


PAGES = (
    Page("overview", "Overview", "overview"),
    Page("incidents", "Incidents", "stuck", (MACHINES,)),
    Page("alerts", "Alerts", "alerts", ("statecore.view_alert",)),
    Page("approvals", "Approvals", "shield", (MACHINES,)),
    Page("holds", "Holds", "held", ("statecore.view_hold",)),
    Page("schedules", "Schedules", "clock", ("statecore.view_schedule",)),
    Page("bulk_jobs", "Bulk actions", "copy", (MACHINES,)),
    Page("overrides", "Overrides", "forced", ("statecore.view_event", MACHINES)),
    Page("audit", "Audit", "audit", ("statecore.view_event", MACHINES)),
    Page("system", "System", "active", ("statecore.view_processreport",), "setup"),
    Page("displays", "Displays", "display", ("dashboard.view_display",), "setup"),
    Page("webhooks", "Webhooks", "send", ("statecore.view_webhook",), "setup"),
    Page("users", "Accounts", "user", (MANAGE_ACCOUNTS,), "setup"),
    Page("roles", "Roles", "shield", (MANAGE_ACCOUNTS,), ""),
    Page("service_accounts", "Service accounts", "key", (), ""),
    Page("tokens", "Tokens", "key", (), "setup"),
    Page("start", "Get started", "next", (), "setup"),
    Page("accounts", "Account journal", "user", (VIEW_ACCOUNTS,), ""),
    Page("account", "Your account", "user", (), ""),
    Page("second_factor", "Two-factor authentication", "shield", (), ""),
    Page("runbook", "Runbook", "alerts", (), ""),
    Page("wall", "Wall display", "display", (MACHINES,), ""),
)


def list_pages(user: Any) -> list[Page]:
    """The pages that the user may see."""
    held = {MACHINES: bool(permissions.visible_machines(user))}
    return [page for page in PAGES if all(held[need] if need in held else user.has_perm(need) for need in page.needs)]


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
