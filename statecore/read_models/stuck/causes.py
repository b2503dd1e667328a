"""Why an entity does not progress: a cause that is specific to its machine, or one derived from the declaration.

A cause is another entity, for which this one waits, or a description, if this entity is the root cause. Information
about machines that the user may not see is removed here, for every page and API call.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from ...kernel import phrasing
from ...kernel.entity import Entity
from ...kernel.flow import Rest
from . import executor_causes, plan_causes
from .transition_checks import check_transitions
from .visibility import HIDDEN, VisibleMachines, is_visible
from .waits import Cause, Detail, Wait

CAUSES: dict[str, Callable[[Any, datetime], Cause]] = {**plan_causes.CAUSES, **executor_causes.CAUSES}

# Descriptions of ended entities that others wait for, where an operator has to decide what happens next.
NEEDS_DECISION: dict[str, Callable[[Any, datetime], str]] = {
    "workstream": lambda workstream, at: phrasing.relative_clause(phrasing.format_state(workstream)),
    "task": lambda task, at: phrasing.relative_clause(phrasing.describe_end(task, at)),
    "patch_ledger": lambda patch, at: phrasing.relative_clause(phrasing.describe_end(patch, at)),
}


def find_cause(entity: Entity, at: datetime, visible: VisibleMachines = None) -> Wait | Detail:
    """Returns the entity for which this one waits, or a description of its state if there is none."""
    find_known = CAUSES.get(entity.flow.entity_type)
    cause = (find_known(entity, at) if find_known else "") or _describe_declared(entity, at, visible)
    if isinstance(cause, Wait):
        return cause if is_visible(visible, cause.entity.flow.entity_type) else Detail(f"{cause.relation} {HIDDEN}")
    if isinstance(cause, Detail):
        if not cause.about or is_visible(visible, cause.about):
            return cause
        return Detail(phrasing.describe_state(entity, at, f"it waits for {HIDDEN}"))
    return Detail(cause)


def describe_final(entity: Entity, at: datetime) -> str:
    """Describes an ended entity that another one still waits for."""
    describe = NEEDS_DECISION.get(entity.flow.entity_type)
    return f"{describe(entity, at)}: needs a decision" if describe else phrasing.describe_end(entity, at)


def _describe_declared(entity: Entity, at: datetime, visible: VisibleMachines) -> str:
    """Describes the state by its declaration: why it may rest, which triggers are open, or which guards are unmet."""
    timing = entity.flow.timing.get(entity.state)
    if isinstance(timing, Rest):
        return phrasing.describe_state(entity, at, timing.because)
    checks = check_transitions(entity, at, visible=visible)
    if triggers := dict.fromkeys(check.trigger for check in checks if check.allowed):
        return phrasing.describe_state(entity, at, f"it waits for {' or '.join(triggers)}")
    unmet = dict.fromkeys(reason.detail for check in checks for reason in check.unmet)
    return phrasing.describe_state(entity, at, "; ".join(unmet))
