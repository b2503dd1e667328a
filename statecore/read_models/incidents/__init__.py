"""Incidents as users see them: the list, what hangs on one, and the suggested actions."""

from .entities import EntityPage, read_entities
from .listing import (
    IncidentFilter,
    IncidentPage,
    describe_impact,
    find_open,
    is_shown,
    list_incidents,
    list_newest,
    read_summary,
    serialize_incident,
    summarize,
)
from .root_cause import RootCause, identify_cause
from .suggestions import Suggestion, allow_suggestions, suggest_actions

__all__ = [
    "EntityPage", "IncidentFilter", "IncidentPage", "RootCause", "Suggestion", "allow_suggestions",
    "describe_impact", "find_open",
    "identify_cause", "is_shown", "list_incidents", "list_newest", "read_entities", "read_summary",
    "serialize_incident", "suggest_actions", "summarize",
]  # fmt: skip
