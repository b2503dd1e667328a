"""The addresses of what screens ask."""

from django.urls import path

from . import board, journal, machines

urlpatterns = [
    path("machines/", machines.Machines.as_view(), name="machines"),
    path("machines/<str:entity_type>/", machines.Machine.as_view(), name="machine"),
    path("machines/<str:entity_type>/diagram.svg", machines.Drawing.as_view(), name="machine-drawing"),
    path("machines/<str:entity_type>/diagram.mmd", machines.Mermaid.as_view(), name="machine-mermaid"),
    path("stats/", board.Stats.as_view(), name="stats"),
    path("stuck/", board.Stuck.as_view(), name="stuck"),
    path("alerts/", board.Alerts.as_view(), name="alerts"),
    path("alerts/<int:alert_id>/acknowledge/", board.Acknowledge.as_view(), name="acknowledge"),
    path("overrides/", journal.Overrides.as_view(), name="overrides"),
    path("events/", journal.Events.as_view(), name="events"),
    path("audit/verify/", journal.Verify.as_view(), name="verify"),
    path("runs/<str:run_id>/at/", journal.RunAt.as_view(), name="run-at"),
]
