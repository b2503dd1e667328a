"""The routes of the monitoring calls."""

from django.urls import path

from . import board, journal, machines, proofs

urlpatterns = [
    path("machines/", machines.Machines.as_view(), name="machines"),
    path("machines/<str:entity_type>/", machines.Machine.as_view(), name="machine"),
    path("machines/<str:entity_type>/diagram.svg", machines.SvgDiagram.as_view(), name="machine-svg"),
    path("machines/<str:entity_type>/diagram.mmd", machines.MermaidDiagram.as_view(), name="machine-mermaid"),
    path("stats/", board.Stats.as_view(), name="stats"),
    path("stuck/", board.Stuck.as_view(), name="stuck"),
    path("alerts/", board.Alerts.as_view(), name="alerts"),
    path("alerts/<int:alert_id>/acknowledge/", board.Acknowledge.as_view(), name="acknowledge"),
    path("overrides/", journal.Overrides.as_view(), name="overrides"),
    path("events/", journal.Events.as_view(), name="events"),
    path("audit/accounts/", journal.AccountEntries.as_view(), name="audit-accounts"),
    path("audit/epochs/", journal.Epochs.as_view(), name="audit-epochs"),
    path("audit/verify/", journal.Verify.as_view(), name="verify"),
    path("audit/key/", proofs.Key.as_view(), name="audit-key"),
    path("audit/checkpoint/", proofs.NewestCheckpoint.as_view(), name="audit-checkpoint"),
    path("audit/proof/", proofs.Proof.as_view(), name="audit-proof"),
    path("audit/witnesses/", proofs.Witnesses.as_view(), name="audit-witnesses"),
    path("audit/cosignatures/", proofs.Cosignatures.as_view(), name="audit-cosignatures"),
    path("audit/consistency/", proofs.Consistency.as_view(), name="audit-consistency"),
    path("runs/<str:run_id>/at/", journal.RunAt.as_view(), name="run-at"),
]
