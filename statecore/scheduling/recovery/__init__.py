"""Recovery of stuck entities, automatic or approved by an operator."""

from .definition import APPROVAL, AUTO, OPERATOR, Proposal, Recovery
from .sweep import (
    RECOVERIES,
    approve_recovery,
    build_approval_condition,
    find_awaiting_approval,
    propose_recovery,
    recover_stalled,
    settings_name_recoveries,
)

__all__ = [
    "APPROVAL",
    "AUTO",
    "OPERATOR",
    "RECOVERIES",
    "Proposal",
    "Recovery",
    "approve_recovery",
    "build_approval_condition",
    "find_awaiting_approval",
    "propose_recovery",
    "recover_stalled",
    "settings_name_recoveries",
]
