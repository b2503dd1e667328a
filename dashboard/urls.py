"""The addresses of the console."""

from django.urls import path, register_converter

from statecore.kernel.ulid import ID_PATTERN

from .pages import (
    alerts,
    audit,
    bulk,
    entity,
    force,
    login,
    machine,
    move,
    overrides,
    overview,
    pairing,
    preferences,
    proof,
    receipt,
    retry,
    run,
    screens,
    second_factor,
    start,
    stuck,
    tokens,
    views,
    wall,
    why,
)


class EntityId:
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
    path("login/", login.Login.as_view(), name="login"),
    path("login/code/", login.code, name="code"),
    path("login/enrol/", login.enrol, name="enrol"),
    path("logout/", login.Logout.as_view(), name="logout"),
    path("preferences/", preferences.preferences, name="preferences"),
    path("second-factor/", second_factor.second_factor, name="second_factor"),
    path("start/", start.start, name="start"),
    path("stuck/", stuck.stuck, name="stuck"),
    path("stuck/<slug:collection>/<entity:entity_id>/approve/", stuck.approve, name="approve"),
    path("stuck/<slug:collection>/<entity:entity_id>/seen/", stuck.take_notice, name="take_notice"),
    path("alerts/", alerts.alerts, name="alerts"),
    path("alerts/<int:alert_id>/acknowledge/", alerts.acknowledge, name="acknowledge"),
    path("overrides/", overrides.overrides, name="overrides"),
    path("audit/", audit.audit, name="audit"),
    path("audit/export/", audit.export, name="audit_export"),
    path("audit/verify/", audit.verify, name="audit_verify"),
    path("screens/", screens.screens, name="screens"),
    path("screens/<int:screen_id>/revoke/", screens.revoke_screen, name="revoke_screen"),
    path("wall/", wall.wall, name="wall"),
    path("wall/alive/", wall.alive, name="alive"),
    path("wall/pair/", pairing.pairing, name="pairing"),
    path("wall/pair/done/", pairing.paired, name="paired"),
    path("tokens/", tokens.tokens, name="tokens"),
    path("tokens/<slug:prefix>/revoke/", tokens.revoke, name="revoke"),
    path("receipts/<slug:event_id>/", receipt.receipt, name="receipt"),
    path("runs/<entity:run_id>/", run.run, name="run"),
    path("runs/<entity:run_id>/journal/", run.journal, name="run_journal"),
    path(MACHINE, machine.machine, name="machine"),
    path(f"{MACHINE}~views/", views.views, name="views"),
    path(f"{MACHINE}~views/save/", views.save_view, name="save_view"),
    path(f"{MACHINE}~views/<int:view_id>/drop/", views.drop_view, name="drop_view"),
    path(f"{MACHINE}~select/", bulk.select, name="select"),
    path(f"{MACHINE}~matching/", bulk.matching, name="matching"),
    path(f"{MACHINE}~selection/<int:selection_id>/", bulk.confirm, name="bulk"),
    path("bulk/<slug:job_id>/", bulk.job, name="bulk_job"),
    path(ENTITY, entity.entity, name="entity"),
    path(f"{ENTITY}why/", why.why, name="why"),
    path(f"{ENTITY}proof/", proof.proof, name="proof"),
    path(f"{ENTITY}retry/", retry.retry, name="retry"),
    path(f"{ENTITY}force/", force.force, name="force"),
    path(f"{ENTITY}move/<slug:trigger>/", move.move, name="move"),
]
