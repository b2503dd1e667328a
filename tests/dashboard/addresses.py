"""Every page of the console with the permission that it needs.

A route that is neither in LISTED nor in NOT_PAGES is a page for viewers: it must refuse accounts without a group.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from django.contrib.auth.models import Group, User
from django.urls import reverse

from statecore.dashboard.urls import urlpatterns
from statecore.kernel.clock import now
from statecore.operations.incidents import lifecycle
from statecore.read_models.incidents import RootCause
from statecore.records import PlanTemplate, webhook
from statecore.scheduling import schedules, templates
from tests.dashboard.scene import Scene, last_forced, pending_approval
from tests.support import world

ANYBODY, VIEW, OPERATE, OVERRIDE, MANAGE = "anybody", "view", "operate", "override", "manage"


class Page(NamedTuple):
    name: str
    takes: str
    args: Any = ()


TASK = ("tasks", "scene-t1")
LISTED = [
    Page("overview", ANYBODY),
    Page("start", ANYBODY),
    Page("command", ANYBODY),
    Page("incidents", ANYBODY),
    Page("incident", VIEW, "open incident"),
    Page("tokens", ANYBODY),
    Page("second_factor", ANYBODY),
    Page("account", ANYBODY),
    Page("runbook", ANYBODY),
    Page("wall", ANYBODY),
    Page("displays", VIEW),
    Page("alerts", VIEW),
    Page("approvals", VIEW),
    Page("approval", VIEW, "pending approval"),
    Page("approval_preview", OVERRIDE, "pending approval"),
    Page("holds", VIEW),
    Page("webhooks", OPERATE),
    Page("system", OPERATE),
    Page("webhook", OPERATE, "webhook"),
    Page("schedules", VIEW),
    Page("schedule", VIEW, "new schedule"),
    Page("templates", VIEW),
    Page("template", VIEW, "template"),
    Page("trends", VIEW),
    Page("trends_csv", VIEW),
    Page("capability", VIEW, ("git",)),
    Page("overrides", VIEW),
    Page("audit", VIEW),
    Page("accounts", OVERRIDE),  # its permission is given to supervisors
    Page("users", MANAGE),
    Page("new_user", MANAGE),
    Page("user", MANAGE, "person"),
    Page("user_action", MANAGE, "deactivation"),
    Page("roles", MANAGE),
    Page("new_role", MANAGE),
    Page("role", MANAGE, "role"),
    Page("delete_role", MANAGE, "own role"),
    Page("service_accounts", ANYBODY),  # lists those that the user owns
    Page("new_service_account", MANAGE),
    Page("audit_export", VIEW),
    Page("audit_verify", VIEW),
    Page("machine", VIEW, ("tasks",)),
    Page("entity", VIEW, TASK),
    Page("why", VIEW, TASK),
    Page("liveness", VIEW, "running task"),
    Page("task_log", VIEW, ("scene-t1",)),
    Page("views", VIEW, ("tasks",)),
    Page("proof", VIEW, TASK),
    Page("run", VIEW, ("scene",)),
    Page("run_parts", VIEW, ("scene",)),
    Page("run_estimate", VIEW, ("scene",)),
    Page("run_tasks", VIEW, ("scene",)),
    Page("run_compare", VIEW, ("scene",)),
    Page("run_journal", VIEW, ("scene",)),
    Page("run_working", VIEW, ("scene",)),
    Page("receipt", VIEW, "forced event"),
    Page("bulk_jobs", VIEW),
    Page("matching", OPERATE, ("tasks",)),
    Page("transition", OPERATE, ("runs", "scene", "run_canceled")),
    Page("retry", OPERATE, TASK),
    Page("pause_run", OPERATE, ("scene",)),
    Page("resume_run", OPERATE, ("scene",)),
    Page("force", OVERRIDE, TASK),
    Page("waive", OVERRIDE, "new gate"),
]
# Routes that take a POST, or that serve visitors who are not logged in.
NOT_PAGES = {
    *("login", "single_sign_on", "single_sign_on_callback"),
    *("code", "enrol", "logout", "preferences", "acknowledge", "silence", "approve", "revoke"),
    *("stuck", "incident_action"),
    *("decide", "proof_file", "end_session", "release_hold", "run_schedule", "pause_schedule", "resume_schedule"),
    *("webhook_action", "change_role"),
    # Not found for those who neither own the account nor manage accounts: tests/dashboard/test_accounts_desk.py.
    *("service_account", "service_account_action", "token_action"),
    *("save_view", "delete_view", "select", "bulk", "bulk_job", "stop_bulk_job", "compensation"),
    *("unpair", "wall_heartbeat", "pairing", "paired"),
}
MAY = {
    "nobody": {ANYBODY},
    "viewer": {ANYBODY, VIEW},
    "operator": {ANYBODY, VIEW, OPERATE},
    "supervisor": {ANYBODY, VIEW, OPERATE, OVERRIDE},
    "superuser": {ANYBODY, VIEW, OPERATE, OVERRIDE, MANAGE},
}


def unlisted() -> list[Page]:
    known = {page.name for page in LISTED} | NOT_PAGES
    return [Page(str(pattern.name), VIEW) for pattern in urlpatterns if pattern.name not in known]


PAGES = [*LISTED, *unlisted()]


def new_template() -> str:
    plan = {"phase": "PH", "workstreams": [{"id": "w", "tasks": [{"id": "t"}]}]}
    if not PlanTemplate.objects.exists():
        templates.store("nightly", plan=plan, actor=world.operator())
    return "nightly"


def new_schedule() -> str:
    new_template()
    return schedules.create({"template": "nightly", "cron": "0 2 * * *"}, actor=world.operator()).pk


def open_incident() -> int:
    """Returns an incident about a task."""
    root = RootCause("task scene-t1", "Task scene-t1 failed", "task", "scene-t1", ("task",))
    return lifecycle.open_incident(root.key, root, [], now()).pk


def new_person() -> int:
    return User.objects.get_or_create(username="new-person")[0].pk


def role(name: str) -> int:
    return Group.objects.get_or_create(name=name)[0].pk


CREATED: dict[str, Callable[[], tuple[Any, ...]]] = {
    "forced event": lambda: (last_forced(),),
    "pending approval": lambda: (pending_approval(),),
    "webhook": lambda: (webhook.create("https://example.com/", created_by="ada", owner_id=None)[0].pk,),
    "template": lambda: (new_template(),),
    "new schedule": lambda: (new_schedule(),),
    "open incident": lambda: (open_incident(),),
    "new gate": lambda: ("gates", world.gate().pk),
    "person": lambda: (new_person(),),
    "deactivation": lambda: (new_person(), "deactivate"),
    "role": lambda: (role("viewer"),),
    "own role": lambda: (role("night shift"),),
    "running task": lambda: ("tasks", world.running_task().pk),
}


def address(place: Page, scene: Scene) -> str:
    args = CREATED[place.args]() if isinstance(place.args, str) else place.args
    return reverse(f"console:{place.name}", args=args)
