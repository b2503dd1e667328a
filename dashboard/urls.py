"""URLs of the console."""

from django.urls import path, register_converter

from statecore.kernel import extensions
from statecore.kernel.ids import ID_PATTERN

from .pages import (
    account,
    accounts,
    alerts,
    approvals,
    audit,
    bulk,
    command,
    compensation,
    displays,
    entity,
    force,
    get_started,
    holds,
    incidents,
    login,
    machine,
    overrides,
    overview,
    pause_run,
    preferences,
    receipt,
    roles,
    run,
    run_compare,
    run_tasks,
    runbook,
    saved_views,
    schedules,
    second_factor,
    service_accounts,
    single_sign_on,
    task_log,
    templates,
    tokens,
    transition,
    trends,
    users,
    waive,
    wall,
    webhooks,
)


class EntityId:
    """Path converter for entity ids, which may contain more than a slug."""

    regex = ID_PATTERN.pattern

    def to_python(self, value: str) -> str:
        return value

    def to_url(self, value: str) -> str:
        return str(value)


register_converter(EntityId, "entity")

app_name = "console"
MACHINE, ENTITY = "machines/<slug:collection>/", "machines/<slug:collection>/<entity:entity_id>/"

urlpatterns = [
    path("", overview.overview, name="overview"),
    path("search/", command.command, name="command"),
    path("login/", login.Login.as_view(), name="login"),
    path("login/code/", login.code, name="code"),
    path("login/enrol/", login.enrol, name="enrol"),
    path("login/sso/", single_sign_on.start, name="single_sign_on"),
    path("login/sso/callback/", single_sign_on.callback, name="single_sign_on_callback"),
    path("logout/", login.Logout.as_view(), name="logout"),
    path("preferences/", preferences.preferences, name="preferences"),
    path("account/", account.account, name="account"),
    path("account/sessions/end/", account.end_session, name="end_session"),
    path("accounts/", users.users, name="users"),
    path("accounts/new/", users.new_user, name="new_user"),
    path("accounts/<int:user_id>/", users.user, name="user"),
    path("accounts/<int:user_id>/<slug:action>/", users.user_action, name="user_action"),
    path("accounts/roles/", roles.roles, name="roles"),
    path("accounts/new-role/", roles.new_role, name="new_role"),
    path("accounts/roles/<int:role_id>/", roles.role, name="role"),
    path("accounts/roles/<int:role_id>/change/", roles.change_role, name="change_role"),
    path("accounts/roles/<int:role_id>/delete/", roles.delete_role, name="delete_role"),
    path("accounts/services/", service_accounts.service_accounts, name="service_accounts"),
    path("accounts/new-service/", service_accounts.new_service_account, name="new_service_account"),
    path("accounts/services/<entity:name>/", service_accounts.service_account, name="service_account"),
    path(
        "accounts/services/<entity:name>/<slug:action>/",
        service_accounts.service_account_action,
        name="service_account_action",
    ),
    path(
        "accounts/services/<entity:name>/<slug:prefix>/<slug:action>/",
        service_accounts.service_account_action,
        name="token_action",
    ),
    path("second-factor/", second_factor.second_factor, name="second_factor"),
    path("start/", get_started.get_started, name="start"),
    path("incidents/", incidents.incidents, name="incidents"),
    path("incidents/<int:incident_id>/", incidents.incident, name="incident"),
    path("incidents/<int:incident_id>/act/", incidents.act, name="incident_action"),
    path("incidents/approve/<slug:collection>/<entity:entity_id>/", incidents.approve, name="approve"),
    path("stuck/", incidents.redirect_from_stuck, name="stuck"),
    path("alerts/", alerts.alerts, name="alerts"),
    path("alerts/<int:alert_id>/acknowledge/", alerts.acknowledge, name="acknowledge"),
    path("alerts/<int:alert_id>/silence/", alerts.silence, name="silence"),
    path("runbook/", runbook.show_runbook, name="runbook"),
    path("approvals/", approvals.approvals, name="approvals"),
    path("approvals/<entity:approval_id>/", approvals.approval, name="approval"),
    path("approvals/<entity:approval_id>/preview/", approvals.preview, name="approval_preview"),
    path("approvals/<entity:approval_id>/decide/", approvals.decide, name="decide"),
    path("holds/", holds.holds, name="holds"),
    path("holds/<entity:hold_id>/release/", holds.release, name="release_hold"),
    path("schedules/", schedules.schedules, name="schedules"),
    path("schedules/<entity:schedule_id>/", schedules.schedule, name="schedule"),
    *(
        path(f"schedules/<entity:schedule_id>/{action}/", schedules.act, {"action": action}, name=name)
        for action, name in (("run", "run_schedule"), ("pause", "pause_schedule"), ("resume", "resume_schedule"))
    ),
    path("templates/", templates.templates, name="templates"),
    path("templates/<entity:template_id>/", templates.template, name="template"),
    path("trends/", trends.trends, name="trends"),
    path("trends/csv/", trends.export, name="trends_csv"),
    path("capabilities/<path:name>/", trends.capability, name="capability"),
    path("overrides/", overrides.overrides, name="overrides"),
    path("audit/", audit.audit, name="audit"),
    path("audit/accounts/", accounts.accounts, name="accounts"),
    path("audit/export/", audit.export, name="audit_export"),
    path("audit/verify/", audit.verify, name="audit_verify"),
    path("displays/", displays.displays, name="displays"),
    path("displays/<int:display_id>/unpair/", displays.unpair, name="unpair"),
    path("wall/", wall.wall, name="wall"),
    path("wall/heartbeat/", wall.heartbeat, name="wall_heartbeat"),
    path("wall/pair/", displays.pairing, name="pairing"),
    path("wall/pair/status/", displays.paired, name="paired"),
    path("tokens/", tokens.tokens, name="tokens"),
    path("tokens/<slug:prefix>/revoke/", tokens.revoke, name="revoke"),
    path("webhooks/", webhooks.webhooks, name="webhooks"),
    path("webhooks/<entity:webhook_id>/", webhooks.webhook, name="webhook"),
    path("webhooks/<entity:webhook_id>/<slug:action>/", webhooks.act, name="webhook_action"),
    path("receipts/<slug:event_id>/", receipt.receipt, name="receipt"),
    path("receipts/<slug:event_id>/proof/", receipt.proof_file, name="proof_file"),
    path("runs/<entity:run_id>/", run.run, name="run"),
    path("runs/<entity:run_id>/working/", run.working, name="run_working"),
    path("runs/<entity:run_id>/pause/", pause_run.pause, name="pause_run"),
    path("runs/<entity:run_id>/resume/", pause_run.resume, name="resume_run"),
    path("runs/<entity:run_id>/tasks/", run_tasks.tasks, name="run_tasks"),
    path("runs/<entity:run_id>/compare/", run_compare.compare, name="run_compare"),
    path("runs/<entity:run_id>/estimate/", run.estimate, name="run_estimate"),
    path("runs/<entity:run_id>/parts/", run.parts, name="run_parts"),
    path("runs/<entity:run_id>/journal/", run.journal, name="run_journal"),
    path(MACHINE, machine.machine, name="machine"),
    path(f"{MACHINE}~views/", saved_views.saved_views, name="views"),
    path(f"{MACHINE}~views/save/", saved_views.save_view, name="save_view"),
    path(f"{MACHINE}~views/<int:view_id>/delete/", saved_views.delete_view, name="delete_view"),
    path(f"{MACHINE}~select/", bulk.select, name="select"),
    path(f"{MACHINE}~matching/", bulk.matching, name="matching"),
    path(f"{MACHINE}~selection/<int:selection_id>/", bulk.confirm, name="bulk"),
    path("bulk/", bulk.bulk_jobs, name="bulk_jobs"),
    path("bulk/<slug:job_id>/", bulk.job, name="bulk_job"),
    path("bulk/<slug:job_id>/stop/", bulk.stop, name="stop_bulk_job"),
    path("machines/tasks/<entity:task_id>/log/", task_log.download, name="task_log"),
    path("machines/patches/<entity:patch_id>/compensation/", compensation.act, name="compensation"),
    path(ENTITY, entity.entity, name="entity"),
    path(f"{ENTITY}why/", entity.why, name="why"),
    path(f"{ENTITY}liveness/", entity.liveness, name="liveness"),
    path(f"{ENTITY}proof/", entity.proof, name="proof"),
    path(f"{ENTITY}retry/", transition.retry, name="retry"),
    path(f"{ENTITY}force/", force.force, name="force"),
    path(f"{ENTITY}waive/", waive.waive, name="waive"),
    path(f"{ENTITY}transition/<slug:trigger>/", transition.transition, name="transition"),
    *(each.route for each in extensions.pages),
]
