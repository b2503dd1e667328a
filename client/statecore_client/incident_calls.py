"""The calls of incidents and the silences of alerts."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from .call import Call, build_path, call, drop_none, paged_call
from .connection import Connection
from .readers import read_as, read_object, read_page_of
from .records import Incident, Json, Page, StuckEntity


class IncidentCalls(Connection):
    @paged_call
    def list_incidents(self, /, **filters: Any) -> Call[Page[Incident]]:
        """Yields incidents, newest first."""
        return Call("GET", build_path("incidents"), read_page_of(read_as(Incident)), params=filters)

    @call
    def get_incident(self, incident_id: int) -> Call[Incident]:
        """Returns an incident with the suggested actions that you may take."""
        return Call("GET", build_path("incidents", str(incident_id)), read_as(Incident))

    @paged_call
    def list_incident_entities(self, incident_id: int, /) -> Call[Page[StuckEntity]]:
        """Yields the entities that hang on an incident, longest overdue first."""
        path = build_path("incidents", str(incident_id), "entities")
        return Call("GET", path, read_page_of(read_as(StuckEntity)))

    @paged_call
    def list_incident_history(self, incident_id: int, /) -> Call[Page[Json]]:
        """Yields what happened to an incident, newest first."""
        return Call("GET", build_path("incidents", str(incident_id), "history"), read_page_of(read_object))

    @call
    def acknowledge_incident(
        self,
        incident_id: int,
        *,
        note: str = "",
        expected_version: int | None = None,
        request_id: str | None = None,
    ) -> Call[Incident]:
        """Records that you are working on the incident, and returns it."""
        body = drop_none(note=note, expected_version=expected_version)
        path = build_path("incidents", str(incident_id), "acknowledge")
        return Call("POST", path, read_as(Incident), body=body, keyed=True, request_id=request_id)

    @call
    def assign_incident(
        self,
        incident_id: int,
        owner: str,
        *,
        note: str = "",
        expected_version: int | None = None,
        request_id: str | None = None,
    ) -> Call[Incident]:
        """Sets the owner of the incident, an account of the server; an empty name removes it."""
        body = drop_none(owner=owner, note=note, expected_version=expected_version)
        path = build_path("incidents", str(incident_id), "assign")
        return Call("POST", path, read_as(Incident), body=body, keyed=True, request_id=request_id)

    @call
    def snooze_incident(
        self,
        incident_id: int,
        until: datetime | None,
        *,
        note: str = "",
        expected_version: int | None = None,
        request_id: str | None = None,
    ) -> Call[Incident]:
        """Keeps the incident from being listed and escalated until a time; None ends that."""
        end = until.isoformat() if until else None
        body = {"until": end, **drop_none(note=note, expected_version=expected_version)}
        path = build_path("incidents", str(incident_id), "snooze")
        return Call("POST", path, read_as(Incident), body=body, keyed=True, request_id=request_id)

    @call
    def note_incident(
        self, incident_id: int, note: str, *, expected_version: int | None = None, request_id: str | None = None
    ) -> Call[Incident]:
        """Adds a note to the history of the incident."""
        body = drop_none(note=note, expected_version=expected_version)
        path = build_path("incidents", str(incident_id), "notes")
        return Call("POST", path, read_as(Incident), body=body, keyed=True, request_id=request_id)

    @call
    def silence_alert(self, alert_id: int, until: datetime | None, *, request_id: str | None = None) -> Call[Json]:
        """Keeps the alert from sending notifications until a time; None ends that."""
        body = {"until": until.isoformat() if until else None}
        path = build_path("alerts", str(alert_id), "silence")
        return Call("POST", path, read_object, body=body, keyed=True, request_id=request_id)
