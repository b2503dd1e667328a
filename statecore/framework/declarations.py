"""Everything that the file of a machine may import. The machines of Statecore import nothing else of it."""

from __future__ import annotations

from ..kernel import clock, constraints
from ..kernel.actors import AGENT, IDENTITY_LENGTH, INTEGRATOR, OPERATOR, SYSTEM, Actor, Kind
from ..kernel.actors import NAME_LENGTH as ACTOR_NAME_LENGTH
from ..kernel.clock import format_utc, rfc3339
from ..kernel.constraints import (
    Invariant,
    SqlLiteral,
    awaited_by_state,
    is_live,
    live_by_state,
    lost_by_parent,
    open_by_parent,
)
from ..kernel.entity import Entity, HeartbeatEntity, LinkedEntity
from ..kernel.fields import STATE_LENGTH, StateField, related
from ..kernel.flow import Flow, Rest, Succession
from ..kernel.ids import ID_LENGTH, IdField, is_valid_id
from ..kernel.limits import ANY, AtMost, BytesAtMost, ListedProgram
from ..kernel.refusals import GuardFailed, Unmet
from ..kernel.repositories import DEFAULT as DEFAULT_REPOSITORY
from ..kernel.repositories import NAME_LENGTH as REPOSITORY_NAME_LENGTH
from ..kernel.transition import (
    Facts,
    Severity,
    TransitionKind,
    future_time_error,
    the_attempt_is_current,
    transition,
)
from ..kernel.validation import validate_affinity, validate_exit_codes, validate_tool, validate_word_list
from ..records.hold import Hold, select_active
from ..storage.links import (
    CountRows,
    Linked,
    all_inside,
    all_outside,
    cached_for_batch,
    first_outside,
    has_linked,
    has_no_successor,
    has_part,
    has_rows,
    read_links,
    related_column,
)

__all__ = [
    "ACTOR_NAME_LENGTH", "AGENT", "ANY", "DEFAULT_REPOSITORY", "IDENTITY_LENGTH", "ID_LENGTH", "INTEGRATOR",
    "OPERATOR", "REPOSITORY_NAME_LENGTH", "STATE_LENGTH", "SYSTEM", "Actor", "AtMost", "BytesAtMost", "CountRows",
    "Entity", "Facts", "Flow", "GuardFailed", "HeartbeatEntity", "Hold", "IdField", "Invariant", "Kind", "Linked",
    "LinkedEntity", "ListedProgram", "Rest", "Severity", "SqlLiteral", "StateField", "Succession", "TransitionKind",
    "Unmet", "all_inside", "all_outside", "awaited_by_state", "cached_for_batch", "clock", "constraints",
    "first_outside", "format_utc", "future_time_error", "has_linked", "has_no_successor", "has_part", "has_rows",
    "is_live", "is_valid_id", "live_by_state", "lost_by_parent", "open_by_parent", "read_links", "related",
    "related_column", "rfc3339", "select_active", "the_attempt_is_current", "transition", "validate_affinity",
    "validate_exit_codes", "validate_tool", "validate_word_list",
]  # fmt: skip
