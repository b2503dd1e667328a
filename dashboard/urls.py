"""The addresses of the console."""

from django.urls import path, register_converter

from statecore.kernel.ulid import ID_PATTERN

from .pages import (
    alerts,
    audit,
    entity,
    force,
    login,
    machine,
    move,
    overrides,
    overview,
    preferences,
    proof,
    receipt,
    retry,
    run,
    start,
    stuck,
    tokens,
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
    path("logout/", login.Logout.as_view(), name="logout"),
    path("preferences/", preferences.preferences, name="preferences"),
    path("start/", start.start, name="start"),
    path("stuck/", stuck.stuck, name="stuck"),
    path("stuck/<slug:collection>/<entity:entity_id>/approve/", stuck.approve, name="approve"),
    path("alerts/", alerts.alerts, name="alerts"),
    path("alerts/<int:alert_id>/acknowledge/", alerts.acknowledge, name="acknowledge"),
    path("overrides/", overrides.overrides, name="overrides"),
    path("audit/", audit.audit, name="audit"),
    path("audit/export/", audit.export, name="audit_export"),
    path("audit/verify/", audit.verify, name="audit_verify"),
    path("tokens/", tokens.tokens, name="tokens"),
    path("tokens/<slug:prefix>/revoke/", tokens.revoke, name="revoke"),
    path("receipts/<slug:event_id>/", receipt.receipt, name="receipt"),
    path("runs/<entity:run_id>/", run.run, name="run"),
    path("runs/<entity:run_id>/journal/", run.journal, name="run_journal"),
    path(MACHINE, machine.machine, name="machine"),
    path(ENTITY, entity.entity, name="entity"),
    path(f"{ENTITY}why/", why.why, name="why"),
    path(f"{ENTITY}proof/", proof.proof, name="proof"),
    path(f"{ENTITY}retry/", retry.retry, name="retry"),
    path(f"{ENTITY}force/", force.force, name="force"),
    path(f"{ENTITY}move/<slug:trigger>/", move.move, name="move"),
]
